"""Results of operators on operands with symbols, found with static tensors."""

from __future__ import annotations

import logging

import pytest
import torch
from framejit.frontend.tracing.fake_tensors import static_twins
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch._dynamo.source import ConstantSource
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._pytree import tree_leaves


def test_a_symbol_that_is_known_to_be_a_number_fits_an_operand_of_that_size(monkeypatch):
    """torch would log an error of the operator on the static tensors, for the user to read."""
    logged = []
    monkeypatch.setattr(logging.Logger, "exception", lambda *args: logged.append(args))
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    context = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * 2, constraint_sizes=[None] * 2
    )
    x = mode.from_tensor(torch.ones(5, 6), static_shapes=False, symbolic_context=context)
    row = mode.from_tensor(torch.ones(6), static_shapes=True)
    with mode:
        assert x.shape[1] == 6
        angles = torch.atan2(x, row)
    assert angles.shape == x.shape
    assert not logged


def symbolic(mode, real):
    """A fake tensor with symbols for all sizes that are no powers of two."""
    dims = [DimDynamic.DYNAMIC if size & (size - 1) else DimDynamic.STATIC for size in real.shape]
    context = StatelessSymbolicContext(dynamic_sizes=dims, constraint_sizes=[None] * real.dim())
    return mode.from_tensor(real, static_shapes=False, symbolic_context=context)


def ones(*sizes):
    return lambda: torch.ones(sizes)


def numbers(*sizes):
    return lambda: torch.ones(sizes, dtype=torch.int64)


CASES = {
    "two operands make the sizes": (torch.mul, ones(1, 5, 1), ones(8)),
    "equal sizes of other tensors": (torch.atan2, ones(5, 6), ones(5, 6)),
    "rows in a wider memory": (torch.neg, lambda: torch.ones(4, 7, 16)[..., :8]),
    "dimensions in another order": (
        torch.add,
        lambda: torch.ones(2, 5, 4, 16).transpose(1, 2),
        ones(1, 1, 5, 16),
    ),
    "a mask": (torch.bitwise_and, lambda: torch.ones(1, 1, 5, 1).bool(), lambda: torch.ones(3, 1, 1, 7).bool()),
    "lookup": (torch.nn.functional.embedding, numbers(4, 5), ones(12, 6)),
    "items by indices": (lambda x, rows, columns: x[rows, columns], ones(7, 9), numbers(3, 1), numbers(1, 4)),
    "loss": (torch.nn.functional.nll_loss, ones(6, 3), numbers(6)),
    "sum": (lambda x: x.sum(0), numbers(5, 6)),
    "zeros of a size that varies": (lambda x: x.new_zeros(x.shape[0], 3), ones(5, 6)),
    "halves of rows": (lambda x: torch.cat((-x[..., 4:], x[..., :4]), -1), ones(4, 7, 8)),
    "item at a size": (lambda x: torch.ones(9, 4, 3).select(1, x.shape[0]), ones(3)),
    "as many items as a size": (lambda x: torch.ones(9, 4)[:, : x.shape[0]], ones(3)),
    "nothing before it": (lambda x: torch.cat([torch.ones(0), x], -2), ones(2, 5, 6)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_are_eagers_and_torch_calculates_none(case, monkeypatch):
    run, *makers = CASES[case]
    reals = [make() for make in makers]
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    fakes = [symbolic(mode, real) for real in reals]
    calculated = []
    dispatch = FakeTensorMode.dispatch

    def count(self, func, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs or {}))
        calculated.extend(func for one in leaves if varies(one))
        return dispatch(self, func, types, args, kwargs)

    monkeypatch.setattr(FakeTensorMode, "dispatch", count)
    with mode:
        found = run(*fakes)
    expected = run(*reals)
    assert not calculated
    assert [*map(hint, found.shape)] == [*expected.shape]
    assert [*map(hint, found.stride())] == [*expected.stride()]
    assert found.dtype == expected.dtype


def varies(operand):
    if isinstance(operand, torch.Tensor):
        return operand._has_symbolic_sizes_strides
    return isinstance(operand, torch.SymInt)


def hint(size):
    return size.node.hint if isinstance(size, torch.SymInt) else size


def test_a_size_that_the_primes_divide_is_left_to_torch():
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    x = symbolic(mode, torch.ones(5, 1))
    wide = mode.from_tensor(torch.empty(1, static_twins.PRIMES[0]), static_shapes=True)
    with mode:
        assert (x * wide).shape[1] == static_twins.PRIMES[0]


def test_an_operator_that_refuses_the_twins_logs_nothing():
    """Two symbols that are equal by a guard stand for different primes."""
    heard = []
    handler = logging.Handler()
    handler.emit = heard.append
    fake_tensor.log.addHandler(handler)
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    x, positions = (
        mode.from_tensor(
            tensor,
            static_shapes=False,
            symbolic_context=StatelessSymbolicContext(
                dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC], constraint_sizes=[None] * 2
            ),
            source=ConstantSource(name),
        )
        for name, tensor in {"x": torch.ones(5, 3), "at": torch.zeros(5, 1).long()}.items()
    )
    try:
        with mode:
            assert x.gather(1, positions).shape == positions.shape
    finally:
        fake_tensor.log.removeHandler(handler)
    assert not heard
