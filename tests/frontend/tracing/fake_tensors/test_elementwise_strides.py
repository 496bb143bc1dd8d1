"""Results of elementwise operators by rule have the strides of real ones, in every layout."""

from __future__ import annotations

import random

import pytest
import torch
from framejit.frontend.tracing.fake_tensors.elementwise_strides import result_layout
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from framejit.frontend.tracing.fake_tensors.fake_rules import FakeRules

aten = torch.ops.aten
OF_ONE = (aten.sin.default, aten.neg.default, aten.gelu.default, aten.silu.default)
OF_TWO = (aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.lt.Tensor)
WITH_NUMBER = (aten.mul.Tensor, aten.mul.Scalar, aten.pow.Tensor_Scalar, aten.eq.Scalar)


def make_tensor(draw, sizes, dtype=torch.float32):
    """A tensor whose dimensions lie in any order, with gaps, or that repeats its elements."""
    order = list(range(len(sizes)))
    if draw.random() < 0.6:
        draw.shuffle(order)
    whole = [size * draw.choice([1, 1, 1, 2]) for size in sizes]
    tensor = torch.ones([whole[dim] for dim in order], dtype=dtype)
    tensor = tensor.permute([order.index(dim) for dim in range(len(sizes))])
    for dim, size in enumerate(sizes):
        tensor = tensor.narrow(dim, 0, size)
    if len(sizes) == 4 and draw.random() < 0.2:
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def make_call(draw):
    """An operator, and operands that broadcast."""
    sizes = [draw.choice([1, 1, 2, 3]) for _ in range(draw.randrange(6))]
    part = [draw.choice([size, size, 1]) for size in sizes][draw.randrange(2) * len(sizes) // 2 :]
    first = make_tensor(draw, sizes)
    match draw.randrange(5):
        case 0:
            return draw.choice(OF_ONE), (first,)
        case 1:
            return draw.choice(WITH_NUMBER), (first, draw.choice([2, 0.5]))
        case 2:
            condition = make_tensor(draw, sizes, torch.bool)
            return aten.where.self, (condition, first, make_tensor(draw, part))
        case _:
            other = make_tensor(draw, draw.choice([sizes, part]))
            return draw.choice(OF_TWO), draw.choice([(first, other), (other, first)])


@pytest.mark.parametrize("seed", range(4))
def test_a_result_is_laid_out_like_a_real_one(seed):
    draw = random.Random(seed)
    for _ in range(150):
        function, args = make_call(draw)
        mode = CaptureFakeMode()
        fakes = [
            mode.from_tensor(one, static_shapes=True) if is_tensor(one) else one for one in args
        ]
        found, real = FakeRules(mode).results(function, fakes, {}), function(*args)
        shown = [(one.shape, one.stride()) if is_tensor(one) else one for one in args]
        assert found is not None, (function, shown)
        assert (found.shape, found.stride(), found.dtype) == (
            real.shape, real.stride(), real.dtype,
        ), (function, shown)  # fmt: skip


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def test_what_does_not_broadcast_has_no_layout():
    assert result_layout([torch.ones(2, 3), torch.ones(2, 2)], with_number=False) is None
    assert result_layout([torch.ones(0, 3)], with_number=True) is None
    assert result_layout([torch.ones(3, 1), torch.ones(2)], with_number=False) == ((3, 2), (2, 1))
