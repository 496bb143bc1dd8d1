"""The results of a call, made from the memory that a recording's kernels have written.

In: the results of the recorded work. Out, for each call: tensors that the next replay does not
overwrite, or which it must not overwrite as long as they are in use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from ...records import record
from ..graph.passed_values import NOTHING, PassedValues
from .pool import without_ownership

ADDRESS = torch.Tensor.data_ptr
USERS = torch._C._storage_Use_Count


class Unrecordable(Exception):
    """The work cannot be recorded; the message says why."""


@record
class HandedOut:
    """The copy of a result that the last call returned."""

    alive: Any
    address: int
    version: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> HandedOut:
        alive = torch._C._WeakTensorRef(tensor)  # type: ignore[attr-defined]
        return cls(alive, ADDRESS(tensor), tensor._version)


@record
class CopiedResult:
    """A recorded result of which calls return copies. A recording that gets such a copy may read
    the result instead."""

    results: ResultCopies
    index: int

    @property
    def memory(self) -> torch.Tensor:
        return self.results.originals[self.index]

    def stands_for(self, arg: torch.Tensor) -> bool:
        """Whether an argument is the copy that the last call returned, and nothing has written to
        it since."""
        last = self.results.handed_out.get(self.index)
        return (
            last is not None
            and ADDRESS(arg) == last.address
            and not last.alive.expired()
            and arg._version == last.version
        )

    def address_for(self, arg: torch.Tensor) -> int:
        """The address to read an argument from: the result's, where that stands for it."""
        return ADDRESS(self.memory if self.stands_for(arg) else arg)


class ResultCopies:
    """Creates a call's results from the recorded memory. A result that is an input, or a view of
    one, refers to the input of the call; a view without its history, as graphs with gradients are
    recorded below autograd. Results that the backward graph or other recordings read are returned
    without a copy: those that are `saved`, and those that are hidden from the program.
    `originals`: by position, results that other recordings may read instead of a copy."""

    def __init__(
        self,
        results: Sequence[Any],
        inputs: Sequence[Any],
        saved: Collection[int],
        passed: PassedValues = NOTHING,
    ) -> None:
        self.template: list[Any] = [
            None if isinstance(item, torch.Tensor) else item for item in results
        ]
        self.inputs: list[tuple[int, int]] = []  # the input itself
        # shape, stride, elements from the input's start
        self.views: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int]] = []
        self.saved: list[int] = []
        self.hidden: list[int] = []
        together = self._sort_results(results, inputs, saved, passed.hidden)
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
        self.originals = {
            index: source
            for index, source in zip(self.alone, self.sources, strict=True)
            if index in passed.results
        }
        self.handed_out: dict[int, HandedOut] = {}
        # Saved results are freed together, so the first stands for all of them.
        self.watched = [*self.saved[:1], *self.hidden]
        # storages, with their counts of references while the program has none
        self.users: list[tuple[int, int]] = []

    def _sort_results(
        self,
        results: Sequence[Any],
        inputs: Sequence[Any],
        saved: Collection[int],
        hidden: Collection[int],
    ) -> dict[int, list[int]]:
        """Notes results that are inputs, views of inputs, saved or hidden. Returns the positions of
        the others, which are copied, by the address of their storage (empty ones apart)."""
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
            elif index in saved or index in hidden:
                self.template[index] = item
                (self.saved if index in saved else self.hidden).append(index)
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

    def originals_of(self, arg: torch.Tensor) -> list[CopiedResult]:
        """The result that an argument is the last copy of, if any."""
        found = (CopiedResult(self, index) for index in self.originals)
        return [one for one in found if one.stands_for(arg) and is_laid_out_like(one.memory, arg)]

    def watch_results(self) -> None:
        """Counts the references to results that are returned without a copy. Called before the
        first of them is returned, when only the recording refers to them."""
        storages = [self.template[index].untyped_storage()._cdata for index in self.watched]
        self.users = [(storage, USERS(storage)) for storage in storages]

    def in_use(self) -> bool:
        """Whether the program, or autograd for it, still refers to a result that was returned
        without a copy, or to a view of one."""
        for storage, count in self.users:
            if USERS(storage) > count:
                return True
        return False

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The results of a replay, in new memory: copies, inputs themselves, and views of
        either."""
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
        for index in self.watched:
            results[index] = results[index].detach()
        for index in self.originals:
            self.handed_out[index] = HandedOut.of(results[index])
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


def is_laid_out_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)


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
