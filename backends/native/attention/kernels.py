"""The texts of attention's kernels: templates, filled with what the program's functions compute
and with sizes that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jinja2

from ....records import record
from ..printers.triton.scalars import POINTERS, PREAMBLE
from ..toolchain.load_triton import Job
from .attention_call import AttentionCall
from .modification import SCORE, SLOPE
from .modification_printer import ModificationPrinter
from .sides import BACKWARD_KEYS, BACKWARD_QUERIES, FORWARD, TileSides, pad_width

LOG2E = 1 / math.log(2)
TENSORS = {  # by kernel: the tensors with heads, of which it gets strides
    FORWARD: ("query", "key", "value", "result"),
    BACKWARD_QUERIES: ("query", "key", "value", "result", "gradient", "query_gradient"),
    BACKWARD_KEYS: ("query", "key", "value", "gradient", "key_gradient", "value_gradient"),
}
NUMBERS = {  # and the other tensors of float32 that it reads or writes
    FORWARD: ("sums", "tops"),
    BACKWARD_QUERIES: ("sums", "sums_gradient", "commons"),
    BACKWARD_KEYS: ("sums", "commons"),
}
# The blocks of scores that count, for each block of queries or of keys: how many there are,
# [images, heads, blocks], and which, [images, heads, blocks, others], as int32. The full ones need
# no mask.
BY_QUERIES = "counts", "blocks", "full_counts", "full_blocks"
BY_KEYS = "key_counts", "key_blocks", "full_key_counts", "full_key_blocks"
SIZES = (
    "heads", "key_heads", "queries", "keys", "steps", "mask_images", "mask_heads", "table_rows",
    "table_columns",
)  # fmt: skip
STRIDES = "image", "head", "row"


@record
class TensorLayout:
    """Properties of the tensors of a call for which kernels are compiled. unit: a divisor of all
    strides. whole_rows, whole_columns: whether tiles cover the queries and the keys exactly.
    one_row_block, one_column_block: whether a block of the BlockMask has all of them. precision:
    that of float32 products."""

    unit: int
    whole_rows: bool
    whole_columns: bool
    one_row_block: bool
    one_column_block: bool
    precision: str


@lru_cache(1)
def templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def tensor_names(kernel: str, attention: AttentionCall) -> tuple[str, ...]:
    """The names of the tensors that a kernel is called with, in order."""
    tables = tables_of(kernel, attention)
    return (*TENSORS[kernel], *NUMBERS[kernel], *tables, *attention.captured_dtypes)


def tables_of(kernel: str, attention: AttentionCall) -> tuple[str, ...]:
    """The names of the tables of blocks that a kernel goes through: how many, and which; those to
    be masked, then full ones."""
    names = BY_KEYS if kernel == BACKWARD_KEYS else BY_QUERIES
    return names if attention.has_full_blocks else names[:2]


def number_names(kernel: str) -> tuple[str, ...]:
    """The names of the numbers that it is called with after these."""
    return (*SIZES, *(f"{tensor}_{name}" for tensor in TENSORS[kernel] for name in STRIDES))


def print_job(kernel: str, attention: AttentionCall, layout: TensorLayout, sides: TileSides) -> Job:
    """A kernel as a job of Triton's compiler."""
    tensors, numbers = tensor_names(kernel, attention), number_names(kernel)
    text = (
        templates()
        .get_template(f"{kernel}.j2")
        .render(
            KernelText(kernel, attention, layout, sides).names(),
            arguments=", ".join((*tensors, *numbers)),
            numbers=numbers,
        )
    )
    kinds = {name: POINTERS[attention.dtype] for name in TENSORS[kernel]}
    kinds |= {name: "*fp32" for name in NUMBERS[kernel]}
    kinds |= {name: POINTERS[dtype] for name, dtype in attention.captured_dtypes.items()}
    signature = (*(kinds.get(name, "*i32") for name in tensors), *("i64" for _ in numbers))
    aligned = tuple(range(len(tensors)))
    return Job(
        PREAMBLE + text, (*tensors, *numbers), signature, (), aligned, sides.warps, sides.stages
    )


