"""Calls that raise in the middle of a graph: Python runs the call from the state before."""

import framejit
import pytest
import torch


def written_beside_one_of_several_views(a, b):
    first = a.chunk(2)[0]
    print(end="")
    before = first.clone()
    b.masked_fill_(b > 1, 1)
    return before, first.clone()  # torch refuses to read it: the memory of a was written


def left_by(function):
    base = torch.arange(8.0).requires_grad_() * 1
    a, b = base[:4], base.detach()[::2]
    with pytest.raises(RuntimeError, match="is a view and its base") as raised:
        function(a, b)
    return base.tolist(), b._version, raised.value.__traceback__.tb_next is not None


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_was_written_before_an_error_stays_written(backend):
    compiled = framejit.compile(written_beside_one_of_several_views, backend=backend)
    for _ in range(2):
        assert left_by(compiled) == left_by(written_beside_one_of_several_views)
