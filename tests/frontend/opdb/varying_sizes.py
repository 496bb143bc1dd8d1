"""torch's operator database with sizes that vary: each sample three times through one handle, its
tensors larger each time.

In: an OpInfo. Out: one Row - how often it was compiled, what the backend pinned, what differed from
eager. The database's samples are made of three sizes (S, M and L); other numbers for these give the
same samples with other sizes. The first call is compiled for its sizes, the second for sizes that
vary; the third must find code.

The whole database: `python tests/frontend/opdb/varying_sizes.py [name ...]`; CI runs a slice
(test_varying_sizes.py).
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import framejit
import torch
from framejit import events
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

if __name__ == "__main__":
    import sweep
else:
    from . import sweep

NAMES = ("S", "M", "L")  # of the sizes, in each of torch's modules that make samples
SIZES = ((5, 10, 20), (6, 12, 24), (8, 16, 32))
SETTINGS = ("native", "native+grad")
# inputs that are wrapper subclasses; counted where it is asked for
WRAPPED = tuple(
    f"{setting}+{word}" for word in sweep.wrapped_samples.WRAPPERS for setting in SETTINGS
)


@dataclass
class Row:
    """What became of one operator. `compiles`: the most of any of its samples whose sizes vary;
    `needed`: how many of these the backend that runs the captured graph as it is makes, which are
    the program's affair. `pinned`: what the backend says that it pinned. `difference`: how a result
    differed from eager."""

    name: str
    setting: str
    samples: int
    compiles: int
    needed: int
    pinned: str
    difference: str
    seconds: float


@contextmanager
def sizes(numbers: tuple[int, int, int]) -> Iterator[None]:
    """Other numbers for the sizes of which torch makes samples."""
    ours = (
        module for name, module in sys.modules.items() if name.startswith("torch.testing._internal")
    )
    modules = [module for module in ours if isinstance(getattr(module, "S", None), int)]
    before = [[getattr(module, name, None) for name in NAMES] for module in modules]
    try:
        for module in modules:
            set_sizes(module, numbers)
        yield
    finally:
        for module, values in zip(modules, before, strict=True):
            set_sizes(module, values)


def set_sizes(module: Any, numbers: Any) -> None:
    for name, number in zip(NAMES, numbers, strict=True):
        if hasattr(module, name):
            setattr(module, name, number)


def samples(op: OpInfo, grad: bool, layout: str = "") -> list[list[SampleInput]]:
    """The first samples, each in all sizes; only those whose sizes vary and that have the same form
    in each. None of an operator whose samples are made of other numbers, too, which do not fit any
    more."""
    made = []
    for numbers in SIZES:
        with sizes(numbers):
            try:
                made.append(sweep.samples(op, grad, layout))
            except (RuntimeError, IndexError, ValueError):
                return []
    return [list(several) for several in zip(*made, strict=False) if varies(several)]


def varies(several: tuple[SampleInput, ...]) -> bool:
    flat = [pytree.tree_flatten([sample.input, sample.args, sample.kwargs]) for sample in several]
    (first, form), others = flat[0], flat[1:]
    alike = all(spec == form and all(map(same_kind, first, leaves)) for leaves, spec in others)
    return alike and len({tuple(map(shape, leaves)) for leaves, _ in flat}) == len(flat)


def same_kind(a: Any, b: Any) -> bool:
    """Whether two leaves differ in sizes and numbers only."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dim() == b.dim() and all(
            (m in (0, 1)) == (n in (0, 1)) for m, n in zip(a.shape, b.shape, strict=True)
        )
    return type(a) is type(b)


def shape(leaf: Any) -> Any:
    return tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else None


def measure(name: str, op: OpInfo, setting: str) -> Row:
    """Runs an operator's samples in all sizes in one setting."""
    backend, *asked = setting.split("+")
    grad, started = "grad" in asked, time.perf_counter()
    layout = next((word for word in asked if word != "grad"), "")
    called = op.op

    def call(first: Any, args: Any, kwargs: Any) -> Any:
        return called(first, *args, **kwargs)

    row = Row(name, setting, 0, 0, 2, "", "", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager, again, given = (samples(op, grad, layout) for _ in range(3))
        for number, several in enumerate(zip(eager, again, given, strict=True)):
            with framejit.config.patch(strict=True):
                handle = framejit.compile(call, backend=backend)
            recorder = events.Recorder()
            handle.framejit.cache.sinks.append(recorder)
            row.samples += 1
            for index, (one, two, three) in enumerate(zip(*several, strict=True)):
                left, repeat = sweep.run(call, one, grad), sweep.run(call, two, grad)
                told = sweep.difference(
                    left, sweep.run(handle, three, grad), repeat, sweep.TOLERANCE.get(backend, 1e-5)
                )
                if told and not ("numbers differ" in told and "empty" in name):
                    row.difference = row.difference or f"sample {number}, sizes {index}: {told}"
            compiles = handle.framejit.compiles
            if compiles > row.compiles:
                row.compiles, row.needed = (
                    compiles,
                    2 if compiles <= 2 else captures(call, several[0], grad),
                )
            if row.needed > 2:
                continue  # the program itself needs some of the sizes
            pins = [
                event.sentence
                for event in recorder.events
                if isinstance(event, events.Specialised) and event.backend
            ]
            row.pinned = row.pinned or "; ".join(pins)
    row.seconds = round(time.perf_counter() - started, 3)
    return row


def captures(call: Any, several: list[SampleInput], grad: bool) -> int:
    """How often the program itself needs to be compiled."""
    with framejit.config.patch(strict=True):
        handle = framejit.compile(call, backend="eager")
    for sample in several:
        sweep.run(handle, sample, grad)
    return handle.framejit.compiles


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operators; none: all")
    parser.add_argument("--settings", nargs="*", default=SETTINGS, choices=(*SETTINGS, *WRAPPED))
    chosen = parser.parse_args()
    rows = []
    for name, op in sweep.operators().items():
        if chosen.names and name not in chosen.names and op.name not in chosen.names:
            continue
        for setting in chosen.settings:
            if sweep.applies(op, setting):
                rows.append(row := measure(name, op, setting))
                if row.pinned or row.difference or row.compiles > row.needed:
                    print(
                        f"{name} [{setting}]: {row.compiles} compiles; {row.pinned} {row.difference}",
                        flush=True,
                    )
    for setting in chosen.settings:
        mine = [row for row in rows if row.setting == setting and row.samples]
        more, pinned = (
            sum(row.compiles > row.needed for row in mine),
            sum(bool(row.pinned) for row in mine),
        )
        differ, seconds = (
            sum(bool(row.difference) for row in mine),
            sum(row.seconds for row in mine),
        )
        print(f"{setting}: {len(mine)} operators, {sum(row.samples for row in mine)} samples with sizes that vary; "
              f"{more} compiled more often than needed, {pinned} pinned, {differ} differ, {seconds:.0f} s")  # fmt: skip
    return 1 if any(row.pinned or row.difference for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
