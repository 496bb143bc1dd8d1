"""A recording: the CUDA work of one callable for inputs of one layout, and how to replay it on
other inputs.

Inputs are static (the recorded kernels read the caller's memory, whose address is checked at each
call) or copied in. Results are copied out, so that those of earlier calls stay valid.

In a shared pool, no tensor of a recording keeps its memory: it is free between replays, and other
recordings use it. So the pool is as large as the largest recording needs, not as all together.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from .pool import Pool, trivial_recording, without_ownership
from .static_input import StaticInput

ADDRESS = torch.Tensor.data_ptr


class Unrecordable(Exception):
    """The work cannot be recorded; the message says why."""


class Recording:
    """Created by running `run` once on `args` while the stream records. Raises Unrecordable.
    copied: positions of inputs that are copied in; the others are static. written: positions of
    inputs that are written. saved: positions of results that are returned as the recorded memory
    itself; the caller promises not to use them after the next replay."""

    def __init__(
        self,
        run: Callable[..., Any],
        args: Sequence[Any],
        copied: Collection[int],
        written: Collection[int],
        saved: Collection[int],
        pool: Pool,
        device: int,
    ) -> None:
        self.pool, self.bytes = pool, 0
        tensors = [index for index, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        self.static = tuple(index for index in tensors if index not in copied)
        self.copied = tuple(index for index in tensors if index in copied)
        self.addresses = [ADDRESS(args[index]) for index in self.static]
        self.written = tuple(
            index for index in self.static if index in written and not args[index].is_inference()
        )
        inputs = list(args)  # what the recorded work reads and writes

        def run_on_static_inputs() -> list[Any]:
            self.places = self._make_static_inputs(inputs, written)
            return list(run(*inputs))

        before = torch.cuda.memory_reserved(device)
        self.graph, results = record(run_on_static_inputs, pool, device)
        self.bytes = torch.cuda.memory_reserved(device) - before
        pool.bytes += self.bytes
        self.out = ResultCopies(results, inputs, saved)
        del results
        if pool.shared:
            self.out.release_memory()
            for _, static_input in self.places:
                static_input.release_memory()
        self.static_inputs = [static_input.once for _, static_input in self.places]
        self.back = tuple((index, one.tensor) for index, one in self.places if index in written)

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

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the static inputs have the recorded addresses."""
        return [ADDRESS(args[index]) for index in self.static] == self.addresses

    def moved_inputs(self, args: Sequence[Any]) -> set[int]:
        """Positions of static inputs with another address now."""
        return {
            index
            for index, address in zip(self.static, self.addresses, strict=True)
            if ADDRESS(args[index]) != address
        }

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