class KernelText:
    """What the templates insert."""

    def __init__(
        self, kernel: str, attention: AttentionCall, layout: TensorLayout, sides: TileSides
    ) -> None:
        self.attention, self.layout = attention, layout
        self.tables = tables_of(kernel, attention)
        # of what the kernel loops over: the side of a block and of a tile, and whether there is
        # one block only
        self.side, self.tile, self.one_block = (
            (attention.query_side, sides.rows, layout.one_row_block)
            if kernel == BACKWARD_KEYS
            else (attention.key_side, sides.columns, layout.one_column_block)
        )
        self.bounds = {
            "row": "" if layout.whole_rows else "queries",
            "column": "" if layout.whole_columns else "keys",
            "across": str(attention.width) * (attention.width != pad_width(attention.width)),
            "deep": str(attention.depth) * (attention.depth != pad_width(attention.depth)),
        }
        self.sides = sides

    def names(self) -> dict[str, Any]:
        """What the templates refer to, by name."""
        attention = self.attention
        sweeps = [
            {"counts": counts, "blocks": blocks, "masked": counts == self.tables[0]}
            for counts, blocks in zip(self.tables[::2], self.tables[1::2], strict=True)
        ]
        return {
            "rows": self.sides.rows,
            "columns": self.sides.columns,
            "padded_width": pad_width(attention.width),
            "padded_depth": pad_width(attention.depth),
            "group": attention.group,
            "scale": repr(attention.scale),
            "scaled": "" if self.scales_exponent else f" * {attention.scale!r}",
            "log2e": repr(LOG2E),
            "exponent": repr(LOG2E * attention.scale if self.scales_exponent else LOG2E),
            "steps": "steps" if self.one_block else str(self.side // self.tile),
            "tile_start": self.tile_start,
            "precision": self.layout.precision,
            "query_side": attention.query_side,
            "key_side": attention.key_side,
            "sweeps": sweeps,
            "start": self.start,
            "positions": self.positions,
            "place": self.place,
            "load": self.load,
            "mask": self.mask,
            "score_lines": self.score_lines,
            "slope_lines": self.slope_lines,
        }

    @property
    def scales_exponent(self) -> bool:
        """Whether a score is the product times the scale: then one factor makes an exponent of the
        product. (A negative one would turn the order around.)"""
        slope = self.attention.slope
        identity = self.attention.score.is_identity and (slope is None or slope.is_identity)
        return identity and self.attention.scale > 0

    def tile_start(self, blocks: str) -> str:
        """The first key, or query, of the tile of a step through the blocks."""
        if self.one_block:
            return f"step * {self.tile}"
        steps = self.side // self.tile
        block = f"tl.load({blocks} + table * table_columns + step // {steps}) * {self.side}"
        return f"{block} + step % {steps} * {self.tile}" if steps > 1 else block

    def start(self, tensor: str, head: str) -> str:
        """Where a head begins; 64-bit."""
        image = f"b.to(tl.int64) * {tensor}_image"
        return f"{tensor} + ({image} + ({head}).to(tl.int64) * {tensor}_head) * {self.layout.unit}"

    def positions(self, vector: str) -> str:
        """The positions of a tile's queries or keys; beyond the last one, the last one's."""
        bound = self.bounds[vector]
        return f"tl.minimum({vector}, {bound} - 1)" if bound else vector

    def place(self, tensor: str, vector: str, along: str, turned: bool = False) -> str:
        """The addresses of a tile, with the elements of a query along its second side."""
        one, other = ("[None, :]", "[:, None]") if turned else ("[:, None]", "[None, :]")
        row = f"{vector}{one} * ({tensor}_row * {self.layout.unit})"
        return f"{tensor}_at + {row} + {along}{other}"

    def load(self, tensor: str, vector: str, along: str, turned: bool = False) -> str:
        masked = self.mask(vector, along, other="0", turned=turned)
        return f"tl.load({self.place(tensor, vector, along, turned)}{masked})"

    def mask(self, vector: str, along: str = "", other: str = "", turned: bool = False) -> str:
        """The argument that leaves out what lies beyond a tensor; nothing where nothing does."""
        one, two = ("[None, :]", "[:, None]") if turned else ("[:, None]", "[None, :]")
        tests = [
            f"({name}{side if along else ''} < {self.bounds[name]})"
            for name, side in ((vector, one), (along, two))
            if name and self.bounds[name]
        ]
        if not tests:
            return ""
        return f", {' & '.join(tests)}" + (f", other={other}" if other else "")

    def score_lines(self, masked: bool, inside: str = "") -> str:
        """From the product `raw` to the score, -inf where it does not count. inside: the condition
        under which a key exists."""
        lines, name = ModificationPrinter(self.attention.score, "s").lines({SCORE: "raw"})
        lines.append(f"score = {name} + tl.zeros_like(raw)" if name != "raw" else "score = raw")
        allowed = [f"({inside})"] * self.needs_bound(inside)
        if self.needs_mask(masked):
            mask_lines, mask_name = ModificationPrinter(self.attention.mask, "m").lines({})
            lines += mask_lines
            allowed = [mask_name, *allowed]
        if allowed:
            lines.append(f"allowed = {' & '.join(allowed)}")
            lines.append('score = tl.where(allowed, score, float("-inf"))')
        return indent_lines(lines)

    def slope_lines(self, masked: bool, inside: str = "") -> str:
        """From the gradient `slope` of the score to that of the product."""
        assert self.attention.slope is not None
        lines, name = ModificationPrinter(self.attention.slope, "g").lines(
            {SCORE: "raw", SLOPE: "slope"}
        )
        if name != "slope":
            lines.append(f"slope = {name} + tl.zeros_like(raw)")
        if self.needs_bound(inside) or self.needs_mask(masked):
            lines.append("slope = tl.where(allowed, slope, 0.0)")
        return indent_lines(lines)

    def needs_bound(self, inside: str) -> bool:
        return bool(inside and self.bounds["column"])

    def needs_mask(self, masked: bool) -> bool:
        return masked and not self.attention.mask.is_true


def indent_lines(lines: Sequence[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)
