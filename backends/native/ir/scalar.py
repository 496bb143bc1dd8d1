"""Scalar: the numbers that a loop body computes, as a graph; making, walking and rewriting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ....records import record
from .index import Atom, Index
from .scalar_ops import BOOL, SCALAR_OPS

LOAD, CONST, INDEX, CAST, REDUCE = "load", "const", "index", "cast", "reduce"
SCATTER = "scatter"


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """One number for each point of the loops. `op`: a name of SCALAR_OPS, or load: attr an Access,
    arguments its mask and its computed subscripts; const: attr the number; index: attr an Index;
    cast: to dtype; reduce: attr a name of REDUCTIONS, over the inner loops; scatter: only as what
    is stored, see `scatter`."""

    op: str
    args: tuple[Scalar, ...]
    dtype: torch.dtype
    attr: Any = None

    def __add__(self, other: Operand) -> Scalar:
        return scalar("add", self, other)

    def __radd__(self, other: Operand) -> Scalar:
        return scalar("add", other, self)

    def __sub__(self, other: Operand) -> Scalar:
        return scalar("sub", self, other)

    def __rsub__(self, other: Operand) -> Scalar:
        return scalar("sub", other, self)

    def __mul__(self, other: Operand) -> Scalar:
        return scalar("mul", self, other)

    def __rmul__(self, other: Operand) -> Scalar:
        return scalar("mul", other, self)

    def __truediv__(self, other: Operand) -> Scalar:
        return scalar("div", self, other)

    def __rtruediv__(self, other: Operand) -> Scalar:
        return scalar("div", other, self)

    def __neg__(self) -> Scalar:
        return scalar("neg", self)


Operand = Scalar | int | float  # a number takes the type of the other operands


@record
class Access:
    """An element of a buffer, counted from its start. Hole(n) in the index is the n-th computed
    subscript. Where the load's mask is false, nothing is read. checked: the last argument must hold
    wherever the mask does; eager raises where it does not."""

    buffer: str
    index: Index
    checked: bool = False


def scalar(name: str, *operands: Operand) -> Scalar:
    """An operation of SCALAR_OPS. Operands have one type (`where`: the last two), which plain
    numbers take on."""
    typed = operands[1:] if name == "where" else operands
    dtype = next(one.dtype for one in typed if isinstance(one, Scalar))
    args = tuple(one if isinstance(one, Scalar) else const(one, dtype) for one in operands)
    assert all(arg.dtype == dtype for arg in args[-len(typed) :]), (name, args)
    return Scalar(name, args, torch.bool if SCALAR_OPS[name].result == BOOL else dtype)


def const(value: Any, dtype: torch.dtype) -> Scalar:
    if dtype == torch.bool:
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    else:
        value = wrap(int(value), dtype)
    return Scalar(CONST, (), dtype, value)


def wrap(number: int, dtype: torch.dtype) -> int:
    """What torch makes of a number of the program among integers that cannot hold it."""
    info = torch.iinfo(dtype)
    return (number - info.min) % (info.max - info.min + 1) + info.min


def position(value: Index, dtype: torch.dtype = torch.int64) -> Scalar:
    return cast(Scalar(INDEX, (), torch.int64, value), dtype)


TRUE = const(True, torch.bool)


def load(
    buffer: str,
    place: Index,
    dtype: torch.dtype,
    subscripts: tuple[Scalar, ...] = (),
    mask: Scalar = TRUE,
    check: Scalar | None = None,
) -> Scalar:
    args = (mask, *subscripts) if check is None else (mask, *subscripts, check)
    return Scalar(LOAD, args, dtype, Access(buffer, place, check is not None))


HALF = (torch.float16, torch.bfloat16)
ROUNDINGS = {torch.float16: "round_to_float16", torch.bfloat16: "round_to_bfloat16"}


def round_to(value: Scalar, dtype: torch.dtype) -> Scalar:
    """A value of float32 with the precision of dtype, if that is half precision."""
    if dtype not in HALF or value.dtype != torch.float32:
        return value
    if value.op == CONST:
        return const(evaluate(ROUNDINGS[dtype], value), value.dtype)
    return value if value.op == ROUNDINGS[dtype] else scalar(ROUNDINGS[dtype], value)


def evaluate(name: str, *constants: Scalar) -> Any:
    """The number that an operation makes of constants, in no mode of the program."""
    with _disable_current_modes():
        args = [torch.tensor(each.attr, dtype=each.dtype, device="cpu") for each in constants]
        return SCALAR_OPS[name].meaning(*args).item()


def cast(value: Scalar, dtype: torch.dtype) -> Scalar:
    """value as dtype, torch's way: to bool is `!= 0`, to an integer truncates."""
    if value.dtype == dtype:
        return value
    if value.op == CONST and not (dtype in HALF and isinstance(value.attr, float)):
        if not (
            isinstance(value.attr, float) and not dtype.is_floating_point and dtype != torch.bool
        ):
            return const(value.attr, dtype)
    if value.op == CAST and value.args[0].dtype == dtype == torch.float32 and value.dtype in HALF:
        # rounding to half precision and back is left out between fused operations
        return value.args[0]
    return Scalar(CAST, (value,), dtype)


