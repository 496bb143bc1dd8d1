"""What a capture that ends at a break knows to vary, handed on to the capture of what comes behind the break."""
from __future__ import annotations

import torch

from ...guards.source import CellContents, SequenceItem, SlotSource, Source
from ..pycode.resume import ResumePoint
from ..values.base import Value
from ..values.function import CellValue
from ..values.sequence import Sequence
from ..values.symbolic_number import SymbolicNumber
from ..values.tensor import TensorValue
from .capture import Break, Capture
from .variation import Variation

NUMBERS = ("data-dependent-value", "data-dependent-branch")  # breaks that take a number from a tensor: it differs each time


def expect(variation: Variation, capture: Capture, point: ResumePoint) -> None:
    """Tells the variation of a continuation's site what differs in the state that it is given."""
    exit_ = capture.exit
    if not isinstance(exit_, Break):
        return
    root = SlotSource(0, "state")
    known: list[Value | None] = [exit_.slots[slot] for slot in sorted(point.bound)]
    kept = [exit_.stack[position] if position < len(exit_.stack) else None for position in range(len(point.stack))]
    known += [value for value, kind in zip(kept, point.stack, strict=True) if kind != "null"]
    for index, value in enumerate(known):
        if value is not None:
            tell(variation, capture, value, SequenceItem(root, index))
    if known and exit_.reason.reason.id in NUMBERS:
        variation.expect_number(SequenceItem(root, len(known) - 1))


def tell(variation: Variation, capture: Capture, value: Value, path: Source) -> None:
    """What varies in one value, and in what is under it."""
    if isinstance(value, TensorValue):
        dims = [dim for dim, size in enumerate(value.fake.shape) if isinstance(size, torch.SymInt)]
        if dims:
            variation.expect_dims(path, value.fake.dim(), dims)
    elif isinstance(value, SymbolicNumber):
        variation.expect_number(path)
    elif isinstance(value, Sequence):
        for index, item in enumerate(value.items):
            tell(variation, capture, item, SequenceItem(path, index))
    elif isinstance(value, CellValue) and value.contents is not None:
        tell(variation, capture, value.contents, CellContents(path))
    if value.source is not None:
        variation.under(capture.trace.variation, value.source, path)
