"""Element by element: arithmetic, comparison, logic, casts, activations and their derivatives.

A formula gets Scalars already cast to the type that torch computes in; its result is cast to the
type of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes as torchs_elementwise_dtypes

from ....skipped_imports import for_numbers
from ...graph.copies import AnyNode
from ..ir.index import Index
from ..ir.program import View
from ..ir.scalar import HALF, Scalar, cast, const, position, round_to
from ..ir.scalar import scalar as s
from .build import Builder
from .half_precision import as_converted, refuse_halves
from .registry import Unsupported, lowers

aten = torch.ops.aten
Formula = Callable[..., Scalar]
elementwise_dtypes = for_numbers(torchs_elementwise_dtypes)
POINTWISE: set[Any] = set()  # operators whose results have the layout of their arguments


def any_type(dtype: torch.dtype) -> bool:
    return True


def formula(
    kind: KIND, *operators: Any, takes: Callable[[torch.dtype], bool] = any_type
) -> Callable[[Formula], Formula]:
    """Registers a formula over Scalars as the lowering of operators. Arguments that are tensors or
    numbers arrive as Scalars in the type that `kind` says, None and strings as they are. `takes`:
    the types of operands that torch does not refuse with an error."""

    def register(function: Formula) -> Formula:
        """Registers a lowering that evaluates the formula for each element."""

        def lowering(build: Builder, *args: Any, **kwargs: Any) -> View:
            """Converts the operands as torch does, and evaluates the formula on them."""
            dtype = computation(build, kind)
            common = common_type(build)
            if not all(map(takes, operand_types(build))):
                raise Unsupported("operands that torch refuses")
            refuse_halves(build.node, args, common)

            schema = build.node.target._schema  # type: ignore[union-attr]
            names = [parameter.name for parameter in schema.arguments]
            given = dict(zip(names, args, strict=False)) | kwargs

            def body(subscripts: Sequence[Index]) -> Scalar:
                operands = {
                    name: operand(build, arg, subscripts, dtype) for name, arg in given.items()
                }
                converted = as_converted(build.node, given, operands, common)
                named = {name: converted.pop(name) for name in kwargs}
                return function(*converted.values(), **named)

            return build.pointwise(body)

        lowering.__name__ = function.__name__
        lowers(*operators)(lowering)
        POINTWISE.update(operators)
        return function

    return register


def computation(build: Builder, kind: KIND) -> torch.dtype:
    """The type that torch computes in: half precision in float32."""
    dtype: torch.dtype = elementwise_dtypes(*typed_operands(build), type_promotion_kind=kind)[0]
    if dtype.is_complex:
        raise Unsupported("complex numbers")
    return torch.float32 if dtype in HALF else dtype


def common_type(build: Builder) -> torch.dtype:
    """The type that torch converts operands to."""
    operands = typed_operands(build)
    common: torch.dtype = elementwise_dtypes(*operands, type_promotion_kind=KIND.NO_OPMATH)[1]
    return common


def typed_operands(build: Builder) -> list[Any]:
    """The operands that decide the types: tensors and numbers."""
    kinds = (torch.Tensor, int, float, torch.SymInt, torch.SymFloat)
    return [arg for arg in map(_operand, build.node.args) if isinstance(arg, kinds)]


def operand_types(build: Builder) -> list[torch.dtype]:
    """The types of the operands that are tensors or truth values."""
    values = map(_operand, build.node.args)
    return [
        value.dtype if isinstance(value, torch.Tensor) else torch.bool
        for value in values
        if isinstance(value, torch.Tensor | bool)
    ]


def _operand(arg: Any) -> Any:
    return arg.meta.get("val") if isinstance(arg, AnyNode) else arg


def operand(build: Builder, arg: Any, subscripts: Sequence[Index], dtype: torch.dtype) -> Any:
    """An argument of an operator as a Scalar."""
    if isinstance(arg, View):
        return cast(build.read(arg, subscripts), dtype)
    if isinstance(arg, Index):
        return position(arg, dtype)
    if isinstance(arg, Scalar):
        return cast(arg, dtype)
    if isinstance(arg, (bool, int, float)):
        return constant_of(arg, dtype)
    if arg is None or isinstance(arg, str):
        return arg
    raise Unsupported(f"an argument of type {type(arg).__name__}")


def constant_of(value: float, dtype: torch.dtype) -> Scalar:
    if isinstance(value, float) and not dtype.is_floating_point and dtype != torch.bool:
        if not value.is_integer():
            raise Unsupported("a fraction among integers")
    return const(value, dtype)


def overloads_of(names: str) -> list[Any]:
    """Operators by name, such as "mul" for all overloads on tensors, or "clamp.Tensor"."""
    found = []
    for name in names.split():
        packet, _, only = name.partition(".")
        packet = getattr(aten, packet)
        wanted = (only,) if only else ("default", "Tensor", "Scalar")
        found += [getattr(packet, each) for each in wanted if each in packet.overloads()]
    # once TorchScript is loaded, there are some for plain numbers too
    return [each for each in found if str(each._schema.returns[0].type) == "Tensor"]


def formulas(
    kind: KIND, table: dict[str, Formula], takes: Callable[[torch.dtype], bool] = any_type
) -> None:
    """Registers a formula for each name of operators."""
    for names, function in table.items():
        formula(kind, *overloads_of(names), takes=takes)(function)


def single_operation(name: str) -> Formula:
    """The formula that is one scalar operation."""
    return lambda *args: s(name, *args)


formulas(KIND.INT_TO_FLOAT, {name: single_operation(name) for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "sqrt",
    "rsqrt", "atan2", "copysign",
)})  # fmt: skip
formulas(
    KIND.DEFAULT,
    {name: single_operation(name) for name in "neg hypot nextafter maximum minimum".split()},
)
formulas(KIND.ALWAYS_BOOL, {name: single_operation(name) for name in "eq ne lt le gt ge".split()})
formulas(KIND.INT_TO_FLOAT, {
    "div true_divide.Tensor": lambda a, b: a / b,
})  # fmt: skip
formulas(KIND.ALWAYS_BOOL, {
    "isnan": lambda x: s("isnan", x) if x.dtype.is_floating_point else const(False, torch.bool),
    "isinf": lambda x: s("isinf", x) if x.dtype.is_floating_point else const(False, torch.bool),
    "logical_and": lambda a, b: s("and", cast(a, torch.bool), cast(b, torch.bool)),
    "logical_or": lambda a, b: s("or", cast(a, torch.bool), cast(b, torch.bool)),
    "logical_xor": lambda a, b: s("xor", cast(a, torch.bool), cast(b, torch.bool)),
    "logical_not": lambda a: s("not", cast(a, torch.bool)),
})  # fmt: skip
formulas(KIND.DEFAULT, {
    "sub": lambda a, b, alpha=None: a - times(b, alpha),
    "rsub": lambda a, b, alpha=None: b - times(a, alpha),
}, takes=lambda dtype: dtype != torch.bool)  # fmt: skip
formulas(KIND.DEFAULT, {
    "bitwise_and": lambda a, b: s("and" if a.dtype == torch.bool else "bitand", a, b),
    "bitwise_or": lambda a, b: s("or" if a.dtype == torch.bool else "bitor", a, b),
    "bitwise_xor": lambda a, b: s("xor" if a.dtype == torch.bool else "bitxor", a, b),
    "bitwise_not": lambda a: s("not" if a.dtype == torch.bool else "bitnot", a),
}, takes=lambda dtype: not dtype.is_floating_point)  # fmt: skip
formulas(KIND.DEFAULT, {
    "mul": lambda a, b: s("and", a, b) if a.dtype == torch.bool else a * b,
    "remainder": lambda a, b: s("remainder", a, divisor(b)),
    "fmod": lambda a, b: s("fmod", a, divisor(b)),
    "floor": lambda x: s("floor", x) if x.dtype.is_floating_point else x,
    "ceil": lambda x: s("ceil", x) if x.dtype.is_floating_point else x,
    "trunc": lambda x: s("trunc", x) if x.dtype.is_floating_point else x,
    "round": lambda x: s("round", x) if x.dtype.is_floating_point else x,
    "frac": lambda x: x - s("trunc", x),
    "square": lambda x: x * x,
    "clamp_min.default": lambda x, low: s("maximum", low, x),
    "clamp_min.Tensor": lambda x, low: s("maximum", x, low),
    "clamp_max.default": lambda x, high: s("minimum", high, x),
    "clamp_max.Tensor": lambda x, high: s("minimum", x, high),
    "relu": lambda x: s("maximum", 0, x),
    "relu6": lambda x: hardtanh(x, const(0, x.dtype), const(6, x.dtype)),
    "threshold": lambda x, limit, value: s("where", s("le", x, limit), value, x),
    "threshold_backward": lambda grad, x, limit: s("where", s("le", x, limit), 0, grad),
    "sigmoid_backward": lambda grad, y: grad * ((1 - y) * y),
    "tanh_backward": lambda grad, y: grad * (1 - y * y),
    "silu": lambda x: x / (1 + s("exp", -x)),
    "mish": lambda x: x * s("tanh", softplus(x)),
    "hardsigmoid": lambda x: _six_steps(x) / 6,
    "hardswish": lambda x: x * _six_steps(x) / 6,
    "addcmul": lambda x, a, b, value=None: x + times(a, value) * b,
    "addcdiv": lambda x, a, b, value=None: x + times(a, value) / b,
})  # fmt: skip


@formula(KIND.DEFAULT, aten.add.Tensor, aten.add.Scalar)
def add(a: Scalar, b: Scalar, alpha: Scalar | None = None) -> Scalar:
    return s("or", a, b) if a.dtype == torch.bool else a + times(b, alpha)


def times(value: Scalar, factor: Scalar | None) -> Scalar:
    if factor is None or factor.attr in (1, 1.0) and factor.op == "const":
        return value
    return value * factor


@formula(KIND.DEFAULT, aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(a: Scalar, b: Scalar, rounding_mode: str | None = None) -> Scalar:
    if rounding_mode is None:
        raise Unsupported("div without a mode under this name")
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if a.dtype.is_floating_point:
        return s("trunc", a / b)
    return s("truncdiv", a, divisor(b))


@formula(KIND.DEFAULT, aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    return s("floordiv", a, divisor(b))


def divisor(value: Scalar) -> Scalar:
    """The divisor, if it is known not to be 0 or -1: for 0 eager raises, for -1 the hardware may
    fault."""
    if not value.dtype.is_floating_point and (
        value.op != "const" or value.attr in (0, -1) or value.dtype == torch.bool
    ):
        raise Unsupported("integer division by what may be 0")
    return value


@formula(KIND.BOOL_TO_LONG, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow(base: Scalar, exponent: Scalar) -> Scalar:
    """Powers with usual constant exponents are products, roots and reciprocals, as torch computes
    them."""
    if exponent.op == "const":
        known = {
            0.5: lambda: s("sqrt", base),
            -0.5: lambda: s("rsqrt", base),
            1: lambda: base,
            2: lambda: base * base,
            3: lambda: base * base * base,
            -1: lambda: reciprocal(base),
            -2: lambda: reciprocal(base * base),
        }
        if exponent.attr in known and (base.dtype.is_floating_point or exponent.attr > 0):
            return known[exponent.attr]()
    if not base.dtype.is_floating_point:
        raise Unsupported("powers of integers")
    return s("pow", base, exponent)


@formula(KIND.INT_TO_FLOAT, aten.reciprocal.default)
def reciprocal(x: Scalar) -> Scalar:
    return 1 / x


@formula(KIND.DEFAULT, aten.abs.default)
def absolute(x: Scalar) -> Scalar:
    return x if x.dtype in (torch.bool, torch.uint8) else s("abs", x)


@formula(KIND.DEFAULT, aten.sign.default, aten.sgn.default)
def sign(x: Scalar) -> Scalar:
    if x.dtype == torch.bool:
        return x
    return cast(s("gt", x, 0), x.dtype) - cast(s("lt", x, 0), x.dtype)


@formula(KIND.ALWAYS_BOOL, aten.signbit.default)
def signbit(x: Scalar) -> Scalar:
    if x.dtype.is_floating_point:
        return s("signbit", x)
    return s("lt", x, 0) if x.dtype != torch.bool else const(False, torch.bool)


# --- limits ---


# Where the limit and the value are a zero and a negative zero, eager returns the value if the limit
# is a number, and the limit if it is a tensor; maximum and minimum return their second operand.


@formula(KIND.DEFAULT, aten.clamp.default)
def clamp(x: Scalar, min: Scalar | None = None, max: Scalar | None = None) -> Scalar:
    if min is not None:
        x = s("maximum", min, x)
    return x if max is None else s("minimum", max, x)


@formula(KIND.DEFAULT, aten.clamp.Tensor)
def clamp_by_tensors(x: Scalar, min: Scalar | None = None, max: Scalar | None = None) -> Scalar:
    if min is not None:
        x = s("maximum", x, min)
    return x if max is None else s("minimum", x, max)


@formula(KIND.DEFAULT, aten.hardtanh.default)
def hardtanh(x: Scalar, low: Scalar | None = None, high: Scalar | None = None) -> Scalar:
    low = const(-1, x.dtype) if low is None else low
    return s("minimum", const(1, x.dtype) if high is None else high, s("maximum", low, x))


# --- activations ---


@formula(KIND.INT_TO_FLOAT, aten.sigmoid.default)
def sigmoid(x: Scalar) -> Scalar:
    return 1 / (1 + s("exp", -x))


@formula(KIND.DEFAULT, aten.silu_backward.default)
def silu_backward(grad: Scalar, x: Scalar) -> Scalar:
    y = sigmoid(x)
    return grad * y * (1 + x * (1 - y))


@formula(KIND.DEFAULT, aten.gelu.default, takes=lambda dtype: dtype.is_floating_point)
def gelu(x: Scalar, approximate: str = "none") -> Scalar:
    if approximate == "none":
        return x * 0.5 * (1 + s("erf", x * math.sqrt(0.5)))
    return 0.5 * x * (1 + s("tanh", _gelu_inner(x)))


def _gelu_inner(x: Scalar) -> Scalar:
    cubed = x * x * x * 0.044715
    return math.sqrt(2 / math.pi) * (x + cubed)


@formula(KIND.DEFAULT, aten.gelu_backward.default)
def gelu_backward(grad: Scalar, x: Scalar, approximate: str = "none") -> Scalar:
    if approximate == "none":
        share = 0.5 * (1 + s("erf", x * math.sqrt(0.5)))
        density = s("exp", x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return grad * (share + x * density)
    tanh = s("tanh", _gelu_inner(x))
    left = 0.5 * (1 + tanh)
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (x * x))
    right = 0.5 * x * ((1 - tanh * tanh) * inner)
    return grad * (left + right)


@formula(KIND.DEFAULT, aten.leaky_relu.default)
def leaky_relu(x: Scalar, slope: Scalar | None = None) -> Scalar:
    slope = const(0.01, x.dtype) if slope is None else slope
    return s("where", s("gt", x, 0), x, x * slope)


@formula(KIND.DEFAULT, aten.elu.default)
def elu(
    x: Scalar,
    alpha: Scalar | None = None,
    scale: Scalar | None = None,
    input_scale: Scalar | None = None,
) -> Scalar:
    one = const(1, x.dtype)
    alpha, scale, input_scale = alpha or one, scale or one, input_scale or one
    negative = s("expm1", x * input_scale) * (alpha * scale)
    return s("where", s("gt", x, 0), x * scale, negative)


@formula(KIND.DEFAULT, aten.softplus.default)
def softplus(x: Scalar, beta: Scalar | None = None, limit: Scalar | None = None) -> Scalar:
    beta, limit = beta or const(1, x.dtype), limit or const(20, x.dtype)
    scaled = x * beta
    return s("where", s("gt", scaled, limit), x, s("log1p", s("exp", scaled)) / beta)


def _six_steps(x: Scalar) -> Scalar:
    return s("minimum", s("maximum", x + 3, 0), 6)


@formula(KIND.DEFAULT, aten.hardswish_backward.default)
def hardswish_backward(grad: Scalar, x: Scalar) -> Scalar:
    slope = x / 3 + 0.5
    middle = s("where", s("lt", x, 3), grad * slope, grad)
    return s("where", s("le", x, -3), 0, middle)


@formula(KIND.DEFAULT, aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad: Scalar, x: Scalar) -> Scalar:
    inside = s("and", s("gt", x, -3), s("lt", x, 3))
    return s("where", inside, grad * (1 / 6), 0)


# --- mixtures ---


@formula(KIND.DEFAULT, aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(start: Scalar, end: Scalar, weight: Scalar) -> Scalar:
    span = end - start
    near, far = start + weight * span, end - span * (1 - weight)
    return s("where", s("lt", s("abs", weight), 0.5), near, far)


@lowers(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(build: Builder, condition: View, yes: Any, no: Any) -> View:
    dtype = computation_of(build.fake.dtype)

    def body(subscripts: Sequence[Index]) -> Scalar:
        chosen = cast(build.read(condition, subscripts), torch.bool)
        left, right = (operand(build, value, subscripts, dtype) for value in (yes, no))
        return s("where", chosen, left, right)

    return build.pointwise(body)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(build: Builder, x: View, mask: View, value: Any) -> View:
    return where(build, mask, value, x)


@lowers(aten.native_dropout_backward.default)
def native_dropout_backward(build: Builder, grad: View, mask: View, scale: float) -> View:
    dtype = computation_of(grad.dtype)

    def body(subscripts: Sequence[Index]) -> Scalar:
        kept = cast(build.read(mask, subscripts), dtype)
        return cast(build.read(grad, subscripts), dtype) * (kept * scale)

    return build.pointwise(body)


# --- copies and casts ---


def computation_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of a dtype are computed."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


@lowers(
    aten.clone.default,
    aten._to_copy.default,
    aten.contiguous.default,
    aten.lift_fresh_copy.default,
    aten.alias_copy.default,
    torch.ops.prims.convert_element_type.default,
)
def copy(build: Builder, x: View | float, *_: Any, **options: Any) -> View:
    """Copies a tensor, or a number: torch.func.vmap produces such copies. A cast to half precision
    in the program rounds, even if the next operation computes in float32."""
    dtype = build.fake.dtype

    def body(subscripts: Sequence[Index]) -> Scalar:
        given = _operand_dtype(build) or computation_of(dtype)
        return cast(round_to(operand(build, x, subscripts, given), dtype), dtype)

    return build.pointwise(body)


def _operand_dtype(build: Builder) -> torch.dtype | None:
    """The dtype of the node's first argument; None for a number."""
    given = _operand(build.node.args[0])
    return given.dtype if isinstance(given, torch.Tensor) else None


@lowers(aten.copy.default)
def copy_from(build: Builder, old: View, new: View, non_blocking: bool = False) -> View:
    return copy(build, new)