def cast_again(node: Scalar) -> Scalar:
    """A node with other arguments than it was made with; a cast as `cast` makes it of these. The
    node itself where that is the same."""
    made = cast(node.args[0], node.dtype) if node.op == CAST else node
    return node if made.op == CAST and made.args[0] is node.args[0] else made


def reduce(kind: str, value: Scalar) -> Scalar:
    return Scalar(REDUCE, (value,), torch.int64 if kind.startswith("arg") else value.dtype, kind)


def scatter(kind: str, old: Scalar, value: Scalar, row: Scalar, rows: Index) -> Scalar:
    """What a kernel stores at computed places: the element there (`old`, a load at the same place
    whose mask says whether anything is stored) combined with a value. kind: a name of SCATTERS.
    row: the place along one dimension; iterations with different rows store to different elements.
    rows: how many rows there are."""
    return Scalar(SCATTER, (old, value, row, position(rows)), value.dtype, kind)


def topological(roots: Iterable[Scalar]) -> list[Scalar]:
    """Every Scalar once, arguments first."""
    seen: set[int] = set()
    ordered: list[Scalar] = []
    todo: list[tuple[Scalar, bool]] = [(root, False) for root in reversed(list(roots))]
    while todo:
        node, ready = todo.pop()
        if ready:
            ordered.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo.extend((arg, False) for arg in reversed(node.args) if id(arg) not in seen)
    return ordered


def rewrite(roots: Iterable[Scalar], change: Callable[[Scalar], Scalar]) -> list[Scalar]:
    """The roots with every node replaced by change(node, its arguments already rewritten); shared
    nodes stay shared."""
    roots = list(roots)
    done: dict[int, Scalar] = {}
    for node in topological(roots):
        args = tuple(done[id(arg)] for arg in node.args)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        done[id(node)] = change(node if same else Scalar(node.op, args, node.dtype, node.attr))
    return [done[id(root)] for root in roots]


def substitute(roots: Iterable[Scalar], mapping: Mapping[Atom, Index]) -> list[Scalar]:
    """The roots with loop variables replaced."""

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD:
            place = node.attr.index.substitute(mapping)
            if place is node.attr.index:
                return node
            return Scalar(LOAD, node.args, node.dtype, replace(node.attr, index=place))
        if node.op == INDEX:
            place = node.attr.substitute(mapping)
            return node if place is node.attr else Scalar(INDEX, (), node.dtype, place)
        return node

    return rewrite(roots, change)


def share(roots: Iterable[Scalar]) -> list[Scalar]:
    """Common subexpression elimination: equal Scalars become one object."""
    known: dict[Any, Scalar] = {}

    def change(node: Scalar) -> Scalar:
        # 0.0 is not -0.0, NaN is NaN
        attr = repr(node.attr) if isinstance(node.attr, float) else node.attr
        return known.setdefault(
            (node.op, tuple(map(id, node.args)), node.dtype, attr, type(node.attr)), node
        )

    return rewrite(roots, change)


def loads(roots: Iterable[Scalar]) -> list[Scalar]:
    return [node for node in topological(roots) if node.op == LOAD]
