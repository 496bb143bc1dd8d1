"""Chooses tile sizes for a program's kernels, and which matrix products to join with their
consumer, by measuring; choices are stored on disk. A kernel that cannot be measured, or gains
nothing clear, keeps the default of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from typing import Protocol

import torch

from ....records import record
from ..fuse.products import JoinCandidate, adopt, find_joinable
from ..gpu_jobs import Choice, job, print_step
from ..ir.program import Buffer, Call, Kernel, Program, map_views
from ..printers.base import Plan
from ..printers.products import Blocks, blocks_to_try
from ..printers.tiles import Tiles, tiles_to_try
from ..printers.triton.kernel import PrintedKernel
from ..toolchain.artifact_cache import ArtifactCache, content_key
from ..toolchain.load_triton import Job
from .memory import needed_elements, runs_on, tensor_of_view

CLEARLY = 0.97  # a variant must take at most this fraction of the default's time
KINDS = {"Tiles": Tiles, "Blocks": Blocks}


class Device(Protocol):
    """What the tuner needs of a device (OnDevice)."""

    identity: str
    kind: str

    @property
    def stream(self) -> int: ...
    def compile(self, jobs: Iterable[Job]) -> Mapping[Job, Callable[..., None]]: ...
    def memory(
        self, elements: Mapping[str, int], buffers: Mapping[str, Buffer]
    ) -> AbstractContextManager[dict[str, torch.Tensor]]: ...
    def seconds(self, runs: Sequence[Callable[[], object]]) -> list[float | None]: ...


@record
class Variant:
    """A way to compute a task: an operator's call, if there is one, then a kernel. `choice`: the
    kernel's tiles."""

    choice: Choice
    printed: PrintedKernel
    job: Job
    call: Call | None = None


@record
class TuningTask:
    """Something to compute, and its variants; the first one is the default. `elements`: for each
    buffer, its memory."""

    key: str
    variants: tuple[Variant, ...]
    elements: Mapping[str, int]


class Tuner:
    """Tunes programs for a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.cache = ArtifactCache("tiles")

    def tune(self, program: Program) -> dict[int, Choice]:
        """Joins products in the program where that is faster. Returns the choices, by position of a
        step in the new program."""
        steps = {
            place: step for place, step in enumerate(program.steps) if isinstance(step, Kernel)
        }
        kernels = {
            place: kernel
            for place, kernel in steps.items()
            if runs_on(self.device.kind, program, kernel)
        }
        choices = self.decide(
            program, {place: self.tiles(program, kernel) for place, kernel in kernels.items()}
        )
        found = {
            one.kernel: one
            for one in find_joinable(program, (self.device.kind,))
            if one.kernel in kernels
        }
        blocks = self.decide(
            program,
            {
                place: self.join_with_reader(program, one, choices.get(place))
                for place, one in found.items()
            },
        )
        faster = {place: choice for place, choice in blocks.items() if isinstance(choice, Blocks)}
        calls = {found[place].call for place in faster}
        left = [place for place in range(len(program.steps)) if place not in calls]
        adopt(program, [found[place] for place in faster])
        choices |= faster
        return {now: choices[before] for now, before in enumerate(left) if before in choices}

    # --- what there is to choose from ---

    def tiles(self, program: Program, kernel: Kernel) -> TuningTask | None:
        """Tiles for a kernel."""
        elements = needed_elements(program, [kernel])
        if elements is None:
            return None
        variants = tuple(
            self.variant(program, kernel, tiles) for tiles in tiles_to_try(Plan(kernel))
        )
        if variants[0].job.asserts:
            return None
        return TuningTask(self.key(variants[0]), variants, elements)

    def join_with_reader(
        self, program: Program, found: JoinCandidate, choice: Choice | None
    ) -> TuningTask | None:
        """A product's call and its consumer, or both as one kernel."""
        call, kernel = program.steps[found.call], program.steps[found.kernel]
        assert isinstance(call, Call) and isinstance(kernel, Kernel)
        elements = needed_elements(program, [call, kernel, found.product])
        if elements is None:
            return None
        apart = self.variant(program, kernel, choice, call)
        variants = [
            self.variant(program, found.product, blocks) for blocks in blocks_to_try(found.product)
        ]
        if apart.job.asserts:
            return None
        return TuningTask(self.key(apart, variants[0]), (apart, *variants), elements)

    def variant(
        self, program: Program, step: Kernel, choice: Choice | None, call: Call | None = None
    ) -> Variant:
        printed = print_step(step, program.buffers, choice)
        return Variant(
            choice or tiles_to_try(Plan(step))[0], printed, job(program.buffers, printed), call
        )

    def key(self, *variants: Variant) -> str:
        return content_key(
            self.device.identity,
            *(
                text
                for variant in variants
                for text in (variant.job.text, *variant.job.signature, str(variant.choice))
            ),
        )

    # --- choosing ---

    def decide(self, program: Program, works: Mapping[int, TuningTask | None]) -> dict[int, Choice]:
        """The variant for each task that can be, or was, measured; equal tasks are measured
        once."""
        different = {work.key: work for work in works.values() if work is not None}
        known = {key: self.remembered_choice(work) for key, work in different.items()}
        fresh = [work for key, work in different.items() if known[key] is None]
        kernels = self.device.compile([variant.job for work in fresh for variant in work.variants])
        for work in fresh:
            known[work.key] = self.measure(program, work, kernels)
        found = {place: known[work.key] for place, work in works.items() if work is not None}
        return {place: choice for place, choice in found.items() if choice is not None}

    def remembered_choice(self, work: TuningTask) -> Choice | None:
        """What was chosen before."""
        path = self.cache.get(work.key)
        if path is None:
            return None
        kind, numbers = json.loads(path.read_text())
        choice: Choice = KINDS[kind](**numbers)
        return choice if any(variant.choice == choice for variant in work.variants) else None

    def measure(
        self, program: Program, work: TuningTask, kernels: Mapping[Job, Callable[..., None]]
    ) -> Choice | None:
        """The fastest variant; None where none could run."""
        variants = [variant for variant in work.variants if variant.job in kernels]
        try:
            with self.device.memory(work.elements, program.buffers) as memory:
                times = self.device.seconds(
                    [self.run(variant, kernels[variant.job], memory) for variant in variants]
                )
        except torch.OutOfMemoryError:
            return None
        timed = [
            (variant, taken)
            for variant, taken in zip(variants, times, strict=True)
            if taken is not None
        ]
        if not timed:
            return None
        best, fastest = min(timed, key=lambda pair: pair[1])
        first, taken = timed[0]
        if first is work.variants[0] and fastest > CLEARLY * taken:
            best = first
        text = json.dumps([type(best.choice).__name__, asdict(best.choice)])
        self.cache.make(work.key, lambda path: path.write_text(text))
        return best.choice

    def run(
        self, variant: Variant, kernel: Callable[..., None], memory: Mapping[str, torch.Tensor]
    ) -> Callable[[], object]:
        """A function that runs the variant once."""
        arguments = (
            int(variant.printed.programs),
            self.device.stream,
            *(memory[name] for name in variant.printed.parameters.buffers),
        )
        if variant.call is None:
            return partial(kernel, *arguments)
        function = variant.call.function
        args, kwargs = map_views(
            (variant.call.args, dict(variant.call.kwargs)),
            lambda view: tensor_of_view(view, memory[view.buffer]),
        )

        def both() -> None:
            function(*args, **kwargs)
            kernel(*arguments)

        return both
