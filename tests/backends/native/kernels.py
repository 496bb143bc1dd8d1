"""Kernels of the loop IR for the oracle: every scalar operation, cast and reduction, over shapes,
masks and computed subscripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.index import Hole, Index, Sym, atom, index
from framejit.backends.native.ir.program import Buffer, Kernel, Store, loops
from framejit.backends.native.ir.scalar import (
    TRUE,
    Scalar,
    cast,
    const,
    load,
    position,
    reduce,
    scalar,
    scatter,
)
from framejit.backends.native.ir.scalar_ops import REDUCTIONS, SCALAR_OPS, SCATTERS
from framejit.backends.native.printers.base import Plan
from framejit.backends.native.printers.tiles import Tiles, choose_tiles

FLOAT = (torch.float32, torch.float64)
INTEGER = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
TYPES = (torch.bool, *INTEGER, torch.float16, torch.bfloat16, *FLOAT)
LOGIC = ("and", "or", "xor", "not")
BITS = ("bitand", "bitor", "bitxor", "bitnot")
SHIFTS = ("shl", "shr")
ALL_TYPES = ("eq", "ne", "where")
NUMBERS = (
    "add",
    "sub",
    "mul",
    "maximum",
    "minimum",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "abs",
    "remainder",
    "floordiv",
    "fmod",
)


@dataclass
class Case:
    """A kernel with the memory that it runs on (flat buffers by name) and the values of its
    symbols."""

    kernel: Kernel
    memory: dict[str, torch.Tensor]
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def buffers(self) -> dict[str, Buffer]:
        found = {}
        for name, tensor in self.memory.items():
            found[name] = Buffer(
                name, (index(tensor.numel()),), (index(1),), tensor.dtype, tensor.device
            )
        return found


def numbers(count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Values around 0, with the odd ones among them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, generator=generator, dtype=torch.float64) * 3
    if dtype in (torch.float16, torch.bfloat16, *FLOAT):
        odd = torch.tensor(
            [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5],
            dtype=torch.float64,
        )
        values[: len(odd)] = odd[torch.randperm(len(odd), generator=generator)][:count]
        return values.to(dtype)
    if dtype == torch.bool:
        return values > 0
    return (
        (values * 5).to(torch.int64).abs().to(dtype)
        if dtype == torch.uint8
        else (values * 5).to(dtype)
    )


def types_of(name: str) -> tuple[torch.dtype, ...]:
    if name in LOGIC:
        return (torch.bool,)
    if name in BITS or name == "truncdiv":
        return INTEGER
    if name in SHIFTS:
        return (torch.int32, torch.int64)
    if name in ALL_TYPES:
        return (torch.bool, *INTEGER, *FLOAT)
    return (*INTEGER, *FLOAT) if name in NUMBERS else FLOAT


def operations() -> Iterator[tuple[str, Case]]:
    """Each scalar operation on each type that lowerings use it with."""
    (x,) = loops([index(37)], "x")
    for name, op in SCALAR_OPS.items():
        for dtype in types_of(name):
            memory = {f"in{n}": numbers(37, dtype, n) for n in range(op.arity)}
            if name == "where":
                memory["in0"] = numbers(37, torch.bool)
            if (
                name in ("truncdiv", "floordiv", "remainder", "fmod")
                and not dtype.is_floating_point
            ):
                memory["in1"] = torch.full_like(memory["in1"], 3 if dtype == torch.uint8 else -3)
            if name in SHIFTS:
                memory = {"in0": memory["in0"].abs(), "in1": memory["in1"].abs() % 8}
            if name == "neg" and dtype == torch.uint8 or name == "abs" and dtype == torch.uint8:
                continue
            value = scalar(name, *(load(b, atom(x), t.dtype) for b, t in memory.items()))
            memory["out"] = torch.zeros(37, dtype=value.dtype)
            yield (
                f"{name}-{dtype}",
                Case(Kernel((x,), (), (Store("out", atom(x), value),), (name,)), memory),
            )


def casts() -> Iterator[tuple[str, Case]]:
    (x,) = loops([index(37)], "x")
    for source in TYPES:
        for target in TYPES:
            values = numbers(37, source)
            if source.is_floating_point and not target.is_floating_point and target != torch.bool:
                values = values.nan_to_num(
                    1, 2, 3
                ).abs()  # what has no value as an integer may become anything
            value = cast(load("in0", atom(x), source), target)
            memory = {"in0": values, "out": torch.zeros(37, dtype=target)}
            yield (
                f"{source} to {target}",
                Case(Kernel((x,), (), (Store("out", atom(x), value),), ("cast",)), memory),
            )


def reductions() -> Iterator[tuple[str, Case]]:
    """Each reduction along rows, across rows, over everything, and of one element."""
    for kind in REDUCTIONS:
        for dtype in (
            (torch.bool,)
            if kind == "any"
            else (torch.float32, torch.float64, torch.int64, torch.int32)
        ):
            for rows, columns, across in (
                (5, 70, False),
                (70, 5, True),
                (1, 300, False),
                (130, 3, True),
            ):
                (x,), (r,) = loops([index(rows)], "x"), loops([index(columns)], "r")
                place = atom(r) * rows + atom(x) if across else atom(x) * columns + atom(r)
                value = reduce(kind, load("in0", place, dtype))
                values = numbers(rows * columns, dtype, rows)
                if kind in ("sum", "prod") and dtype.is_floating_point:
                    values = values.nan_to_num(1, 2, 3) / 3
                elif not kind.startswith("arg"):
                    values[::3] = values.flip(0)[::3]
                memory = {"in0": values, "out": torch.zeros(rows, dtype=value.dtype)}
                yield (
                    f"{kind}-{dtype}-{rows}x{columns}",
                    Case(Kernel((x,), (r,), (Store("out", atom(x), value),), (kind,)), memory),
                )


def reductions_of_a_constant() -> Iterator[tuple[str, Case]]:
    """Each reduction of a number that no buffer holds."""
    for kind in REDUCTIONS:
        dtype = torch.bool if kind == "any" else torch.float32
        (x,), (r,) = loops([index(5)], "x"), loops([index(7)], "r")
        value = reduce(kind, const(True if kind == "any" else 1.5, dtype))
        yield (
            f"{kind} of a constant",
            Case(
                Kernel((x,), (r,), (Store("out", atom(x), value),), (kind,)),
                {"out": torch.zeros(5, dtype=value.dtype)},
            ),
        )


def softmax() -> Case:
    """Two reductions that wait for each other, and a store of every element."""
    (x, y), (r,) = loops([index(3), index(5)], "x"), loops([index(70)], "r")
    row = atom(x) * 5 + atom(y)
    read = load("in0", row * 70 + atom(r), torch.float32)
    shifted = scalar("sub", read, reduce("max", read))
    total = reduce("sum", scalar("exp", shifted))
    value = scalar("div", scalar("exp", shifted), total)
    memory = {
        "in0": numbers(1050, torch.float32).nan_to_num(1, 2, 3),
        "out": torch.zeros(1050),
        "rows": torch.zeros(15),
    }
    return Case(
        Kernel(
            (x, y),
            (r,),
            (Store("out", row * 70 + atom(r), value), Store("rows", row, total)),
            ("softmax",),
        ),
        memory,
    )


def running_mean() -> Case:
    """A number of each row that is read and, with the mean of the row, written."""
    (x,), (r,) = loops([index(15)], "x"), loops([index(70)], "r")
    total = reduce("sum", load("in0", atom(x) * 70 + atom(r), torch.float32))
    mean = scalar("div", total, const(70.0, torch.float32))
    before = scalar("mul", load("rows", atom(x), torch.float32), const(0.9, torch.float32))
    after = scalar("add", before, scalar("mul", mean, const(0.1, torch.float32)))
    memory = {"in0": numbers(1050, torch.float32).nan_to_num(1, 2, 3), "rows": torch.ones(15)}
    return Case(Kernel((x,), (r,), (Store("rows", atom(x), after),), ("running_mean",)), memory)


def extreme_softmax() -> Case:
    """Rows of nothing but -inf, with inf, with NaN, and numbers whose exponentials are too
    large."""
    case = softmax()
    rows = case.memory["in0"].view(15, 70)
    rows[0], rows[1, 69], rows[2, 0], rows[3, 30], rows[4, ::2] = (
        -torch.inf,
        torch.inf,
        torch.nan,
        -torch.inf,
        -torch.inf,
    )
    rows[5] += 1000
    rows[6, 40:] = torch.inf
    return case


def masked() -> Case:
    """A pad: nothing is read where the mask is false."""
    x, y = loops([index(6), index(9)], "x")
    column = position(atom(y) - 2)
    here = scalar(
        "and", scalar("ge", column, position(index(0))), scalar("lt", column, position(index(5)))
    )
    value = scalar(
        "where",
        here,
        load("in0", atom(x) * 5 + atom(y) - 2, torch.float32, mask=here),
        const(7, torch.float32),
    )
    memory = {"in0": numbers(30, torch.float32), "out": torch.zeros(54)}
    return Case(Kernel((x, y), (), (Store("out", atom(x) * 9 + atom(y), value),), ("pad",)), memory)


def shifted() -> Case:
    """A row moved on by one, with one element put in front: what is read at one address, under a
    mask that varies."""
    (x,) = loops([index(9)], "x")
    behind = scalar("ge", position(atom(x)), position(index(1)))
    front = scalar("lt", position(atom(x)), position(index(1)))
    moved = load("in0", atom(x) - 1, torch.float32, mask=behind)
    value = scalar("where", behind, moved, load("in0", index(3), torch.float32, mask=front))
    return Case(
        Kernel((x,), (), (Store("out", atom(x), value),), ("cat",)),
        {"in0": numbers(8, torch.float32), "out": torch.zeros(9)},
    )


def windowed() -> Case:
    """Addresses with quotients and remainders of negative numbers, as those of a roll over
    windows."""
    x, y = loops([index(8), index(7)], "x")
    back = atom(y) - 3
    place = (back // 7 + atom(x) + 1) * 10 + back % 7
    value = load("in0", place, torch.float32)
    return Case(
        Kernel((x, y), (), (Store("out", atom(x) * 7 + atom(y), value),), ("roll",)),
        {"in0": numbers(90, torch.float32), "out": torch.zeros(56)},
    )


def computed() -> Case:
    """A lookup: the row comes from another buffer."""
    x, y = loops([index(6), index(9)], "x")
    row = load("in1", atom(x), torch.int64)
    check = scalar("lt", row, const(10, torch.int64))
    value = load("in0", atom(Hole(0)) * 9 + atom(y), torch.float32, subscripts=(row,), check=check)
    memory = {
        "in0": numbers(90, torch.float32),
        "in1": torch.tensor([3, 9, 0, 1, 1, 7]),
        "out": torch.zeros(54),
    }
    return Case(
        Kernel((x, y), (), (Store("out", atom(x) * 9 + atom(y), value),), ("lookup",)), memory
    )


def scatters() -> Iterator[tuple[str, Case]]:
    """Rows, some of them outside, scattered by each kind."""
    e, c = loops([index(40), index(5)], "x")
    row = load("rows", atom(e), torch.int64)
    within = scalar(
        "and", scalar("ge", row, const(0, torch.int64)), scalar("lt", row, const(7, torch.int64))
    )
    for kind in SCATTERS:
        for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
            for masked in (False, True):
                mask = scalar("ne", row, const(3, torch.int64)) if masked else TRUE
                read = load("in0", atom(e) * 5 + atom(c), dtype)
                value = const(2, dtype) if kind == "set" else scalar("mul", read, read)
                place = atom(Hole(0)) * 5 + atom(c)
                old = load("out", place, dtype, subscripts=(row,), mask=mask, check=within)
                store = Store("out", place, scatter(kind, old, value, row, index(7)))
                source = numbers(200, dtype).nan_to_num(1, 2, 3).abs().clamp(max=2)
                memory = {
                    "in0": source,
                    "rows": torch.arange(40) * 5 % 7,
                    "out": numbers(35, dtype, 1).nan_to_num(1, 2, 3),
                }
                name = f"scatter {kind} {dtype} {'masked' if masked else 'whole'}"
                yield name, Case(Kernel((e, c), (), (store,), ("scatter",)), memory)


def scattered_rows() -> Case:
    """Long rows, read at one computed place and added at another, as messages along edges."""
    e, c = loops([index(40), index(64)], "x")
    read, row = (load(name, atom(e), torch.int64) for name in ("from", "to"))

    def within(place):
        zero, count = const(0, torch.int64), const(7, torch.int64)
        return scalar("and", scalar("ge", place, zero), scalar("lt", place, count))

    place = atom(Hole(0)) * 64 + atom(c)
    value = load("in0", place, torch.float32, subscripts=(read,), check=within(read))
    old = load("out", place, torch.float32, subscripts=(row,), check=within(row))
    added = scalar("mul", value, load("weight", atom(e), torch.float32))
    store = Store("out", place, scatter("sum", old, added, row, index(7)))
    memory = {
        "in0": numbers(7 * 64, torch.float32).nan_to_num(1, 2, 3).abs().clamp(max=2),
        "weight": numbers(40, torch.float32, 2).nan_to_num(1, 2, 3).abs().clamp(max=2),
        "from": torch.arange(40) * 3 % 7,
        "to": torch.arange(40) * 5 % 7,
        "out": numbers(7 * 64, torch.float32, 1).nan_to_num(1, 2, 3),
    }
    return Case(Kernel((e, c), (), (store,), ("gathered rows",)), memory)


def waves(columns: int) -> Case:
    """A function along short rows, with an element between two rows."""
    x, y = loops([index(6), index(columns)], "x")
    place = atom(x) * (columns + 1) + atom(y)
    value = scalar("sin", load("in0", place, torch.float32))
    added = scalar("add", value, load("in1", atom(y), torch.float32))
    memory = {
        "in0": torch.linspace(-9, 9, 6 * columns + 6),
        "in1": torch.linspace(1, 2, columns),
        "out": torch.linspace(-9, 9, 6 * columns + 6),
    }
    return Case(Kernel((x, y), (), (Store("out", place, added),), ("waves",)), memory)


def divided() -> Case:
    """Addresses with quotients and remainders: rows of a window of 4 that starts at every second
    element."""
    (x,) = loops([index(20)], "x")
    place: Index = atom(x) // 4 * 2 + atom(x) % 4
    value = load("in0", place, torch.float32)
    return Case(
        Kernel((x,), (), (Store("out", atom(x), value),), ("unfold",)),
        {"in0": numbers(12, torch.float32), "out": torch.zeros(20)},
    )


def symbolic(rows: int, columns: int) -> Case:
    """A mean over rows of sizes that are only known when it runs."""
    height, width = atom(Sym("s0")), atom(Sym("s1"))
    (x,), (r,) = loops([height], "x"), loops([width], "r")
    total: Scalar = reduce("sum", load("in0", atom(x) * width + atom(r), torch.float32))
    value = scalar("div", total, position(width, torch.float32))
    memory = {
        "in0": numbers(max(rows * columns, 1), torch.float32).nan_to_num(1, 2, 3),
        "out": torch.zeros(rows),
    }
    return Case(
        Kernel((x,), (r,), (Store("out", atom(x), value),), ("mean",)),
        memory,
        {"s0": rows, "s1": columns},
    )


def averaged(rows: int, columns: int) -> Case:
    """Numbers times one over how many there are, as Python calculates that: in double precision."""
    height, width = atom(Sym("s0")), atom(Sym("s1"))
    x, y = loops([height, width], "x")
    place = atom(x) * width + atom(y)
    part = scalar(
        "div",
        const(1.0, torch.float64),
        scalar("div", position(height * width * 2, torch.float64), const(2, torch.float64)),
    )
    value = scalar("mul", load("in0", place, torch.float32), cast(part, torch.float32))
    memory = {
        "in0": numbers(max(rows * columns, 1), torch.float32),
        "out": torch.zeros(max(rows * columns, 1)),
    }
    return Case(
        Kernel((x, y), (), (Store("out", place, value),), ("mul",)),
        memory,
        {"s0": rows, "s1": columns},
    )


def grown(rows: int) -> Case:
    """Loops over sizes that are sums, and that cannot be joined: rows are turned over and come in
    another order."""
    size = atom(Sym("s0"))
    x, y, z = loops([index(2), size + 1, size + 2], "x")
    place = atom(x) * (size + 1) * (size + 2) + atom(y) * (size + 2)
    value = load("in0", (atom(y) * 2 + atom(x)) * (size + 2) + size + 1 - atom(z), torch.float32)
    count = 2 * (rows + 1) * (rows + 2)
    memory = {"in0": numbers(count, torch.float32), "out": torch.zeros(count)}
    return Case(
        Kernel((x, y, z), (), (Store("out", place + atom(z), value),), ("flip",)),
        memory,
        {"s0": rows},
    )


def transposed(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Case:
    """A matrix, one of the other layout, and a row are added; both layouts are written."""
    x, y = loops([index(rows), index(columns)], "x")
    across, along = atom(y) * rows + atom(x), atom(x) * columns + atom(y)
    reads = (
        load("in0", across, dtype),
        load("in1", along, dtype),
        load("in2", atom(y), torch.float32),
    )
    value = scalar(
        "add", scalar("add", *(cast(read, torch.float32) for read in reads[:2])), reads[2]
    )
    memory = {
        name: numbers(rows * columns, dtype, seed) for seed, name in enumerate(("in0", "in1"))
    }
    memory |= {
        "in2": numbers(columns, torch.float32),
        "out": torch.zeros(rows * columns),
        "other": torch.zeros(rows * columns),
    }
    return Case(
        Kernel((x, y), (), (Store("out", along, value), Store("other", across, value)), ("add",)),
        memory,
    )


def channels_last(symbolic: bool = False) -> Case:
    """Channels-last memory meets contiguous memory; the sizes may be known only when it runs."""
    sizes = {"s0": 2, "s1": 20, "s2": 35}
    n, c, p = (atom(Sym(name)) if symbolic else index(size) for name, size in sizes.items())
    image, channel, place = loops([n, c, p], "x")
    contiguous = atom(image) * c * p + atom(channel) * p + atom(place)
    last = atom(image) * c * p + atom(place) * c + atom(channel)
    mask = scalar("lt", position(atom(channel)), position(index(17)))
    value = scalar(
        "mul", load("in0", last, torch.float32, mask=mask), load("in1", contiguous, torch.float32)
    )
    memory = {
        "in0": numbers(1400, torch.float32),
        "in1": numbers(1400, torch.float32, 1),
        "out": torch.zeros(1400),
    }
    return Case(
        Kernel((image, channel, place), (), (Store("out", contiguous, value),), ("mul",)),
        memory,
        sizes if symbolic else {},
    )


LOOPED = Tiles(4, 16, 1, False)
FLAT = Tiles(64, 1, 4, False)


def tiles_of(case: Case) -> tuple[Tiles | None, ...]:
    """Tiles to run a case with on the GPU: those of the table, and others of another kind."""
    if case.kernel.inner:
        return None, LOOPED
    return (None, FLAT) if choose_tiles(Plan(simplify(case.kernel))).yblock else (None,)


def all_cases() -> dict[str, Case]:
    named = {
        "softmax": softmax(),
        "softmax of extremes": extreme_softmax(),
        "running mean": running_mean(),
        "masked": masked(),
        "shifted": shifted(),
        "windowed": windowed(),
        "computed": computed(),
        "divided": divided(),
    }
    sizes = {
        f"symbolic {rows}x{columns}": symbolic(rows, columns)
        for rows, columns in ((3, 40), (1, 1), (40, 2), (0, 3))
    }
    sizes |= {
        f"averaged {rows}x{columns}": averaged(rows, columns)
        for rows, columns in ((3, 40), (1, 1), (7, 3))
    }
    sizes |= {f"grown {rows}": grown(rows) for rows in (0, 1, 9)}
    sizes |= {
        f"transposed {rows}x{columns}": transposed(rows, columns)
        for rows, columns in ((40, 50), (64, 32), (5, 90), (90, 5))
    }
    sizes |= {
        "transposed halves": transposed(33, 70, torch.bfloat16),
        "transposed integers": transposed(33, 70, torch.int32),
        "channels last": channels_last(),
        "of any size": channels_last(True),
    }
    return {
        **dict(operations()),
        **dict(casts()),
        **dict(reductions()),
        **dict(reductions_of_a_constant()),
        **dict(scatters()),
        "scatter of gathered rows": scattered_rows(),
        **{f"waves {columns}": waves(columns) for columns in (7, 9, 16, 20, 127, 300)},
        **named,
        **sizes,
    }


def atomic_cases() -> dict[str, Case]:
    """Those that a GPU can compute: it adds values to an element, or sets it."""
    return {
        name: case
        for name, case in all_cases().items()
        if not name.startswith(("scatter prod", "scatter max", "scatter min"))
    }


def told_difference(name: str, got: torch.Tensor, want: torch.Tensor) -> str | None:
    """How two results differ; None where they are as near as the functions' own precision lets them
    be."""
    half = want.dtype in (torch.float16, torch.bfloat16)
    tolerance = 1e-2 if half else 2e-5
    try:
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        return f"{name}: {error}"
    return None
