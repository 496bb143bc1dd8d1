"""TransformGetItemToIndex, in which indices are tensors, is captured."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from ...semantics.harness import strict_compile

ONE, TWO = torch.tensor(1), torch.tensor(2)
BIAS = torch.arange(64.0).view(8, 8)
DOCUMENTS = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2])


def square(n):
    return torch.arange(float(n * n)).view(n, n)


def indices(x):
    with TransformGetItemToIndex():
        inside = x[ONE, TWO], x[TWO], x[0], x[[0, 1]], x[True], x[1, TWO], x[(0, (1,))]
        torchs = x[:, 1], x[ONE, None], x[..., 0], x[None]
    return inside, torchs, x[0]


def index_that_varies(x, i):
    with TransformGetItemToIndex():
        return x[i] + 1


def inside_vmap(n):
    def score(i, j):
        return BIAS[i, j] > 3

    with TransformGetItemToIndex():
        return torch.vmap(torch.vmap(score, (None, 0)), (0, None))(torch.arange(n), torch.arange(n))


def document(b, h, q, k):
    return (q >= k) & (DOCUMENTS[q] == DOCUMENTS[k])


def mask(n):
    return create_mask(document, 1, 1, n, n, device="cpu")


def block_mask(n):
    made = create_block_mask(document, 1, 1, n, n, device="cpu", BLOCK_SIZE=2)
    return made.kv_num_blocks, made.kv_indices, made.to_dense()


def with_a_break(x, i):
    with TransformGetItemToIndex():
        y = x[i]
        print(end="")
        z = x[i, 0] * 2
    return y + z, x[0]


def with_gradients(x, i):
    with TransformGetItemToIndex():
        y = x[i] * 2
    return y.sum() + x[0].sum()


def with_an_error(x, i):
    try:
        with TransformGetItemToIndex():
            x[i, i, i]
    except IndexError:
        pass
    return x[i], x[0]


def leaves(found):
    return (
        [leaf for part in found for leaf in leaves(part)] if isinstance(found, tuple) else [found]
    )


def is_equal(found, expected):
    return all(
        torch.equal(one, other)
        and one.stride() == other.stride()
        and one.data_ptr() % 8 == other.data_ptr() % 8
        for one, other in zip(leaves(found), leaves(expected), strict=True)
    )


PROGRAMS = {
    "indices": (indices, [(square(n),) for n in (3, 4, 5)]),
    "a number that varies": (index_that_varies, [(square(4), i) for i in (0, 1, 2, 3)]),
    "in vmap": (inside_vmap, [(n,) for n in (8, 7, 6)]),
    "mask": (mask, [(n,) for n in (8, 7, 6)]),
    "mask of blocks": (block_mask, [(n,) for n in (8, 4, 6)]),
}


@pytest.mark.parametrize("program, calls", PROGRAMS.values(), ids=PROGRAMS)
def test_the_mode_is_captured(program, calls):
    compiled = strict_compile(program)
    for args in calls:
        assert is_equal(compiled(*args), program(*args))
    report = compiled.framejit.explain()
    assert not report.breaks
    assert len(report.captures) <= 2


@pytest.mark.parametrize("program", [with_a_break, with_an_error])
def test_breaks_inside_the_mode(program):
    compiled = strict_compile(program)
    for number in (0, 1, 2, 1):
        args = square(3), torch.tensor(number)
        assert is_equal(compiled(*args), program(*args))


def test_gradients_are_left_to_the_mode():
    compiled = strict_compile(with_gradients)
    for number in (0, 1, 2):
        ours, eagers = square(3).requires_grad_(), square(3).requires_grad_()
        compiled(ours, torch.tensor(number)).backward()
        with_gradients(eagers, torch.tensor(number)).backward()
        assert torch.equal(ours.grad, eagers.grad)


def test_the_views_of_the_mode_are_copies():
    def program(x):
        with TransformGetItemToIndex():
            copy = x[0]
        copy.add_(1)
        x[1].add_(1)
        return copy

    compiled, ours, eagers = strict_compile(program), square(3), square(3)
    assert torch.equal(compiled(ours), program(eagers))
    assert torch.equal(ours, eagers)
    assert not compiled.framejit.explain().breaks
