"""What NumPy warns of, or raises, as numpy.errstate says. A graph does neither, so it is expected
that there is nothing to warn of."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ModuleSource
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..tensor.tensor import TensorValue
from .expected_result import numpy

INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})


def expect_finite(tx: TraceContext, result: TensorValue, name: str) -> None:
    """Expects that an operation gives finite numbers: of others NumPy may warn, or raise, as
    numpy.errstate says. Underflow leaves no trace in the result."""
    expect_underflow_ignored(tx)
    dtype: dict[str, Value] = (
        {"dtype": Constant(torch.float32)} if result.fake.dtype is torch.float16 else {}
    )
    total = tx.graph.call("call_method", "sum", [result], dtype)
    fact = tx.graph.function(torch.isfinite, total)
    tx.graph.expect(
        fact, GraphBreak("unknown-call", f"numpy.{name}, which may warn of its result,")
    )


def expect_exact_cast(tx: TraceContext, tensor: TensorValue, result: TensorValue) -> None:
    """Expects that numbers fit into the integers to which they are cast."""
    if not tensor.fake.is_floating_point() or result.fake.dtype not in INTEGERS:
        return
    info = torch.iinfo(result.fake.dtype)
    low = tx.graph.function(torch.gt, tensor, Constant(float(info.min) - 1.0))
    high = tx.graph.function(torch.lt, tensor, Constant(float(info.max) + 1.0))
    both = tx.graph.function(torch.logical_and, low, high)
    fact = tx.graph.call("call_method", "all", [both], {})
    tx.graph.expect(fact, GraphBreak("unknown-call", "astype() of numbers that do not fit"))


def expect_in_range(tx: TraceContext, sign: str, number: Value, dtype: torch.dtype) -> None:
    """Expects that the result of an operator of integer scalars, given in double precision, is far
    from an overflow."""
    limits = torch.iinfo(dtype)
    low = tx.graph.function(torch.ge, number, Constant(float(limits.min // 2)))
    high = tx.graph.function(torch.le, number, Constant(float(limits.max // 2)))
    fact = tx.graph.function(torch.logical_and, low, high)
    assert isinstance(fact, TensorValue)
    stop = GraphBreak(
        "unknown-call", f"`{sign}` of NumPy's integer scalars, which may warn of an overflow,"
    )
    tx.graph.expect(fact, stop)


def expect_underflow_ignored(tx: TraceContext) -> None:
    if not ignores_underflow(numpy()):
        raise GraphBreak("unknown-call", "NumPy where it reports underflow")
    tx.guards.add(ModuleSource("numpy"), Kind.PYTHON, ("it ignores underflow", ignores_underflow))


def ignores_underflow(module: Any) -> bool:
    """Whether numpy.errstate() or numpy.seterr() lets results underflow, as they do by default."""
    return module.geterr()["under"] == "ignore"
