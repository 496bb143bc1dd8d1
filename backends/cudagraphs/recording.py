"""A recording: the CUDA work of one callable for inputs of one layout, and how to replay it on
other inputs.

Inputs are static (the recorded kernels read the caller's memory, whose address is checked at each
call) or copied in. Results are copied out, so that those of earlier calls stay valid, unless only
another recording reads them.

In a shared pool, no tensor of a recording keeps its memory: it is free between replays, and other
recordings use it. So the pool is as large as the largest recording needs, not as all together.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from ...records import record
from ..graph.passed_values import NOTHING, PassedValues
from .pool import Pool, trivial_recording
from .result_copies import ADDRESS, CopiedResult, ResultCopies, Unrecordable
from .static_input import StaticInput

NO_ORIGINALS: Mapping[int, CopiedResult] = MappingProxyType({})


@record
class RecordedWork:
    """A callable to record on a CUDA device. written: positions of inputs that it writes. saved:
    positions of results that only its backward graph uses, which are returned as the recorded
    memory itself. passed: what it gets from other recordings, and passes to them."""

    run: Callable[..., Any]
    device: int
    written: frozenset[int] = frozenset()
    saved: frozenset[int] = frozenset()
    passed: PassedValues = NOTHING


class Recording:
    """Created by running the work once on `args` while the stream records. Raises Unrecordable.
    copied: positions of inputs that are copied in; the others are static. originals: by position of
    an input that is a copy of another recording's result, that result, which is read in its place.
    `fed`: positions of inputs in other recordings' memory, or are such copies. `back`: positions
    and static inputs of those that are copied in and, after the work has written them, back."""

    fed: frozenset[int] = frozenset()

    def __init__(
        self,
        work: RecordedWork,
        args: Sequence[Any],
        copied: Collection[int],
        pool: Pool,
        originals: Mapping[int, CopiedResult] = NO_ORIGINALS,
    ) -> None:
        self.pool, self.bytes = pool, 0
        self.originals = dict(originals)
        tensors = [index for index, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        self.static = tuple(index for index in tensors if index not in copied)
        self.copied = tuple(index for index in tensors if index in copied)
        self.addresses = self.static_addresses(args)
        self.written = tuple(
            index
            for index in self.static
            if index in work.written and not args[index].is_inference()
        )
        inputs = list(args)  # what the recorded work reads and writes
        for index, original in self.originals.items():
            inputs[index] = original.memory

        def run_on_static_inputs() -> list[Any]:
            self.places = self._make_static_inputs(inputs, work.written)
            return list(work.run(*inputs))

        before = torch.cuda.memory_reserved(work.device)
        self.graph, results = record_work(run_on_static_inputs, pool, work.device)
        self.bytes = torch.cuda.memory_reserved(work.device) - before
        pool.bytes += self.bytes
        self.out = ResultCopies(results, inputs, work.saved, work.passed)
        del results
        if pool.shared:
            self.out.release_memory()
            for _, static_input in self.places:
                static_input.release_memory()
        self.out.watch_results()
        self.static_inputs = [static_input.once for _, static_input in self.places]
        self.back = tuple(
            (index, one.tensor) for index, one in self.places if index in work.written
        )
        self.back_addresses, self.calls_in_place = list[int](), 0

    def _make_static_inputs(
        self, inputs: list[Any], written: Collection[int]
    ) -> list[tuple[int, StaticInput]]:
        """Replaces inputs that are copied in by static ones, whose positions are returned."""
        places = [(index, StaticInput(inputs[index])) for index in self.copied]
        for index, static_input in places:
            inputs[index] = static_input.tensor
            if static_input.repeats and index in written:
                raise Unrecordable(
                    "an input that moves between calls is written to, and its elements share memory"
                )
        return places

    def __del__(self) -> None:
        self.pool.bytes -= self.bytes

    def static_addresses(self, args: Sequence[Any]) -> list[int]:
        """The addresses that static inputs are read from."""
        if not self.originals:
            return [ADDRESS(args[index]) for index in self.static]
        originals = self.originals
        return [
            originals[index].address_for(args[index])
            if index in originals
            else ADDRESS(args[index])
            for index in self.static
        ]

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the static inputs have the recorded addresses."""
        return self.static_addresses(args) == self.addresses

    def moved_inputs(self, args: Sequence[Any]) -> set[int]:
        """Positions of static inputs with another address now."""
        addresses = zip(self.static, self.addresses, self.static_addresses(args), strict=True)
        return {index for index, recorded, now in addresses if recorded != now}

    def count_calls_in_place(self, args: Sequence[Any]) -> int:
        """For how many calls in a row, this one included, the inputs that are copied in and back
        have had the same addresses."""
        now = [ADDRESS(args[index]) for index, _ in self.back]
        self.calls_in_place = self.calls_in_place + 1 if now == self.back_addresses else 1
        self.back_addresses = now
        return self.calls_in_place

    def elements(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """Views of the copied inputs in which each element occurs once."""
        return [static_input.elements(args[index]) for index, static_input in self.places]

    def replay(self, args: Sequence[Any]) -> list[Any]:
        """Replays the work on inputs that fit."""
        with self.pool.lock:
            return self._replay(args)

    def _replay(self, args: Sequence[Any]) -> list[Any]:
        """Copies inputs in, replays, copies what was written back to the inputs. The pool's lock is
        held."""
        grad = torch.is_grad_enabled()
        if grad:
            torch._C._set_grad_enabled(False)
        try:
            if self.static_inputs:
                copy_all(self.static_inputs, self.elements(args))
            self.graph.replay()
            if self.back:
                copy_all(
                    [args[index] for index, _ in self.back],
                    [static_input for _, static_input in self.back],
                )
            if self.written:
                torch.autograd.graph.increment_version([args[index] for index in self.written])
        finally:
            if grad:
                torch._C._set_grad_enabled(True)
        return self.out(args)  # views made without gradients could not be written to with them


def copy_all(to: list[torch.Tensor], source: list[torch.Tensor]) -> None:
    if len(to) == 1:
        to[0].copy_(source[0])
    else:
        torch._foreach_copy_(to, source)


def record_work(
    run: Callable[[], list[Any]], pool: Pool, device: int
) -> tuple[torch.cuda.CUDAGraph, list[Any]]:
    """Records a call of `run`, whose work is not executed. Raises Unrecordable."""
    graph = torch.cuda.CUDAGraph()
    here = torch.cuda.current_stream(device)
    pool.stream.wait_stream(here)
    collecting = gc.isenabled()
    gc.disable()  # a garbage collection must not free memory while a stream records
    try:
        with torch.cuda.stream(pool.stream):
            try:
                graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
                results = run()
                graph.capture_end()
            except BaseException as error:
                clear_up(graph, pool, device)
                if isinstance(error, Unrecordable) or not isinstance(error, Exception):
                    raise
                raise Unrecordable(
                    f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                ) from error
    finally:
        if collecting:
            gc.enable()
    here.wait_stream(pool.stream)
    return graph, results


def clear_up(graph: torch.cuda.CUDAGraph, pool: Pool, device: int) -> None:
    """Cleans up after a failed recording: ends it for torch's allocator and its generator, which
    capture_end does only after success. A successful empty recording resets the generator."""
    for end in (graph.capture_end, lambda: torch._C._cuda_endAllocateToPool(device, pool.handle)):
        try:
            end()
        except RuntimeError:
            pass  # this repeats that the recording failed, or that it has ended
    trivial_recording(device, pool.stream, None)
