"""A kernel as C: one function, OpenMP over rows, SIMD along the innermost loop.

In: a simplified Kernel. Out: the function's text, and its parameters. The function gets one array
of 64-bit words: addresses, then sizes. Equal kernels give equal text: parameters are numbered in
the order of their use.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from itertools import takewhile

import torch

from ..fuse.split_loops import split_at_bounds
from ..ir.index import Division, Hole, Index, Quotient, Sym, Var, atom, linear, nonnegative, product
from ..ir.ir import (
    CAST,
    INDEX,
    LOAD,
    REDUCE,
    TRUE,
    Access,
    Buffer,
    Kernel,
    Scalar,
    scalar,
    scattered_value,
    substitute,
    topological,
)
from ..ir.scalar_ops import SCALAR_OPS, SCATTERS
from .base import KernelEmitter, Parameters, Scope, second_side, subscripts_of
from .short_loops import join_short_loop
from .short_rows import unroll_short_rows

TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "_Float16",
    torch.bfloat16: "bf16", torch.bool: "bool8", torch.uint8: "uint8_t", torch.int8: "int8_t",
    torch.int16: "int16_t", torch.int32: "int32_t", torch.int64: "int64_t",
}  # fmt: skip
COLUMNS = 64  # of a block of rows that are reduced together
LONGEST_KEPT = 4096  # elements of a row of which a value is kept
SIDE = 16  # of a tile over two loops
PITCH = SIDE + 1  # of a tile's lines: neighbours across them are in different parts of the cache
SIMD = "#pragma omp simd"
WORTH_TILES = 1 << 12  # points: all of less stays in the cache
LANES = 8  # numbers of a vector, at least
MOST_OVERLAPPED = 128  # numbers of a loop that may end in a vector overlapping the one before
LINE = 64  # bytes that come into the cache together
AHEAD = 4  # iterations from asking for memory to its use
EXPENSIVE = 10  # cost from which on a value is rather kept
LONG_SUM = 1 << 14  # longer sums of float are added up in double,
LONG_SUM_ACROSS = 64  # and of rows side by side, where each is added up one element after the other

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
}  # fmt: skip
# by kind of type: f or d behind the name, nothing for integers
CALLS = {
    "abs": ("fabs", "llabs"), "round": ("rint", ""), "fmod": ("fmod", ""),
    "copysign": ("copysign", ""), "nextafter": ("nextafter", ""),
}  # fmt: skip
SUFFIXES = {torch.float32: "f", torch.float64: "d"}  # of helpers; integers have "i"
HELPERS = {
    "erf": "erf_",
    "floordiv": "floordiv",
    "remainder": "remainder_",
    "rsqrt": "rsqrt_",
    "isinf": "isinf_",
    "signbit": "signbit_",
}


def operation(node: Scalar, args: Sequence[str]) -> str:
    """The C expression of a scalar operation."""
    dtype = node.args[-1].dtype
    letter = "f" if dtype == torch.float32 else ""
    if (
        node.op == "maximum"
        and not dtype.is_floating_point
        or node.op == "minimum"
        and not dtype.is_floating_point
    ):
        return f"{args[0]} {'>' if node.op == 'maximum' else '<'} {args[1]} ? {args[0]} : {args[1]}"
    if node.op in SYMBOLS:
        return f"{args[0]} {SYMBOLS[node.op]} {args[1]}"
    if node.op in OTHERS:
        return OTHERS[node.op].format(*args)
    if node.op in CALLS:
        floating, integer = CALLS[node.op]
        name = floating + letter if dtype.is_floating_point else integer or "fmod_i"
        return f"{name}({', '.join(args)})"
    if node.op in HELPERS:
        suffix = SUFFIXES.get(dtype, "i")
        return f"{HELPERS[node.op]}{suffix}({', '.join(args)})"
    assert node.op in VECTOR + VECTOR_PAIRS + PLAIN, node.op
    return f"{node.op}{letter}({', '.join(args)})"


def preamble(vector: bool) -> str:
    """Types and functions that kernels use. vector: libmvec has the SIMD versions."""
    attribute = '__attribute__((simd("notinbranch"), const)) ' if vector else ""
    lines = ["#include <stdint.h>", "typedef uint16_t bf16;", "typedef uint8_t bool8;"]
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
        )
    return "\n".join([*lines, _ERF, _INTEGER_HELPERS])


_FLOAT_HELPERS = """\
static inline KIND rsqrt_SUFFIX(KIND x) { return 1 / sqrtLETTER(x); }
static inline int isinf_SUFFIX(KIND x) { return fabsLETTER(x) == (KIND)__builtin_inf(); }
static inline int signbit_SUFFIX(KIND x) { return copysignLETTER(1, x) < 0; }
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
    return x != x ? 0x7fc0 : (bf16)((u.i + 0x7fff + ((u.i >> 16) & 1)) >> 16);
}"""


class TransposedTile:
    """What lies along `second` where other buffers lie along `last`. It goes through arrays of a
    tile's size, so that all of a cache line is used at once, however many such lines have one place
    in the cache. `near`: arrays by what is loaded into them; `far`: what is stored from arrays;
    `kinds`: types of these."""

    def __init__(self, second: Var, last: Var) -> None:
        self.second, self.last = second, last
        self.near: dict[Access, str] = {}
        self.far: dict[str, str] = {}
        self.kinds: list[torch.dtype] = []

    @property
    def place(self) -> str:
        return (
            f"({self.last.name} - {self.last.name}_from) * {PITCH} + {self.second.name} - "
            f"{self.second.name}_from"
        )

    def holds(self, index: Index) -> bool:
        return (
            index.coefficient(self.second) == 1
            and index.coefficient(self.last) != 1
            and self.last in index.variables()
        )

    def load_near(self, access: Access) -> str:
        name = self.near.setdefault(access, f"near{len(self.near)}")
        return f"{name}[{self.place}]"

    def store_far(self, target: str, kind: torch.dtype) -> str:
        name = f"far{len(self.far)}"
        self.far[name] = target
        self.kinds.append(kind)
        return f"{name}[{self.place}]"


class CFunction(KernelEmitter):
    """Writes one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        buffers: Mapping[str, Buffer],
        threads: int,
        whole: Parameters | None = None,
    ) -> None:
        self.whole = whole  # the parameters of the kernel of which this is a part
        kernel = unroll_short_rows(kernel)
        self.parts = split_at_bounds(kernel) if whole is None else []
        kernel, self.joint = join_short_loop(kernel)
        super().__init__(kernel)
        self.buffers, self.threads = buffers, threads
        self.kept: dict[int, str] = {}  # by id of a value, the array in which a row's are kept
        self.stored: set[int] = set()  # ids of those that lie there already
        self.targets = {name: f"out{n}" for n, name in enumerate(self.parameters.stored)}
        self.pointers = {
            name: self.targets.get(name, f"in{n}") for n, name in enumerate(self.parameters.loaded)
        }
        self.turned: TransposedTile | None = None

    def parameters_of(self) -> Parameters:
        return self.whole or super().parameters_of()

    # --- the whole ---

    def text(self, name: str) -> str:
        lines = []
        for word, buffer in enumerate(self.parameters.buffers):
            stored = word >= len(self.parameters.loaded)
            kind = TYPES[self.buffers[buffer].dtype]
            pointer = (self.targets if stored else self.pointers)[buffer]
            if stored:
                lines.append(f"{kind}* restrict {pointer} = ({kind}*)words[{word}];")
            elif buffer not in self.targets:
                lines.append(f"const {kind}* restrict {pointer} = (const {kind}*)words[{word}];")
        for word, size in enumerate(self.parameters.sizes, len(self.parameters.buffers)):
            lines.append(f"const int64_t {size} = words[{word}];")
        body = Scope(frozenset())
        if self.parts:
            for part in self.parts:
                function = CFunction(part, self.buffers, self.threads, self.parameters)
                inside = Scope(frozenset())
                function.nest(inside)
                body.lines += _block("{", inside.lines)
        else:
            self.nest(body)
        empty = [
            f"if (({self.index(variable.size)}) <= 0) return;"
            for variable in self.kernel.outer
            if variable.size.value in (None, 0)
        ]
        origins = ", ".join(
            dict.fromkeys(
                origin.removeprefix("aten.").removesuffix(".default")
                for origin in self.kernel.origins
            )
        )
        return "\n".join(
            [
                f"// {origins}",
                f"void {name}(const int64_t* words) {{",
                *indent([*lines, *empty, *body.lines]),
                "}",
            ]
        )

    def nest(self, top: Scope) -> None:
        """Loops over rows and what is in them."""
        outer = self.kernel.outer
        scattered = scattered_value(self.kernel)
        if scattered is not None:
            return self.scatter(top, scattered)
        second = None if self.joint else second_side(self.plan)
        if second is not None and (self.work is None or self.work >= WORTH_TILES):
            return self.tiles(top, second)
        column = self.column_mode()
        looped = outer[:-1] if column or not self.kernel.inner else outer
        shared = self.shared_loops(looped if looped or column else outer)
        inside = self.parallel(top, shared) if shared else (top, [])
        self.rows(
            inside,
            looped[len(shared) :] if len(shared) <= len(looped) else (),
            column,
            shared,
        )

    @property
    def work(self) -> int | None:
        """Points of all loops, where it is known."""
        return product([variable.size for variable in self.kernel.variables]).value

    @property
    def uses_threads(self) -> bool:
        """Whether there is work for several threads."""
        return self.threads > 1 and (
            self.work is None or self.work * max(1, len(self.plan.nodes) // 4) >= 1 << 15
        )

    def shared_loops(self, variables: Sequence[Var]) -> Sequence[Var]:
        """The leading loops that are divided among threads: as few as keep all threads busy."""
        if not self.uses_threads:
            return ()
        taken: list[Var] = []
        count: int | None = 1
        for variable in variables:
            if count is not None and count >= 8 * self.threads:
                break
            taken.append(variable)
            count = (
                None
                if variable.size.value is None or count is None
                else count * variable.size.value
            )
            if count is None:
                break
        return tuple(taken)

    def parallel(self, top: Scope, shared: Sequence[Var]) -> tuple[Scope, list[str]]:
        """Opens the loop over the product of `shared`; returns its scope and the lines that end
        it."""
        inside = Scope(frozenset(shared), top)
        last = len(shared) == len(self.kernel.variables)
        if len(shared) == 1:
            name, size = shared[0].name, self.index(shared[0].size)
            top_line = f"for (int64_t {name} = 0; {name} < {size}; {name}++) {{"
            first: list[str] = []
        else:
            total = self.index(product([variable.size for variable in shared]))
            top_line = f"for (int64_t row = 0; row < {total}; row++) {{"
            first = self.of_flat("row", shared)
        inside.lines += first
        pragma = (
            "#pragma omp parallel for simd schedule(static)"
            if last and len(shared) == 1
            else "#pragma omp parallel for schedule(static)"
        )
        return inside, [pragma, top_line]

    def of_flat(self, number: str, variables: Sequence[Var]) -> list[str]:
        """The loop variables of a flat number."""
        lines = []
        for variable in reversed(variables[1:]):
            lines.append(
                f"const int64_t {variable.name} = ({number}) % ({self.index(variable.size)});"
            )
            number = f"({number}) / ({self.index(variable.size)})"
        return [
            *lines,
            *(f"const int64_t {variable.name} = {number};" for variable in variables[:1]),
        ]

    def rows(
        self,
        opened: tuple[Scope, list[str]],
        rest: Sequence[Var],
        column: bool,
        shared: Sequence[Var],
    ) -> None:
        scope, header = opened
        if column:
            self.plain(scope, rest, lambda inner: self.columns(inner, self.kernel.outer[-1]))
        elif self.kernel.inner:
            self.plain(scope, rest, self.row)
        elif len(shared) == len(self.kernel.outer):
            self.declare_joined(scope)
            self.stores(scope, 0)
        else:
            self.plain(scope, rest, lambda inner: self.innermost(inner, self.kernel.outer[-1]))
        if header:
            top = scope.parent
            assert top is not None
            top.lines += [*header, *indent(scope.lines), "}"]

    def tiles(self, top: Scope, second: Var) -> None:
        """Square tiles over the last loop and another one, along which some buffers are
        contiguous."""
        last = self.kernel.outer[-1]
        turned = self.turned = TransposedTile(second, last)
        others = [variable for variable in self.kernel.outer if variable not in (second, last)]
        outside = Scope(frozenset(others), top)
        line = Scope(frozenset([*others, second]), outside)
        inside = Scope(frozenset(self.kernel.outer), line)
        self.stores(inside, 0)
        near = {
            name: f"{self.pointers[access.buffer]}[{self.index(access.index)}]"
            for access, name in turned.near.items()
        }
        fill = [f"{name}[{turned.place}] = {source};" for name, source in near.items()]
        empty = [f"{target} = {name}[{turned.place}];" for name, target in turned.far.items()]
        kinds = [self.buffers[access.buffer].dtype for access in turned.near] + turned.kinds
        arrays = [
            f"{TYPES[kind]} {name}[{SIDE * PITCH}];"
            for kind, name in zip(kinds, [*near, *turned.far], strict=True)
        ]
        width, height = self.index(last.size), self.index(second.size)
        count = f"(({height} + {SIDE - 1}) / {SIDE})"
        total = " * ".join([*(f"({self.index(variable.size)})" for variable in others), count])
        along, across = (
            f"for (int64_t {v} = {v}_from; {v} < {v}_to; {v}++) {{"
            for v in (last.name, second.name)
        )
        tile = [
            self.end_of_tile(last),
            *(_block(along, [SIMD, *_block(across, fill)]) if fill else []),
            *_block(across, [*line.lines, SIMD, *_block(along, inside.lines)]),
            *(_block(along, [SIMD, *_block(across, empty)]) if empty else []),
        ]
        start = (
            f"for (int64_t {last.name}_from = 0; {last.name}_from < {width}; {last.name}_from "
            f"+= {SIDE}) {{"
        )
        body = [
            *self.of_flat(f"tile / {count}", others),
            *outside.lines,
            f"const int64_t {second.name}_from = tile % {count} * {SIDE};",
            self.end_of_tile(second),
            *_block(start, [*arrays, *tile]),
        ]
        top.lines += [*(["#pragma omp parallel for schedule(static)"] if self.uses_threads else [])]
        top.lines += _block(f"for (int64_t tile = 0; tile < {total}; tile++) {{", body)

    def end_of_tile(self, variable: Var) -> str:
        """Where all tiles are whole, the C compiler knows how long their loops are."""
        end, size = f"{variable.name}_from + {SIDE}", variable.size
        whole = size.value is not None and size.value % SIDE == 0
        return (
            f"const int64_t {variable.name}_to = "
            f"{end if whole else f'least({end}, {self.index(size)})'};"
        )

    def plain(self, scope: Scope, variables: Sequence[Var], body: object) -> None:
        """Nested loops over variables around body(scope)."""
        if not variables:
            body(scope)  # type: ignore[operator]
            return
        inside = Scope(scope.variables | {variables[0]}, scope)
        self.plain(inside, variables[1:], body)
        scope.lines += [self.loop(variables[0]), *indent(inside.lines), "}"]

    def loop(self, variable: Var, step: int = 1) -> str:
        following = f"{variable.name}++" if step == 1 else f"{variable.name} += {step}"
        return (
            f"for (int64_t {variable.name} = 0; {variable.name} < {self.index(variable.size)}; "
            f"{following}) {{"
        )

    def innermost(self, scope: Scope, variable: Var) -> None:
        """The last loop of a kernel without reductions."""
        inside = Scope(scope.variables | {variable}, scope)
        self.declare_joined(inside)
        self.stores(inside, 0)
        if self.ends_in_full_vector(variable):
            scope.lines += self.full_vectors(variable, inside.lines)
        else:
            scope.lines += [SIMD, self.loop(variable), *indent(inside.lines), "}"]

    def ends_in_full_vector(self, variable: Var) -> bool:
        """Whether the elements that are left behind the last whole vector are computed by a vector
        that overlaps it: one by one, functions would take longer for them than for all others."""
        size = variable.size.value
        parameters = self.parameters
        return (
            self.joint is None
            and size is not None
            and LANES < size < MOST_OVERLAPPED
            and size % LANES != 0
            and set(parameters.loaded).isdisjoint(parameters.stored)  # nothing is computed anew
            and any(
                node.op in VECTOR + VECTOR_PAIRS and variable in self.plan.depends[id(node)]
                for node in self.plan.nodes
            )
        )

    def full_vectors(self, variable: Var, lines: Sequence[str]) -> list[str]:
        """A loop in steps of a vector, the last of which starts early."""
        name, size = variable.name, variable.size.value or 0
        lane = f"const int64_t {name} = {name}_from + lane;"
        vector = _block(f"for (int64_t lane = 0; lane < {LANES}; lane++) {{", [lane, *lines])
        start = f"const int64_t {name}_from = least({name}_next, {size - LANES});"
        header = f"for (int64_t {name}_next = 0; {name}_next < {size}; {name}_next += {LANES}) {{"
        return _block(header, [start, SIMD, *vector])

    def declare_joined(self, scope: Scope) -> None:
        """The variables of two loops that are one."""
        if self.joint is not None:
            scope.lines += self.joint.declarations()
            scope.variables |= {self.joint.outer, self.joint.inner}

    def stores(self, scope: Scope, stage: int, full: bool | None = None) -> None:
        """Stores of values that need `stage` reductions. full: only those inside rows, or only
        those of whole rows."""
        for store in self.kernel.stores:
            wide = not self.plan.in_rows(store.value) or bool(
                store.index.variables() & set(self.kernel.inner)
            )
            if self.plan.stage[id(store.value)] == stage and (full is None or full == wide):
                value = self.value(store.value, scope)
                target = f"{self.targets[store.buffer]}[{self.index(store.index)}]"
                if self.turned and self.turned.holds(store.index):
                    target = self.turned.store_far(target, store.value.dtype)
                scope.lines.append(f"{target} = {value};")

    # --- at computed places ---

    def scatter(self, top: Scope, node: Scalar) -> None:
        """Loops over what is scattered, in order. Threads share a leading loop whose iterations
        store to different elements, or each goes through everything and stores its own share of
        the rows: then none waits for another, and none writes to another's cache lines."""
        extent = self.value(node.args[-1], top)
        apart = list(takewhile(self.is_subscript, self.kernel.outer))
        rest = sorted(self.kernel.outer[len(apart) :], key=self.is_subscript)
        count = product([variable.size for variable in apart]).value
        header: list[str] = []
        first, last = "0", extent
        inside = Scope(frozenset(), top)
        if self.uses_threads and apart and (count is None or count >= self.threads):
            shared = self.shared_loops(apart)
            inside, header = self.parallel(top, shared)
            apart = apart[len(shared) :]
        elif self.uses_threads:
            header = [
                "#pragma omp parallel for schedule(static)",
                f"for (int64_t share = 0; share < {self.threads}; share++) {{",
            ]
            first, last = "first", "last"
            inside.lines += [
                f"const int64_t first = {extent} * share / {self.threads};",
                f"const int64_t last = {extent} * (share + 1) / {self.threads};",
            ]
        self.scatter_points(inside, [*apart, *rest], node, f"{{0}} >= {first} && {{0}} < {last}")
        top.lines += [*header, *indent(inside.lines), "}"] if header else inside.lines

    def scatter_points(
        self, outside: Scope, variables: Sequence[Var], node: Scalar, condition: str
    ) -> None:
        """Nested loops around a store of one element, where the row fulfils the condition."""
        old, value, row, _ = node.args
        scopes = [outside]
        for variable in variables:
            scopes.append(Scope(scopes[-1].variables | {variable}, scopes[-1]))
        innermost = scopes[-1]
        conditions = [condition.format(self.value(row, innermost))]
        if old.args[0] is not TRUE:
            conditions.append(self.value(old.args[0], innermost))
        needed = self.plan.depends[id(row)] | self.plan.depends[id(old.args[0])]
        home = next(scope for scope in scopes if needed <= scope.variables)
        before = len(home.lines)
        (store,) = self.kernel.stores
        holes = [self.value(place, innermost) for place in subscripts_of(old)]
        target = f"{self.targets[store.buffer]}[{self.index(store.index, holes)}]"
        given = self.value(value, innermost)
        innermost.lines += [
            f"const {TYPES[node.dtype]} before = {target};",
            f"{target} = {self.combine(node, 'before', given)};",
        ]
        ahead = self.fetch_ahead(home, variables, node, condition)
        for number in range(len(variables), -1, -1):
            scope = scopes[number]
            if scope is home:
                inside = scope.lines[before:]
                scope.lines[before:] = _block(f"if ({' && '.join(conditions)}) {{", inside)
                scope.lines += ahead
            if number:
                variable = variables[number - 1]
                simd = scope is innermost and scope is not home and self.is_subscript(variable)
                loop = _block(self.loop(variable), scope.lines)
                scopes[number - 1].lines += [SIMD, *loop] if simd else loop

    def fetch_ahead(
        self, home: Scope, variables: Sequence[Var], node: Scalar, condition: str
    ) -> list[str]:
        """Asks for the memory that an iteration soon after this one reads and writes at computed
        places: the processor cannot foresee them, and would wait."""
        old, _, row, _ = node.args
        (store,) = self.kernel.stores
        inside = [variable for variable in variables if variable not in home.variables]
        stepped = [variable for variable in variables if variable in self.plan.depends[id(row)]]
        if not inside or not stepped or not is_worth_fetching(inside, node.dtype):
            return []
        variable = stepped[-1]
        later = Var(f"{variable.name}_later", variable.size)
        places = [
            (one.attr, subscripts_of(one))
            for one in (old, *(one for one in self.plan.nodes if one is not old))
            if self.is_neighbourhood(one, home, inside[-1])
            and any(variable in self.plan.depends[id(hole)] for hole in subscripts_of(one))
        ]
        if not places:
            return []
        every = substitute(
            [row, *(value for _, holes in places for value in holes)], {variable: atom(later)}
        )
        self.plan.add(one for one in topological(every) if id(one) not in self.plan.depends)
        position = Scope(home.variables | {later}, home)
        row_later, *holes_later = every
        test = condition.format(self.value(row_later, position))
        fetching = Scope(position.variables | set(inside), position)
        before = len(position.lines)
        for access, holes in places:
            names = [self.value(holes_later.pop(0), position) for _ in holes]
            place = self.index(access.index.substitute({variable: atom(later)}), names)
            written = access is old.attr
            pointer = self.targets[store.buffer] if written else self.pointers[access.buffer]
            fetching.lines.append(f"__builtin_prefetch(&{pointer}[{place}], {int(written)});")
        lines = fetching.lines
        for one in reversed(inside):
            step = LINE // node.dtype.itemsize if one is inside[-1] else 1
            lines = _block(self.loop(one, step), lines)
        last = f"{self.index(variable.size)} - 1"
        return [
            f"const int64_t {later.name} = least({variable.name} + {AHEAD}, {last});",
            *position.lines[:before],
            *_block(f"if ({test}) {{", [*position.lines[before:], *lines]),
        ]

    def is_neighbourhood(self, node: Scalar, home: Scope, along: Var) -> bool:
        """Whether a load reads neighbouring elements along a loop, at a place that is computed
        outside of it."""
        return (
            node.op == LOAD
            and bool(subscripts_of(node))
            and node.attr.index.coefficient(along) == 1
            and all(self.plan.depends[id(hole)] <= home.variables for hole in subscripts_of(node))
        )

    def is_subscript(self, variable: Var) -> bool:
        """Whether iterations of a loop around a scatter store to different elements."""
        return variable in self.kernel.stores[0].index.variables()

    def combine(self, node: Scalar, old: str, new: str) -> str:
        """What becomes of an element that a value is scattered to."""
        name = SCATTERS[node.attr]
        return new if name is None else operation(scalar(name, *node.args[:2]), [old, new])

    # --- a row after the other ---

    def row(self, outside: Scope) -> None:
        scope = Scope(outside.variables, outside)
        kept = self.kept_along_rows()
        for number, node in enumerate(kept.values()):
            scope.lines.append(f"{TYPES[node.dtype]} kept{number}[{self.kernel.columns}];")
        self.kept = {id(node): f"kept{number}" for number, node in enumerate(kept.values())}
        for stage in range(self.plan.stages + 1):
            reductions = self.plan.reductions(stage)
            inside = Scope(scope.variables | set(self.kernel.inner), scope)
            ends = [self.accumulate(node, scope, inside) for node in reductions]
            self.stores(inside, stage, full=True)
            self.stored |= self.kept.keys() & inside.names.keys()
            if inside.lines:
                self.row_loop(scope, inside, reductions, [clause for clause, _ in ends])
            for node, (_, name) in zip(reductions, ends, strict=True):
                scope.names[id(node)] = name
                scope.lines += self.print_final_nan(node, name)
            self.stores(scope, stage, full=False)
        outside.lines += scope.lines

    def operands(self, node: Scalar) -> Sequence[Scalar]:
        return () if id(node) in self.stored else node.args

    def compute(self, node: Scalar, scope: Scope) -> None:
        array = self.kept.get(id(node))
        if array is None:
            super().compute(node, scope)
        elif id(node) in self.stored:
            name = scope.names[id(node)] = f"v{self.counter}"
            self.counter += 1
            scope.lines.append(
                f"const {TYPES[node.dtype]} {name} = "
                f"{array}[{self.index(linear(self.kernel.inner))}];"
            )
        else:
            super().compute(node, scope)
            scope.lines.append(
                f"{array}[{self.index(linear(self.kernel.inner))}] = {scope.names[id(node)]};"
            )

    def kept_along_rows(self) -> dict[int, Scalar]:
        """Expensive values that are needed in several walks along a row: kept in an array instead
        of computed again."""
        columns = self.kernel.columns.value
        if columns is None or columns > LONGEST_KEPT:
            return {}
        walks = [self.needed_values(stage) for stage in range(self.plan.stages + 1)]
        found: dict[int, Scalar] = {}
        for later in range(1, len(walks)):
            before = {key for walk in walks[:later] for key in walk}
            for node in walks[later].values():
                fresh = id(node) not in before
                found |= {
                    id(arg): arg
                    for arg in node.args
                    if fresh
                    and id(arg) in before
                    and id(arg) in walks[later]
                    and self.is_expensive(arg)
                }
            for node in self.roots(later):
                if id(node) in before and self.is_expensive(node):
                    found[id(node)] = node
        return found

    def roots(self, stage: int) -> list[Scalar]:
        """What a walk along a row computes for its reductions and stores."""
        stores = [
            store.value for store in self.kernel.stores if self.plan.stage[id(store.value)] == stage
        ]
        values = [node.args[0] for node in self.plan.reductions(stage)] + stores
        return [node for node in values if not self.plan.in_rows(node)]

    def needed_values(self, stage: int) -> dict[int, Scalar]:
        """By id, all values that a walk computes for each element."""
        found: dict[int, Scalar] = {}
        todo = self.roots(stage)
        while todo:
            node = todo.pop()
            if id(node) not in found and not self.plan.in_rows(node):
                found[id(node)] = node
                todo += node.args
        return found

    def is_expensive(self, root: Scalar) -> bool:
        return (
            sum(SCALAR_OPS[node.op].cost for node in topological([root]) if node.op in SCALAR_OPS)
            >= EXPENSIVE
        )

    def row_loop(
        self, scope: Scope, inside: Scope, reductions: Sequence[Scalar], clauses: Sequence[str]
    ) -> None:
        """The loops along a row, the last one with SIMD where all that it accumulates is of a kind
        that has it."""
        simd = not any(node.attr.startswith("arg") for node in reductions)
        *before, last = self.kernel.inner
        lines = [self.loop(last), *indent(inside.lines), "}"]
        if simd:
            lines.insert(
                0, " ".join(["#pragma omp simd", *(clause for clause in clauses if clause)])
            )
        for variable in reversed(before):
            lines = [self.loop(variable), *indent(lines), "}"]
        scope.lines += lines

    def accumulate(self, node: Scalar, scope: Scope, inside: Scope) -> tuple[str, str]:
        """Declares what a reduction gathers in `scope` and gathers in `inside`; returns its clause
        for SIMD, and its name."""
        name = f"acc{self.counter}"
        self.counter += 1
        kind = self.gathered_as(node)
        value = self.value(node.args[0], inside)
        if node.attr in ("sum", "prod"):
            sign = "+" if node.attr == "sum" else "*"
            scope.lines.append(f"{kind} {name} = {0 if node.attr == 'sum' else 1};")
            inside.lines.append(f"{name} {sign}= {value};")
            return f"reduction({sign}:{name})", name
        if node.attr == "any":
            scope.lines.append(f"{kind} {name} = 0;")
            inside.lines.append(f"{name} |= {value};")
            return f"reduction(|:{name})", name
        sign = ">" if node.attr.endswith("max") else "<"
        dtype = node.args[0].dtype
        scope.lines.append(f"{TYPES[dtype]} {name} = {extreme(dtype, node.attr.endswith('max'))};")
        if node.attr.startswith("arg"):
            number = self.index(linear(self.kernel.inner))
            scope.lines.append(f"int64_t {name}_at = 0, {name}_any = 0;")
            better = f"{value} {sign} {name} || ({value} != {value} && {name} == {name})"
            inside.lines.append(
                f"if (!{name}_any || {better}) {{ {name} = {value}; {name}_at = {number}; "
                f"{name}_any = 1; }}"
            )
            return "", f"{name}_at"
        inside.lines.append(f"{name} = {value} {sign} {name} ? {value} : {name};")
        clause = f"reduction({node.attr}:{name})"
        if dtype.is_floating_point:
            scope.lines.append(f"int {name}_nan = 0;")
            inside.lines.append(f"{name}_nan |= {value} != {value};")
            clause += f" reduction(|:{name}_nan)"
        return clause, name

    def print_final_nan(self, node: Scalar, name: str) -> list[str]:
        if node.attr in ("max", "min") and node.dtype.is_floating_point:
            return [f'if ({name}_nan) {name} = ({TYPES[node.dtype]})__builtin_nan("");']
        return []

    def gathered_as(self, node: Scalar) -> str:
        columns = self.kernel.columns.value
        most = LONG_SUM_ACROSS if self.column_mode() else LONG_SUM
        if (
            node.attr == "sum"
            and node.dtype == torch.float32
            and (columns is None or columns > most)
        ):
            return "double"
        return TYPES[node.dtype]

    # --- many rows side by side ---

    def column_mode(self) -> bool:
        """Whether rows are reduced side by side; places of extremes are not."""
        return self.plan.across() and not any(
            node.op == REDUCE and node.attr.startswith("arg") for node in self.plan.nodes
        )

    def columns(self, outside: Scope, variable: Var) -> None:
        """Blocks of rows; each reduction gathers in an array with an element a row."""
        size = self.index(variable.size)
        block = Scope(outside.variables, outside)
        block.lines.append(
            f"const int64_t width = {size} - block < {COLUMNS} ? {size} - block : {COLUMNS};"
        )
        found: dict[int, str] = {}
        for stage in range(self.plan.stages + 1):
            reductions = self.plan.reductions(stage)
            inside = Scope(
                block.variables | {variable} | set(self.kernel.inner), block, names=dict(found)
            )
            names = []
            for node in reductions:
                name = f"acc{self.counter}"
                self.counter += 1
                names.append(name)
                start = {"sum": "0", "prod": "1", "any": "0"}.get(node.attr) or extreme(
                    node.dtype, node.attr == "max"
                )
                block.lines.append(f"{self.gathered_as(node)} {name}[{COLUMNS}];")
                block.lines.append(
                    f"for (int64_t lane = 0; lane < {COLUMNS}; lane++) {name}[lane] = {start};"
                )
                value = self.value(node.args[0], inside)
                inside.lines.append(_gathering(node, f"{name}[lane]", value))
            self.stores(inside, stage, full=True)
            if inside.lines:
                lines = ["#pragma omp simd", *self.lanes(variable, inside.lines)]
                for loop_variable in reversed(self.kernel.inner):
                    lines = [self.loop(loop_variable), *indent(lines), "}"]
                block.lines += lines
            found |= {
                id(node): f"{name}[lane]" for node, name in zip(reductions, names, strict=True)
            }
            ending = Scope(block.variables | {variable}, block, names=dict(found))
            self.stores(ending, stage, full=False)
            if ending.lines:
                block.lines += ["#pragma omp simd", *self.lanes(variable, ending.lines)]
        outside.lines += [
            f"for (int64_t block = 0; block < {size}; block += {COLUMNS}) {{",
            *indent(block.lines),
            "}",
        ]

    def lanes(self, variable: Var, lines: Sequence[str]) -> list[str]:
        first = f"const int64_t {variable.name} = block + lane;"
        return ["for (int64_t lane = 0; lane < width; lane++) {", *indent([first, *lines]), "}"]

    # --- values ---

    def constant(self, node: Scalar) -> str:
        return literal(node)

    def assignment(self, name: str, node: Scalar, text: str) -> str:
        return f"const {TYPES[node.dtype]} {name} = {text};"

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        if node.op == LOAD:
            if self.turned and node.args == (TRUE,) and self.turned.holds(node.attr.index):
                return self.turned.load_near(node.attr)
            read = f"{self.pointers[node.attr.buffer]}[{self.index(node.attr.index, args[1:])}]"
            masks = [args[0]] * (node.args[0] is not TRUE and args[0] != "1") + [
                args[-1]
            ] * node.attr.checked
            return f"{' && '.join(masks)} ? {read} : ({TYPES[node.dtype]})0" if masks else read
        if node.op == INDEX:
            return self.index(node.attr)
        if node.op == CAST:
            return convert_expression(args[0], node.args[0].dtype, node.dtype)
        return operation(node, args)

    def atom(self, item: object, holes: Sequence[str]) -> str:
        if isinstance(item, Hole):
            return holes[item.number]
        if isinstance(item, Division):
            numerator, divisor = self.index(item.numerator, holes), self.index(item.divisor, holes)
            bounds = item.numerator.bounds()
            if bounds is not None and nonnegative(bounds[0]):
                return f"(({numerator}) {'/' if isinstance(item, Quotient) else '%'} ({divisor}))"
            return (
                f"{'floordivi' if isinstance(item, Quotient) else 'remainder_i'}({numerator}, "
                f"{divisor})"
            )
        assert isinstance(item, (Var, Sym))
        return item.name


def is_worth_fetching(along: Sequence[Var], dtype: torch.dtype) -> bool:
    """Whether what lies side by side at a computed place is some lines of the cache, but far from
    all of it."""
    count = product([variable.size for variable in along]).value
    return count is not None and 4 * LINE <= count * dtype.itemsize <= 64 * LINE


def print_c(kernel: Kernel, buffers: Mapping[str, Buffer], threads: int) -> tuple[str, Parameters]:
    """The text of a function named NAME, and what it is called with."""
    function = CFunction(kernel, buffers, threads)
    return function.text("NAME"), function.parameters


def _block(header: str, lines: Sequence[str]) -> list[str]:
    return [header, *indent(lines), "}"]


def indent(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else f"    {line}" for line in lines]


def _gathering(node: Scalar, target: str, value: str) -> str:
    if node.attr in ("sum", "prod", "any"):
        return f"{target} {dict(sum='+', prod='*', any='|')[node.attr]}= {value};"
    sign = ">" if node.attr == "max" else "<"
    return f"{target} = ({value} {sign} {target} || {value} != {value}) ? {value} : {target};"


def literal(node: Scalar) -> str:
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


def convert_expression(text: str, source: torch.dtype, target: torch.dtype) -> str:
    if source == torch.bfloat16:
        text, source = f"from_bf16({text})", torch.float32
    if target == torch.bool:
        return f"{text} != 0"
    if target == torch.bfloat16:
        return f"to_bf16((float){text})"
    if source.is_floating_point and target == torch.uint8:
        return f"(uint8_t)(int64_t){text}"
    return f"({TYPES[target]}){text}"
