"""Scalar operations, numbers and conversions as Triton, and the functions that they use."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ...ir.scalar import Scalar

TYPES = {
    torch.float32: "tl.float32", torch.float64: "tl.float64", torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16", torch.bool: "tl.int1", torch.uint8: "tl.uint8",
    torch.int8: "tl.int8", torch.int16: "tl.int16", torch.int32: "tl.int32",
    torch.int64: "tl.int64",
}  # fmt: skip
POINTERS = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.float16: "*fp16", torch.bfloat16: "*bf16",
    torch.bool: "*i1", torch.uint8: "*u8", torch.int8: "*i8", torch.int16: "*i16",
    torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^", "bitand": "&", "bitor": "|",
    "bitxor": "^", "shl": "<<", "shr": ">>", "truncdiv": "//",
}  # fmt: skip
NATIVE = ("exp", "exp2", "log", "log2", "sin", "cos", "abs", "floor", "ceil", "erf")
LIBDEVICE = {name: name for name in (
    "expm1", "log10", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erfc", "lgamma", "pow", "atan2", "hypot", "copysign", "nextafter", "trunc",
    "sqrt", "rsqrt",
)} | {"round": "rint"}  # fmt: skip
OTHERS = {
    "not": "{0} == 0", "where": "tl.where({0}, {1}, {2})", "isnan": "{0} != {0}",
    "isinf": "tl.abs({0}) == float('inf')", "maximum": "largest({0}, {1})",
    "minimum": "smallest({0}, {1})", "signbit": "libdevice.signbit({0}) != 0",
    "round_to_float16": "{0}.to(tl.float16).to(tl.float32)",
    "round_to_bfloat16": "{0}.to(tl.bfloat16).to(tl.float32)",
}  # fmt: skip
FLOATS_AND_INTEGERS = {
    "floordiv": ("floor_divide({0}, {1})", "floor_divide_integers({0}, {1})"),
    "remainder": ("remainder({0}, {1})", "remainder_integers({0}, {1})"),
    "fmod": ("libdevice.fmod({0}, {1})", "{0} % {1}"),
    "neg": ("{0} * -1.0", "-{0}"),  # Triton makes 0 - x of -x: the zero's sign is lost
}

PREAMBLE = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def largest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smallest(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def multiplied(a, b):
    return a * b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def place_of_largest(a, i, b, j):
    left = (a > b) | ((a == b) & (i < j)) | ((a != a) & ((b == b) | (i < j)))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def place_of_smallest(a, i, b, j):
    left = (a < b) | ((a == b) & (i < j)) | ((a != a) & ((b == b) | (i < j)))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def with_exponential(top, total, value, mask):
    higher = tl.where(mask, largest(top, value), top)
    base = tl.where(higher == float("-inf"), 0, higher)
    return higher, total * tl.exp(top - base) + tl.where(mask, tl.exp(value - base), 0)


@triton.jit
def sum_of_exponentials(tops, totals, top):
    total = tl.sum(totals * tl.exp(tops - tl.where(top == float("-inf"), 0, top)), 1)[:, None]
    return tl.where(top == float("-inf"), float("nan"), total)


@triton.jit
def index_remainder(a, b):
    m = a % b  # negative where a is
    return tl.where(m < 0, m + b, m)


@triton.jit
def index_quotient(a, b):
    return (a - index_remainder(a, b)) // b


@triton.jit
def remainder(a, b):
    m = libdevice.fmod(a, b)
    return tl.where((m != 0) & ((m < 0) != (b < 0)), m + b, m)


@triton.jit
def floor_divide(a, b):
    m = libdevice.fmod(a, b)
    q = (a - m) / b
    q = tl.where((m != 0) & ((b < 0) != (m < 0)), q - 1, q)
    f = tl.floor(q)
    f = tl.where(q - f > 0.5, f + 1, f)
    return tl.where(b == 0, a / b, tl.where(q == 0, libdevice.copysign(0.0 * q, a / b), f))


@triton.jit
def remainder_integers(a, b):
    m = a % b
    return tl.where((m != 0) & ((m < 0) != (b < 0)), m + b, m)


@triton.jit
def floor_divide_integers(a, b):
    q = a // b
    m = a % b
    return tl.where((m != 0) & ((m < 0) != (b < 0)), q - 1, q)


"""


def operation(node: Scalar, args: Sequence[str]) -> str:
    """The Triton expression of a scalar operation."""
    dtype = node.args[-1].dtype
    if node.op in SYMBOLS:
        return f"{args[0]} {SYMBOLS[node.op]} {args[1]}"
    if node.op == "bitnot":
        return f"{args[0]} ^ {-1 if dtype.is_signed else torch.iinfo(dtype).max}"
    if node.op in NATIVE:
        return f"tl.{node.op}({args[0]})"
    if node.op in LIBDEVICE:
        return f"libdevice.{LIBDEVICE[node.op]}({', '.join(args)})"
    if node.op in FLOATS_AND_INTEGERS:
        floating, integer = FLOATS_AND_INTEGERS[node.op]
        return (floating if dtype.is_floating_point else integer).format(*args)
    return OTHERS[node.op].format(*args)


def convert_expression(text: str, source: Scalar, target: torch.dtype) -> str:
    if source.dtype == torch.bfloat16 and target != torch.float32:
        text = f"{bracket(text)}.to(tl.float32)"
    if target == torch.bool:
        return f"{text} != 0"
    if target == torch.uint8 and source.dtype.is_floating_point:
        return f"{bracket(text)}.to(tl.int64).to(tl.uint8)"
    if target == torch.bfloat16 and source.dtype != torch.float32:
        text = f"{bracket(text)}.to(tl.float32)"
    return f"{bracket(text)}.to({TYPES[target]})"


def bracket(text: str) -> str:
    """An expression as an operand: names, whole numbers and calls stand for themselves."""
    simple = (
        text.isidentifier()
        or text.isdecimal()
        or (text.endswith(")") and text.startswith("tl.") and text.count("(") == 1)
    )
    return text if simple else f"({text})"


def initial_value(node: Scalar) -> str:
    """What a reduction starts from."""
    if node.attr in ("sum", "any"):
        return "0"
    if node.attr == "prod":
        return "1"
    dtype, lowest = node.args[0].dtype, node.attr.endswith("max")
    if dtype.is_floating_point:
        return "float('-inf')" if lowest else "float('inf')"
    info = torch.iinfo(dtype)
    return str(info.min if lowest else info.max)


def literal(node: Scalar, sides: int) -> str:
    """A tile of one element: Triton broadcasts only among tiles with as many sides."""
    value, dtype, shape = node.attr, node.dtype, [1] * sides
    if dtype.is_floating_point:
        if not math.isfinite(value):
            text = (
                "float('nan')" if math.isnan(value) else f"float('{'-' if value < 0 else ''}inf')"
            )
        else:
            text = repr(float(value))
        return f"tl.full({shape}, {text}, {TYPES[dtype]})"
    if dtype == torch.bool:
        return f"tl.full({shape}, {int(value)}, tl.int1)"
    return f"tl.full({shape}, {value}, {TYPES[dtype]})"
