"""Writes to tensors of inference mode, which torch does not count, are recognised like other
writes."""

from __future__ import annotations

import framejit
import pytest
import torch

from ...frontend.semantics.harness import vec

BACKENDS = ("eager", "aot_eager", "native")


def itself(x, y):
    return x.mul_(2).t()


def a_window(x, y):
    row = x[0]
    row.add_(1)
    return row


def beside(x, y):
    x.mul_(y)
    return y + 1, x.view(-1)


def by_its_parts(x, y):
    one, _ = x.split([1, 3])
    one.copy_(y[:1])
    return x[1:]


def by_an_operator(x, y):
    x += y
    x[0] = 3
    return x[:2]


def by_out(x, y):
    torch.add(y, 1, out=x)
    return x.t()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [itself, a_window, beside, by_its_parts, by_an_operator, by_out], ids=lambda f: f.__name__
)
def test_results_share_their_memory(f, backend):
    with torch.inference_mode():
        x, y, expected = vec(4, 3).clone(), vec(4, 3).clone(), vec(4, 3).clone()
        expected_result = f(expected, y)
        result = framejit.compile(f, backend=backend)(x, y)
        last, expected_last = (
            r[-1] if isinstance(r, tuple) else r for r in (result, expected_result)
        )
        assert torch.equal(x, expected)
        assert torch.equal(last, expected_last)
        x.zero_()
        assert not last.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_behind_a_write(backend):
    def f(x, index):
        x.add_(1)
        return vec(3)[index] + x.sum()

    with torch.inference_mode():
        x = torch.zeros(3)
        compiled = framejit.compile(f, backend=backend)
        compiled(x, torch.tensor([1]))
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([7]))
        assert x.tolist() == [2, 2, 2]


def test_what_is_only_read_is_not_written():
    told = []

    def backend(gm, examples):
        told.append([node.meta["mutated"] for node in gm.graph.find_nodes(op="placeholder")])
        return gm.forward

    def f(x, y, z):
        z.view(-1).sub_(1)
        return (x * y).add_(y.t().t()).relu_()

    with torch.inference_mode():
        framejit.compile(f, backend=backend)(
            vec(3, 3).clone(), vec(3, 3).clone(), vec(3, 3).clone()
        )
    assert [sorted(flags) for flags in told] == [[False, False, True]]
