"""A kernel as Triton: one function over tiles of XBLOCK rows, and RBLOCK elements of each row where
there are reductions.

In: a simplified Kernel. Out: the function's text, its parameters, and tile sizes. A row that fits
is held in registers (persistent); a longer one is walked once for each reduction that waits for
another. Without reductions, tiles are XBLOCK long, or YBLOCK by XBLOCK.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

import torch

from .....records import record
from ...ir.index import Division, Index, Quotient, Var, nonnegative, product
from ...ir.program import Buffer, Kernel, Store
from ...ir.scalar import CAST, INDEX, LOAD, REDUCE, SCATTER, TRUE, Scalar
from ..base import KernelEmitter, Parameters, Plan, Scope, origin_names, second_side, subscripts_of
from ..tiles import Axis, Tiles, axes, choose_tiles
from .scalars import TYPES, bracket, convert_expression, initial_value, literal, operation

LONGEST_NAME = 64  # letters
MOST_ELEMENTS = 1 << 31  # of a buffer that 32-bit addresses reach
THREADS = 32  # of a warp


@record
class PrintedKernel:
    """A kernel's text (PREAMBLE belongs in front of it), a function with a name to read and the
    name `kernel`; what it is called with: `parameters`, then `blocks`, sizes by name that are known
    when it is compiled; and how many programs it takes: each count of `grid` divided by a tile's
    side."""

    text: str
    parameters: Parameters
    warps: int
    stages: int
    blocks: tuple[tuple[str, int], ...]
    grid: tuple[tuple[Index, int], ...]

    @property
    def annotated_text(self) -> str:
        """The text with how it is cut, for who reads it."""
        sides = ", ".join(f"{name} = {size}" for name, size in self.blocks)
        return f"# {sides}, warps = {self.warps}, stages = {self.stages}\n{self.text}"

    @property
    def programs(self) -> str:
        """How many programs run, as Python text."""
        if all(count.value is not None for count, _ in self.grid):
            return str(math.prod(-(-(count.value or 0) // side) for count, side in self.grid))
        return " * ".join(f"(-(-({count}) // {side}))" for count, side in self.grid)


class TritonFunction(KernelEmitter):
    """Writes one kernel."""

    def __init__(
        self, kernel: Kernel, buffers: Mapping[str, Buffer], tiles: Tiles | None = None
    ) -> None:
        super().__init__(Plan(kernel))
        self.buffers = buffers
        self.tiles = tiles or choose_tiles(self.plan)
        self.sizes = {"x": self.tiles.xblock, "y": self.tiles.yblock, "r": self.tiles.rblock}
        self.axes = axes(kernel, second_side(self.plan) if self.tiles.yblock else None)
        self.pointers = {name: f"in{n}" for n, name in enumerate(self.parameters.loaded)}
        self.targets = {name: f"out{n}" for n, name in enumerate(self.parameters.stored)}
        self.wide = any(_extent(buffers[name]) >= MOST_ELEMENTS for name in self.parameters.buffers)

    def print_kernel(self) -> PrintedKernel:
        blocks = tuple((axis.block, self.sizes[axis.letter]) for axis in self.axes)
        grid = tuple(
            (axis.count, self.sizes[axis.letter]) for axis in self.axes if axis.letter != "r"
        )
        return PrintedKernel(
            self.text(), self.parameters, self.tiles.warps, self.tiles.stages, blocks, grid
        )

    # --- the whole ---

    def text(self) -> str:
        """The source of the kernel, as one of three kinds: without a reduction, with a whole row at
        once, with a loop over the columns."""
        top = Scope(frozenset(self.kernel.outer))
        top.lines += self.numbers()
        if not self.kernel.inner:
            self.stores(top, 0, None)
        elif self.tiles.persistent:
            self.print_persistent_reduction(top)
        else:
            self.print_loop(top)
        blocks = [f"{axis.block}: tl.constexpr" for axis in self.axes]
        arguments = [
            *self.pointers.values(),
            *self.targets.values(),
            *self.parameters.sizes,
            *blocks,
        ]
        return function(arguments, self.kernel, top.lines)

    def numbers(self) -> list[str]:
        """Which elements a program works on: tiles are counted along x first."""
        sides = [axis for axis in self.axes if axis.letter != "r"]
        tile = f"tl.program_id(0).to({'tl.int64' if self.wide else 'tl.int32'})"
        lines = [f"{axis.letter}numel = {self.index(axis.count)}" for axis in sides]
        tiles = {"x": tile}
        if len(sides) == 2:
            lines += ["xtiles = (xnumel + XBLOCK - 1) // XBLOCK", f"tile = {tile}"]
            tiles = {"x": "(tile % xtiles)", "y": "(tile // xtiles)"}
        for axis in sides:
            lines += [
                f"{axis.number} = ({tiles[axis.letter]} * {axis.block} + tl.arange(0, "
                f"{axis.block})){axis.place}",
                f"{axis.mask} = {axis.number} < {axis.letter}numel",
                *self.unravel(axis.number, axis.variables),
            ]
        return lines

    def masks(self, used: Collection[Var]) -> list[str]:
        """The masks of the sides of a tile along which variables lie."""
        return [axis.mask for axis in self.axes if not set(axis.variables).isdisjoint(used)]

    def unravel(self, number: str, variables: Sequence[Var]) -> list[str]:
        """The loop variables of a flat number."""
        lines = []
        rest = product(variable.size for variable in variables)
        for position, variable in enumerate(variables):
            rest = rest // variable.size
            text = number if rest == 1 else f"{number} // {bracket(self.index(rest))}"
            if position:
                text = f"{bracket(text)} % {bracket(self.index(variable.size))}"
            lines.append(f"{variable.name} = {text}")
        return lines

    def columns(self, start: str) -> list[str]:
        kind = ".to(tl.int64)" if self.wide else ""
        return [
            f"rindex = {start}tl.arange(0, RBLOCK)[None, :]{kind}",
            f"rmask = rindex < {self.index(self.kernel.columns)}",
            *self.unravel("rindex", self.kernel.inner),
        ]

    def print_persistent_reduction(self, top: Scope) -> None:
        scope = Scope(top.variables | set(self.kernel.inner), top, lines=self.columns(""))
        for stage in range(self.plan.stages + 1):
            for node in self.plan.reductions(stage):
                value = self.spread(self.value(node.args[0], scope))
                name = self.new_name("v")
                scope.names[id(node)] = name
                scope.lines += self.print_reduction(
                    node, name, f"tl.where(xmask & rmask, {value}, {initial_value(node)})", "rindex"
                )
            self.stores(scope, stage, None)
        top.lines += scope.lines

    def print_loop(self, top: Scope) -> None:
        """Prints a loop over the columns for each stage. A sum of exponentials is accumulated
        beside the maximum that it subtracts."""
        beside = self.sums_of_exponentials()
        for stage in range(self.plan.stages + 1):
            reductions = [
                node for node in self.plan.reductions(stage) if node not in beside.values()
            ]
            inside = Scope(
                top.variables | set(self.kernel.inner), top, lines=self.columns("roffset + ")
            )
            before = len(inside.lines)
            accumulators = [
                self.accumulate(node, top, inside, node in beside) for node in reductions
            ]
            self.stores(inside, stage, True)
            if len(inside.lines) > before:
                top.lines.append(
                    f"for roffset in range(0, {self.index(self.kernel.columns)}, RBLOCK):"
                )
                top.lines += [f"    {line}" for line in inside.lines]
            for node, name in zip(reductions, accumulators, strict=True):
                result = self.new_name("v")
                top.lines += self.print_reduction(node, result, name, f"{name}_at")
                top.names[id(node)] = result
                if node in beside:
                    top.lines.append(
                        f"{result}_sum = sum_of_exponentials({name}, {name}_sum, {result})"
                    )
                    top.names[id(beside[node])] = f"{result}_sum"
            self.stores(top, stage, False)

    def accumulate(self, node: Scalar, top: Scope, inside: Scope, beside_sum: bool) -> str:
        """Adds a reduction's accumulator to the lines before the loop, and what it takes in to
        those of the loop; returns its name. beside_sum: with the sum of exponentials."""
        name = self.new_name("acc")
        value = self.value(node.args[0], inside)
        kind = TYPES[node.args[0].dtype if node.attr != "any" else torch.int8]
        top.lines.append(f"{name} = tl.full([XBLOCK, RBLOCK], {initial_value(node)}, {kind})")
        if node.attr.startswith("arg"):
            top.lines.append(f"{name}_at = tl.full([XBLOCK, RBLOCK], 0x7FFFFFFF, tl.int32)")
        if beside_sum:
            top.lines.append(f"{name}_sum = tl.full([XBLOCK, RBLOCK], 0, {kind})")
            inside.lines.append(
                f"{name}, {name}_sum = with_exponential({name}, {name}_sum, {value}, xmask & rmask)"
            )
        else:
            inside.lines += self.print_accumulation(node, name, value)
        return name

    # --- reductions ---

    def sums_of_exponentials(self) -> dict[Scalar, Scalar]:
        """The sum of exp(value - maximum), by a row's maximum: both are found in one pass, as in
        Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018)."""
        found = {}
        for node in self.plan.nodes:
            if (
                node.op != REDUCE
                or node.attr != "sum"
                or node.args[0].op != "exp"
                or node.args[0].args[0].op != "sub"
            ):
                continue
            value, maximum = node.args[0].args[0].args
            if (
                maximum.op == REDUCE
                and maximum.attr == "max"
                and maximum.args[0] is value
                and node.dtype in (torch.float32, torch.float64)
            ):
                found[maximum] = node
        return found

    def spread(self, value: str) -> str:
        return f"tl.broadcast_to({value}, [XBLOCK, RBLOCK])"

    def print_accumulation(self, node: Scalar, name: str, value: str) -> list[str]:
        """Prints how a block of values is joined to an accumulator, where the masks allow."""
        mask = "xmask & rmask"
        if node.attr.startswith("arg"):
            function = "place_of_largest" if node.attr == "argmax" else "place_of_smallest"
            there = (
                f"tl.broadcast_to({value}, [XBLOCK, RBLOCK]), tl.broadcast_to(rindex, "
                "[XBLOCK, RBLOCK]).to(tl.int32)"
            )
            return [
                f"{name}_new, {name}_new_at = {function}({name}, {name}_at, {there})",
                f"{name} = tl.where({mask}, {name}_new, {name})",
                f"{name}_at = tl.where({mask}, {name}_new_at, {name}_at)",
            ]
        if node.attr == "any":
            value = f"({value}).to(tl.int8)"
        joined = {
            "sum": f"{name} + {value}",
            "prod": f"{name} * {value}",
            "any": f"{name} | {value}",
            "max": f"largest({name}, {value})",
            "min": f"smallest({name}, {value})",
        }[node.attr]
        return [f"{name} = tl.where({mask}, {joined}, {name})"]

    def print_reduction(self, node: Scalar, name: str, value: str, places: str) -> list[str]:
        """A tile's values of a row to one, in the shape [XBLOCK, 1]."""
        if node.attr.startswith("arg"):
            function = "place_of_largest" if node.attr == "argmax" else "place_of_smallest"
            at = (
                f"tl.where(xmask & rmask, {self.spread(places)}, 0x7FFFFFFF).to(tl.int32)"
                if places == "rindex"
                else places
            )
            return [
                f"{name}_top, {name} = tl.reduce(({value}, {at}), 1, {function})",
                f"{name} = {name}[:, None].to(tl.int64)",
            ]
        if node.attr == "sum":
            return [f"{name} = tl.sum({value}, 1)[:, None].to({TYPES[node.dtype]})"]
        if node.attr == "any":
            return [f"{name} = tl.reduce(({value}).to(tl.int8), 1, either)[:, None] != 0"]
        function = {"prod": "multiplied", "max": "largest", "min": "smallest"}[node.attr]
        return [f"{name} = tl.reduce({value}, 1, {function})[:, None]"]

    # --- stores ---

    def store(self, scope: Scope, store: Store, wide: bool) -> None:
        if store.value.op == SCATTER:
            self.scatter(scope, store)
            return
        value = self.value(store.value, scope)
        place = self.index(store.index)
        sides = [axis for axis in self.axes if wide or axis.letter != "r"]
        for axis in sides:
            if store.index.variables().isdisjoint(axis.variables):
                place += f" + 0 * {axis.number}"
        mask = " & ".join(axis.mask for axis in sides)
        if store.buffer in self.pointers and self.has_fewer_elements_than_threads(sides):
            # else a warp may read an element that another one has stored
            scope.lines.append("tl.debug_barrier()")
        scope.lines.append(
            f"tl.store({self.targets[store.buffer]} + {bracket(place)}, {value}, {mask})"
        )

    def has_fewer_elements_than_threads(self, sides: Sequence[Axis]) -> bool:
        """Whether several threads of a program load, compute and store the same elements of a
        tile."""
        elements = math.prod(self.sizes[axis.letter] for axis in sides)
        return elements < THREADS * self.tiles.warps

    def scatter(self, scope: Scope, store: Store) -> None:
        """Points that store to one element add to it one at a time, in any order. (What is "set" is
        one number for all.)"""
        old, value, _, _ = store.value.args
        masks = [axis.mask for axis in self.axes]
        if old.args[0] is not TRUE:
            masks.append(self.value(old.args[0], scope))
        if old.attr.checked:
            check = self.value(old.args[-1], scope)
            outside = " | ".join(f"({mask} == 0)" for mask in masks)
            scope.lines.append(f'tl.device_assert({check} | {outside}, "index out of range")')
            masks.append(check)
        place = self.index(store.index, [self.value(hole, scope) for hole in subscripts_of(old)])
        place += "".join(f" + 0 * {axis.number}" for axis in self.axes)
        given = f"{self.targets[store.buffer]} + {bracket(place)}, {self.value(value, scope)}"
        mask = " & ".join(masks)
        scope.lines.append(
            f"tl.store({given}, {mask})"
            if store.value.attr == "set"
            else f'tl.atomic_add({given}, {mask}, sem="relaxed")'
        )

    # --- values ---

    def constant(self, node: Scalar) -> str:
        return literal(node, len(self.axes))

    def assignment(self, name: str, node: Scalar, text: str) -> str:
        return f"{name} = {text}"

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        if node.op == LOAD:
            return self.load(node, args)
        if node.op == INDEX:
            text = bracket(self.index(node.attr))
            if node.attr.variables():
                return f"{text}.to(tl.int64)"
            return f"tl.zeros([1], tl.int64) + {text}"
        if node.op == CAST:
            return convert_expression(args[0], node.args[0], node.dtype)
        return operation(node, args)

    def compute(self, node: Scalar, scope: Scope) -> None:
        super().compute(node, scope)
        if node.op == LOAD and node.attr.checked:
            depends = self.plan.depends[id(node)]
            outside = [f"~{mask}" for mask in self.masks(depends)]
            given = [] if node.args[0] is TRUE else [f"({scope.find(node.args[0])} == 0)"]
            condition = " | ".join([scope.find(node.args[-1]) or "", *given, *outside])
            home = next(place for place in scope.chain() if id(node) in place.names)
            home.lines.append(f'tl.device_assert({condition}, "index out of range")')

    def load(self, node: Scalar, args: Sequence[str]) -> str:
        """A load that reads nothing where a mask of the loop, the program or a bounds check is
        false."""
        masks = self.masks(self.plan.depends[id(node)])
        if node.args[0] is not TRUE:
            masks.append(args[0])
        if node.attr.checked:
            masks.append(args[-1])
        source = (
            f"{self.pointers[node.attr.buffer]} + {bracket(self.index(node.attr.index, args[1:]))}"
        )
        if not masks:
            return f"tl.load({source})"
        if not node.attr.index.variables():
            # one address has no shape that a mask could be given for
            source += " + tl.zeros([1], tl.int32)"
        return f"tl.load({source}, {' & '.join(masks)}, other=0)"

    def division(self, item: Division, holes: Sequence[str]) -> str:
        numerator, divisor = self.index(item.numerator, holes), self.index(item.divisor, holes)
        bounds = item.numerator.bounds()
        if bounds is not None and nonnegative(bounds[0]):
            return f"({bracket(numerator)} {item.sign} {bracket(divisor)})"
        function = "index_quotient" if isinstance(item, Quotient) else "index_remainder"
        return f"{function}({numerator}, {divisor})"


def print_triton(
    kernel: Kernel, buffers: Mapping[str, Buffer], tiles: Tiles | None = None
) -> PrintedKernel:
    """A simplified kernel as text. tiles: None for those of the table."""
    return TritonFunction(kernel, buffers, tiles).print_kernel()


def function(arguments: Sequence[str], kernel: Kernel, lines: Sequence[str]) -> str:
    """The text of a function, named after the operators that are in it for who profiles it;
    `kernel` for who compiles it."""
    origins = origin_names(kernel)
    words = dict.fromkeys(
        re.sub(r"\W+", "_", origin.partition(".")[0]).strip("_") for origin in origins
    )
    name = "_".join(["kernel", *words])[:LONGEST_NAME].rstrip("_")
    head = ["@triton.jit", f"def {name}({', '.join(arguments)}):", f"    # {', '.join(origins)}"]
    return "\n".join([*head, *(f"    {line}" for line in lines), "", "", f"kernel = {name}", ""])


def _extent(buffer: Buffer) -> int:
    count = product(buffer.size).value
    return MOST_ELEMENTS if count is None else count * buffer.dtype.itemsize
