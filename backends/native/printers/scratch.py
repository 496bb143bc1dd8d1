"""Puts small buffers that only kernels use into one allocation per call, since an allocation costs
half as much as a kernel launch. Large buffers are allocated when needed, which keeps peak memory
low."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from ....records import record
from ..ir.index import product
from ..ir.program import AnyKernel, Buffer, Program, reads, writes

SMALL = 1 << 18  # largest buffer, in bytes
LINE = 128  # alignment in bytes


@record
class Scratch:
    """Memory that the intermediate buffers share. size: in bytes. places: the offset of each
    buffer, by name."""

    size: int = 0
    places: Mapping[str, int] = field(default_factory=dict)


def plan(program: Program, dead: Mapping[int, Sequence[str]], kept: Collection[str]) -> Scratch:
    """Places, first fit, for buffers that only kernels write and read. dead: by position of a step,
    what nothing needs after it. kept: what the program returns, or has been given."""
    only = {
        name for step in program.steps if isinstance(step, AnyKernel) for name in writes(step)
    } - set(kept)
    for step in program.steps:
        if not isinstance(step, AnyKernel):
            only -= reads(step).union(writes(step))
    places: dict[str, int] = {}
    live: dict[str, tuple[int, int]] = {}  # from where to where
    size = 0
    for position, step in enumerate(program.steps):
        for name in writes(step):
            if name not in only or name in places:
                continue
            length = padded_bytes(program.buffers[name])
            if length is not None and 0 < length <= SMALL:
                start = gap(sorted(live.values()), length)
                places[name], live[name] = start, (start, start + length)
                size = max(size, start + length)
        for name in dead.get(position, ()):
            live.pop(name, None)
    return Scratch(size, places)


def gap(taken: Sequence[tuple[int, int]], length: int) -> int:
    """The first place between others that is long enough."""
    start = 0
    for other, end in taken:
        if other - start >= length:
            break
        start = max(start, end)
    return start


def padded_bytes(buffer: Buffer) -> int | None:
    """The size of a buffer, in whole cache lines; None where it is dynamic."""
    if any(size.value is None for size in (*buffer.size, *buffer.stride)):
        return None
    if product(buffer.size).value == 0:
        return 0
    last = sum(
        ((size.value or 0) - 1) * (stride.value or 0)
        for size, stride in zip(buffer.size, buffer.stride, strict=True)
    )
    return -(-(last + 1) * buffer.dtype.itemsize // LINE) * LINE
