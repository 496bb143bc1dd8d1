"""Names of inputs."""

from __future__ import annotations

import framejit
import pytest
import torch


def of_self(self):
    return self * 2


def of_operator(sin, other):
    return sin.sin() + other


@pytest.mark.parametrize(("function", "count"), [(of_self, 1), (of_operator, 2)])
def test_inputs_named_like_what_generated_code_uses(function, count):
    """The graph's forward has a parameter `self` of its own; its nodes are named like operators."""
    graphs = []

    def keep(gm, examples):
        graphs.append(gm)
        return gm.forward

    args = [torch.randn(3) for _ in range(count)]
    torch.testing.assert_close(framejit.compile(function, backend=keep)(*args), function(*args))
    torch.testing.assert_close(graphs[0](*args)[0], function(*args))
