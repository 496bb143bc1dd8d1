"""Scalar operations, numbers and conversions as C, and the types and functions that they use."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import torch

from ...ir.program import Kernel
from ...ir.scalar import REDUCE, Scalar

TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "_Float16",
    torch.bfloat16: "bf16", torch.bool: "bool8", torch.uint8: "uint8_t", torch.int8: "int8_t",
    torch.int16: "int16_t", torch.int32: "int32_t", torch.int64: "int64_t",
    torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2",
}  # fmt: skip
# functions that convert types without C operators to float
TO_FLOAT = {
    torch.bfloat16: "from_bf16",
    torch.float8_e4m3fn: "from_e4m3",
    torch.float8_e5m2: "from_e5m2",
}

# Functions with a variant for float and one for double, of which glibc's libmvec has versions for
# SIMD.
VECTOR = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
VECTOR_PAIRS = ("pow", "atan2", "hypot")
PLAIN = ("sqrt", "floor", "ceil", "trunc", "lgamma")

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "truncdiv": "/", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^", "bitand": "&",
    "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
OTHERS = {
    "neg": "-{0}", "not": "!{0}", "bitnot": "~{0}", "where": "{0} ? {1} : {2}",
    "isnan": "{0} != {0}", "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "round_to_float16": "(float)(_Float16){0}", "round_to_bfloat16": "from_bf16(to_bf16({0}))",
}  # fmt: skip
# by kind of type: f or d after the name, nothing for integers
CALLS = {
    "abs": ("fabs", "llabs"), "round": ("rint", ""), "fmod": ("fmod", ""),
    "copysign": ("copysign", ""), "nextafter": ("nextafter", ""),
}  # fmt: skip
SUFFIXES = {torch.float32: "f", torch.float64: "d"}  # of helpers; integers have "i"
HELPERS = {
    "erf": "erf_", "floordiv": "floordiv", "remainder": "remainder_", "rsqrt": "rsqrt_",
    "isinf": "isinf_", "signbit": "signbit_",
}  # fmt: skip


def operation(node: Scalar, args: Sequence[str]) -> str:
    """The C expression of a scalar operation."""
    dtype = node.args[-1].dtype
    letter = "f" if dtype == torch.float32 else ""
    if node.op in ("maximum", "minimum") and not dtype.is_floating_point:
        return f"{args[0]} {'>' if node.op == 'maximum' else '<'} {args[1]} ? {args[0]} : {args[1]}"
    if node.op in SYMBOLS:
        return f"{args[0]} {SYMBOLS[node.op]} {args[1]}"
    if node.op in OTHERS:
        return OTHERS[node.op].format(*args)
    if node.op in CALLS:
        floating, integer = CALLS[node.op]
        name = floating + letter if dtype.is_floating_point else integer or "fmod_i"
        return f"{name}({', '.join(args)})"
    if is_below_maximum(node):
        return f"exp_below_{SUFFIXES[dtype]}({args[0]})"
    if node.op in HELPERS:
        suffix = SUFFIXES.get(dtype, "i")
        return f"{HELPERS[node.op]}{suffix}({', '.join(args)})"
    assert node.op in VECTOR + VECTOR_PAIRS + PLAIN, node.op
    return f"{node.op}{letter}({', '.join(args)})"


def is_below_maximum(node: Scalar) -> bool:
    """Whether a node is exp(x - the maximum of a row), as in a softmax, or as in logsumexp, which
    subtracts 0 for an infinite maximum."""
    if node.op != "exp" or node.args[0].op != "sub" or node.dtype not in SUFFIXES:
        return False
    top = node.args[0].args[1]
    return any(
        one.op == REDUCE and one.attr == "max" for one in (top.args if top.op == "where" else [top])
    )


def literal(node: Scalar) -> str:
    """A constant as C text: in bfloat16 its bits, otherwise a number of its type."""
    value, dtype = node.attr, node.dtype
    if dtype == torch.bool:
        return "1" if value else "0"
    if dtype == torch.bfloat16:
        return str(int(torch.tensor(value, dtype=dtype).view(torch.int16).item()) & 0xFFFF)
    if dtype.is_floating_point:
        kind = TYPES[dtype]
        if math.isnan(value):
            return f'({kind})__builtin_nan("")'
        if math.isinf(value):
            return f"({kind}){'-' if value < 0 else ''}__builtin_inf()"
        if dtype == torch.float32:
            value = (
                struct.unpack("f", struct.pack("f", value))[0]
                if abs(value) < 3.5e38
                else math.copysign(math.inf, value)
            )
            if math.isfinite(value):
                return f"{value!r}f"
            return f"{'-' if value < 0 else ''}(float)__builtin_inf()"
        return f"(_Float16){value!r}" if dtype == torch.float16 else repr(value)
    if value == -(1 << 63):
        return "INT64_MIN"
    return f"{value}" if -(1 << 31) < value < 1 << 31 else f"{value}LL"


def extreme(dtype: torch.dtype, lowest: bool) -> str:
    """Where a search for the largest (lowest=True) or smallest value starts."""
    if dtype.is_floating_point:
        return f"({TYPES[dtype]}){'-' if lowest else ''}__builtin_inf()"
    info = torch.iinfo(dtype)
    if lowest and dtype == torch.int64:
        return "INT64_MIN"
    return f"{info.min if lowest else info.max}" + ("LL" if dtype == torch.int64 else "")


def gathered_as(node: Scalar, kernel: Kernel, longest: int) -> str:
    """The type in which a reduction gathers: sums of float that may be longer than `longest` are
    gathered in double."""
    columns = kernel.columns.value
    long = columns is None or columns > longest
    if node.attr == "sum" and node.dtype == torch.float32 and long:
        return "double"
    return TYPES[node.dtype]


def convert_expression(text: str, source: torch.dtype, target: torch.dtype) -> str:
    if source in TO_FLOAT:
        text, source = f"{TO_FLOAT[source]}({text})", torch.float32
    if target == torch.bool:
        return f"{text} != 0"
    if target == torch.bfloat16:
        return f"to_bf16((float){text})"
    if source.is_floating_point and not target.is_floating_point:
        helper = "int64_" if target in (torch.int64, torch.uint8) else "int32_"
        return f"({TYPES[target]}){helper}{SUFFIXES.get(source, 'f')}({text})"
    return f"({TYPES[target]}){text}"


def preamble(vector: bool) -> str:
    """Types and functions that kernels use. vector: libmvec has the SIMD versions."""
    attribute = '__attribute__((simd("notinbranch"), const)) ' if vector else ""
    lines = ["#include <stdint.h>", "typedef uint16_t bf16;", "typedef uint8_t bool8;"]
    lines.append("typedef uint8_t e4m3; typedef uint8_t e5m2;")
    for kind, letter in (("float", "f"), ("double", "")):
        lines += [f"{attribute}{kind} {name}{letter}({kind});" for name in VECTOR]
        lines += [f"{attribute}{kind} {name}{letter}({kind}, {kind});" for name in VECTOR_PAIRS]
        lines += [f"{kind} {name}{letter}({kind});" for name in (*PLAIN, "fabs", "rint")]
        lines += [
            f"{kind} {name}{letter}({kind}, {kind});" for name in ("fmod", "copysign", "nextafter")
        ]
        lines.append(
            _FLOAT_HELPERS.replace("KIND", kind)
            .replace("LETTER", letter)
            .replace("SUFFIX", letter or "d")
            .replace("BITS", "int32_t" if letter else "int64_t")
            .replace("LEAST", "-87" if letter else "-708")
        )
    return "\n".join([*lines, _ERF, _INTEGER_HELPERS, _FLOAT8_HELPERS, _TILE_HELPERS])


# exp_below is exp for x <= 0, and 0 where that is at most 2e-38 (float): there libmvec computes one
# number after the other, which took ten times as long for the masked elements of an attention.
# The mask is one of bits, since gcc would call exp for the original x in a conditional expression.
# int32_ and int64_ give what the processor does for numbers beyond the integers: C leaves it open,
# and gcc has other rules for the numbers that it knows.
_FLOAT_HELPERS = """\
static inline KIND exp_below_SUFFIX(KIND x) {
    BITS kept = -(BITS)!(x < LEAST), bits;
    __builtin_memcpy(&bits, &x, sizeof x);
    bits &= kept;
    __builtin_memcpy(&x, &bits, sizeof x);
    x = expLETTER(x);
    __builtin_memcpy(&bits, &x, sizeof x);
    bits &= kept;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
static inline KIND rsqrt_SUFFIX(KIND x) { return 1 / sqrtLETTER(x); }
static inline int isinf_SUFFIX(KIND x) { return fabsLETTER(x) == (KIND)__builtin_inf(); }
static inline int signbit_SUFFIX(KIND x) { return copysignLETTER(1, x) < 0; }
#ifdef __x86_64__
static inline int32_t int32_SUFFIX(KIND x) {
    return x > (KIND)-0x80000001p0 && x < (KIND)0x1p31 ? (int32_t)x : INT32_MIN;
}
static inline int64_t int64_SUFFIX(KIND x) {
    return x >= (KIND)-0x1p63 && x < (KIND)0x1p63 ? (int64_t)x : INT64_MIN;
}
#else
static inline int32_t int32_SUFFIX(KIND x) { return (int32_t)x; }
static inline int64_t int64_SUFFIX(KIND x) { return (int64_t)x; }
#endif
static inline KIND remainder_SUFFIX(KIND a, KIND b) {
    KIND m = fmodLETTER(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
static inline KIND floordivSUFFIX(KIND a, KIND b) {
    if (b == 0) return a / b;
    KIND m = fmodLETTER(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysignLETTER(0, a / b);
    KIND f = floorLETTER(q);
    return q - f > (KIND)0.5 ? f + 1 : f;
}"""

# libmvec's erff takes as long as its sinf and cosf together, and a call of it leaves no vector in
# its register. erf(x) / x is here a quotient of polynomials in x*x, fitted for the least largest
# relative error below 3.92, from where on the nearest float is 1.
_ERF = """\
static inline double erf_d(double x) { return erf(x); }
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline float erf_f(float x) {
    float a = fabsf(x), c = a > 3.92f ? 3.92f : x, s = c * c, t = s * s;
    float p = __builtin_fmaf(s, 0.0037652740720659494f, 0.05274766683578491f);
    float q = __builtin_fmaf(s, 0.01496853120625019f, 0.11410582065582275f);
    p = __builtin_fmaf(t, __builtin_fmaf(s, 2.050146122201113e-06f, 0.0002848748117685318f), p);
    q = __builtin_fmaf(t, __builtin_fmaf(s, 3.809190820902586e-05f, 0.0011624519247561693f), q);
    p = __builtin_fmaf(t, p, __builtin_fmaf(s, 0.19039851427078247f, 1.1283791065216064f));
    q = __builtin_fmaf(t, q, __builtin_fmaf(s, 0.5020690560340881f, 1.0f));
    float r = c * p / q;
    return a > 3.92f ? copysignf(1, x) : r > 1 ? 1 : r < -1 ? -1 : r;
}
#else
static inline float erf_f(float x) { return erff(x); }
#endif"""

_INTEGER_HELPERS = """\
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t floordivi(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline int64_t remainder_i(int64_t a, int64_t b) {
    int64_t m = a % b;
    return m + (((m != 0) & ((m < 0) != (b < 0))) ? b : 0);
}
static inline int64_t fmod_i(int64_t a, int64_t b) { return a % b; }
static inline int64_t llabs(int64_t a) { return a < 0 ? (int64_t)-(uint64_t)a : a; }
static inline float from_bf16(bf16 x) {
    union { uint32_t i; float f; } u;
    u.i = (uint32_t)x << 16;
    return u.f;
}
static inline bf16 to_bf16(float x) {
    union { float f; uint32_t i; } u; u.f = x;
    return x != x ? (u.i >> 16 | 0x40) : (bf16)((u.i + 0x7fff + ((u.i >> 16) & 1)) >> 16);
}"""

# The numbers below 8 are subnormal: multiples of 2^-9. A number of the other type is the upper half
# of a float16.
_FLOAT8_HELPERS = """\
static inline float from_e4m3(e4m3 x) {
    union { uint32_t i; float f; } u;
    uint32_t size = x & 0x7f;
    u.i = (size << 20) + (120u << 23);
    u.f = size < 8 ? (float)size * 0x1p-9f : size == 0x7f ? __builtin_nanf("") : u.f;
    u.i |= (uint32_t)(x & 0x80) << 24;
    return u.f;
}
static inline float from_e5m2(e5m2 x) {
    union { uint16_t i; _Float16 f; } u;
    u.i = (uint16_t)((uint16_t)x << 8);
    return (float)u.f;
}"""

# Tiles of elements of four bytes. Registers of 16 elements are transposed in four steps: elements
# whose line and place differ in one bit change places with each other.
_TILE_HELPERS = """\
typedef uint32_t __attribute__((may_alias)) word;
#define ALIGNED __attribute__((aligned(64)))
#if defined(__AVX512F__) && !defined(__clang__)
#define IN_TILE(line, place) ((place) * 16 + (line))
typedef float __attribute__((vector_size(64), aligned(4), may_alias)) words;
typedef int32_t __attribute__((vector_size(64))) lanes;
static inline void transpose_tile(const void* from, int64_t from_step, void* to, int64_t to_step) {
    const lanes lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    words rows[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) rows[i] = *(const words*)((const word*)from + i * from_step);
#pragma GCC unroll 4
    for (int bit = 1; bit < 16; bit *= 2) {
        const lanes odd = (lane & bit) != 0;
        const lanes low = lane + (odd & (16 - bit)), high = lane + ((odd & 16) | (~odd & bit));
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i & bit) continue;
            const words a = rows[i], b = rows[i + bit];
            rows[i] = __builtin_shuffle(a, b, low);
            rows[i + bit] = __builtin_shuffle(a, b, high);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) *(words*)((word*)to + i * to_step) = rows[i];
}
#define IF_WHOLE(call) if (lines == 16 && places == 16) { call; return; }
#else
#define IN_TILE(line, place) ((line) * 17 + (place))
#define IF_WHOLE(call)
#endif
static inline void fill_tile(
    void* tile, const void* from, int64_t step, int64_t lines, int64_t places
) {
    IF_WHOLE(transpose_tile(from, step, tile, 16))
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < places; j++)
            ((word*)tile)[IN_TILE(i, j)] = ((const word*)from)[i * step + j];
}
static inline void empty_tile(
    const void* tile, void* to, int64_t step, int64_t lines, int64_t places
) {
    IF_WHOLE(transpose_tile(tile, 16, to, step))
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < places; j++)
            ((word*)to)[i * step + j] = ((const word*)tile)[IN_TILE(i, j)];
}"""