def record(
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


class ResultCopies:
    """Creates a call's results from the recorded memory. A result that is an input, or a view of
    one, refers to the input of the call; a view without its history, as graphs with gradients are
    recorded below autograd. `saved` results are returned without a copy; the first of them as a
    separate tensor object, whose lifetime shows (`saved_in_use`) whether they are still in use."""

    def __init__(
        self, results: Sequence[Any], inputs: Sequence[Any], saved: Collection[int]
    ) -> None:
        self.template: list[Any] = [
            None if isinstance(item, torch.Tensor) else item for item in results
        ]
        self.inputs: list[tuple[int, int]] = []  # the input itself
        # shape, stride, elements from the input's start
        self.views: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int]] = []
        self.saved: list[int] = []
        together = self._sort_results(results, inputs, saved)
        self.alone = tuple(  # positions of those copied one by one
            indices[0]
            for indices in together.values()
            if len(indices) == 1 and is_dense(results[indices[0]])
        )
        # in one memory, or with gaps in it
        self.groups: list[tuple[torch.Tensor, list[tuple[int, torch.Tensor]]]] = [
            (base_of([results[index] for index in indices]), [(i, results[i]) for i in indices])
            for indices in together.values()
            if indices[0] not in self.alone
        ]
        self.sources = [results[index].detach() for index in self.alone]
        self.specs = [(item.shape, item.stride(), item.dtype, item.device) for item in self.sources]
        self.first_saved: Any = None  # of the last call, weakly

    def _sort_results(
        self, results: Sequence[Any], inputs: Sequence[Any], saved: Collection[int]
    ) -> dict[int, list[int]]:
        """Notes results that are inputs, views of inputs, or saved. Returns the positions of the
        others, which are copied, by the address of their storage (empty ones apart)."""
        homes = {
            item.untyped_storage().data_ptr(): index
            for index, item in enumerate(inputs)
            if isinstance(item, torch.Tensor)
        }
        together: dict[int, list[int]] = {}
        for index, item in enumerate(results):
            if not isinstance(item, torch.Tensor):
                continue
            home = item.untyped_storage().data_ptr()
            owner = next((position for position, one in enumerate(inputs) if one is item), None)
            if owner is not None:
                self.inputs.append((index, owner))
            elif item.numel() and home in homes:
                self.views.append((index, homes[home], *view_of(item, inputs[homes[home]])))
            elif index in saved:
                self.template[index] = item
                self.saved.append(index)
            else:
                together.setdefault(home if item.numel() else -1 - index, []).append(index)
        return together

    def release_memory(self) -> None:
        """Leaves the memory that results are copied from to the pool."""
        self.sources = [without_ownership(source) for source in self.sources]
        self.groups = [
            (
                without_ownership(base),
                [(index, without_ownership(item)) for index, item in members],
            )
            for base, members in self.groups
        ]

    def saved_in_use(self) -> bool:
        """Whether saved results are still in use."""
        return self.first_saved is not None and not self.first_saved.expired()

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        results = self.template.copy()
        if len(self.alone) == 1:
            results[self.alone[0]] = self.sources[0].clone()
        elif self.alone:
            fresh = [
                torch.empty_strided(shape, stride, dtype=dtype, device=device)
                for shape, stride, dtype, device in self.specs
            ]
            torch._foreach_copy_(fresh, self.sources)
            for index, item in zip(self.alone, fresh, strict=True):
                results[index] = item
        for index, owner in self.inputs:
            results[index] = args[owner]
        for index, owner, shape, stride, offset in self.views:
            whole = args[owner].detach() if args[owner].requires_grad else args[owner]
            results[index] = whole.as_strided(shape, stride, whole.storage_offset() + offset)
        for base, members in self.groups:
            storage, low = base.clone().untyped_storage(), base.storage_offset()
            for index, item in members:
                offset = (item.storage_offset() * item.element_size() - low) // item.element_size()
                made = torch.empty(0, dtype=item.dtype, device=item.device)
                results[index] = made.set_(storage, offset, item.shape, item.stride())
        if self.saved:
            first = self.saved[0]
            results[first] = results[first].detach()
            self.first_saved = torch._C._WeakTensorRef(results[first])  # type: ignore[attr-defined]
        return results


def view_of(
    item: torch.Tensor, owner: torch.Tensor
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, stride and offset of a result in an input's memory. Raises Unrecordable for one of
    another dtype."""
    distance = ADDRESS(item) - ADDRESS(owner)
    if (
        item.dtype != owner.dtype
        or distance % item.element_size()
        or item.is_conj() != owner.is_conj()
        or item.is_neg() != owner.is_neg()
    ):
        raise Unrecordable("a result is an input's memory read as another dtype")
    return tuple(item.shape), tuple(item.stride()), distance // item.element_size()


def is_dense(item: torch.Tensor) -> bool:
    """Whether a tensor fills its memory without gaps, in any order."""
    return not item.numel() or torch._debug_has_internal_overlap(item) == 0


ALIGNED = 16  # bytes


def base_of(items: Sequence[torch.Tensor]) -> torch.Tensor:
    """The bytes that tensors of one storage span."""
    low = min(item.storage_offset() * item.element_size() for item in items) // ALIGNED * ALIGNED
    high = max(
        (
            item.storage_offset()
            + sum(
                (size - 1) * stride for size, stride in zip(item.shape, item.stride(), strict=True)
            )
            + 1
        )
        * item.element_size()
        for item in items
    )
    first = items[0]
    return torch.empty(0, dtype=torch.uint8, device=first.device).set_(
        first.untyped_storage(), low, (high - low,), (1,)
    )
