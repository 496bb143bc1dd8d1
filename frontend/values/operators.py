"""Operators: which family decides what `a + b`, `a < b`, `-a` mean.

Numbers that vary, tensors, and objects decide for both operands, in this order; then literals are
computed. The rest are builtin objects: first the left operand's `operate` or `compare`, then the
right one's.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import GraphBreak
from .base import Value
from .constant import Constant, fold
from .containers import set_algebra  # noqa: F401 - methods by which operators go
from .containers.sequence import TupleValue
from .context import TraceContext
from .deferred_literal import concatenate_texts, format_template
from .numpy.array_operators import call_on_arrays
from .numpy.numpy_number import operate_on_scalar
from .objects.special_methods import compare_by_methods, has_custom_getattr, operate_by_methods
from .objects.user_object import UserObject
from .operation import BINARY, COMPARE, UNARY, Operation
from .tensor.number_arithmetic import calculate_operation, calculate_unary
from .tensor.opaque_tensor import OpaqueTensor
from .tensor.tensor import TensorValue

Rule = Callable[["TraceContext", Operation, Value, Value], Value | None]


def binary(tx: TraceContext, sign: str, left: Value, right: Value) -> Value:
    """left sign right; `sign` may be in place ("+=")."""
    op = BINARY[sign]
    result = (
        first_answer(BINARY_RULES, tx, op, left, right)
        or left.operate(tx, op, right)
        or right.operate_reflected(tx, op, left)
    )
    if result is not None:
        return result
    if left.is_constant() and right.is_constant():
        return fold(tx, op.written, [left, right], {})
    raise GraphBreak("unsupported-operator", f"{left.describe()} {sign} {right.describe()}")


def compare(tx: TraceContext, sign: str, left: Value, right: Value) -> Value:
    """left sign right for the six comparisons."""
    op = COMPARE[sign]
    result = first_answer(COMPARE_RULES, tx, op, left, right)
    if result is not None:
        return result
    constant = left.is_constant() and right.is_constant()
    if constant and not (left.varies() or right.varies()):
        return fold(tx, op.function, [left, right], {})
    result = left.compare(tx, op, right) or right.compare_reflected(tx, op, left)
    if result is not None:
        return result
    if constant:
        return fold(tx, op.function, [left, right], {})
    if op.is_equality:
        return Constant(op.answer(tx.objects.is_same(left, right)))
    raise GraphBreak("unsupported-operator", f"{left.describe()} {sign} {right.describe()}")


def unary(tx: TraceContext, sign: str, value: Value) -> Value:
    """`-value`, `+value`, `~value` or `not value`."""
    if sign == "not":
        return Constant(not value.truth(tx))
    op = UNARY[sign]
    result = value.apply_unary(tx, op) or calculate_unary(tx, op, value)
    return fold(tx, op.function, [value], {}) if result is None else result


def is_equal(tx: TraceContext, left: Value, right: Value) -> bool:
    """`left is right or left == right`, as containers compare their items. Ints and texts that
    vary are compared by `==` only: it holds wherever `is` does, and `is` would specialise them."""
    by_value = (left.varies() or right.varies()) and left.python_type() in (int, str)
    same = left is right if by_value else tx.objects.is_same(left, right)
    return same or compare(tx, "==", left, right).truth(tx)


def contains(tx: TraceContext, item: Value, container: Value) -> bool:
    """item in container."""
    return container.contains(tx, item).truth(tx)


# rules for both operands


def first_answer(
    rules: tuple[Rule, ...], tx: TraceContext, op: Operation, left: Value, right: Value
) -> Value | None:
    """The result of the first rule that handles the operator; None if none does."""
    for rule in rules:
        result = rule(tx, op, left, right)
        if result is not None:
            return result
    return None


def operate_on_text(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """left % right and left + right of texts with numbers that vary; None for others, which are
    computed now."""
    if op.symbol not in ("+", "%") or left.python_type() is not str or not left.is_constant():
        return None
    if op.symbol == "+":
        return concatenate_texts(left, right)
    if isinstance(right, TensorValue):  # a fake tensor has a text of its own
        raise right.unsupported_use("formatted into a text")
    if not isinstance(left, Constant):
        return None
    return format_template(left.object, right.all(tx) if isinstance(right, TupleValue) else [right])


def call_on_tensors(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator on a tensor, called by the graph. None where the other operand is an object,
    which decides itself."""
    if not (isinstance(left, TensorValue) or isinstance(right, TensorValue)):
        return None
    other = right if isinstance(left, TensorValue) else left
    if op.is_equality and other.is_none():
        return Constant(op.sign == "!=")
    if isinstance(other, UserObject):
        return None
    function = op.written if isinstance(left, TensorValue) else op.function
    return tx.graph.function(function, left, right)


def refuse_opaque(tx: TraceContext, op: Operation, left: Value, right: Value) -> None:
    """Breaks where an operand is a tensor that graphs do not take, or where torch would call the
    program's own __getattr__ to find `__torch_function__`."""
    for side in (left, right):
        if isinstance(side, OpaqueTensor):
            raise side.unsupported_use(op.sign)
    if (
        isinstance(left, TensorValue)
        and isinstance(right, UserObject)
        and has_custom_getattr(right.cls)
    ):
        raise right.unsupported_use(
            f"{op.sign} on the right of a tensor, with a __getattr__ of its own"
        )


COMPARE_RULES: tuple[Rule, ...] = (
    call_on_arrays, operate_on_scalar, calculate_operation, call_on_tensors, refuse_opaque,
    compare_by_methods,
)  # fmt: skip
BINARY_RULES: tuple[Rule, ...] = (
    call_on_arrays, operate_on_scalar, calculate_operation, operate_on_text, call_on_tensors,
    refuse_opaque, operate_by_methods,
)  # fmt: skip
