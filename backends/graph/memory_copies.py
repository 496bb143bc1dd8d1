"""Copies tensors such that shared memory stays shared: each contiguous stretch of memory is copied
once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...overlap import window_of
from .memory import memory_of

ALIGNED = 16  # bytes


@dataclass
class Stretch:
    """Contiguous memory that contains storages: its first address and the one after its last byte.
    parts: for each storage a tensor in it, and the address range that tensors reach."""

    low: int
    high: int
    parts: list[tuple[torch.Tensor, int, int]]

    def copy(self) -> torch.UntypedStorage:
        size, device = self.high - self.low, self.parts[0][0].device
        fresh = torch.zeros(size, dtype=torch.uint8, device=device)  # copies are compared, gaps too
        for low, high, own in self.memory():
            fresh[low:high].copy_(own)
        return fresh.untyped_storage()

    def memory(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """The bytes of each part, and its range in the stretch."""
        for tensor, low, high in self.parts:
            start = low - torch._C._data_address(tensor)  # type: ignore[attr-defined]
            own = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(
                tensor.untyped_storage(), start, (high - low,), (1,)
            )
            yield low - self.low, high - self.low, own

    def is_copy(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that was copied with the stretch covers all of its copy."""
        return tensor.untyped_storage().nbytes() == self.high - self.low

    def write_back(self, copied: torch.UntypedStorage) -> None:
        """Copies a changed copy back to the memory."""
        source = torch.empty(0, dtype=torch.uint8, device=self.parts[0][0].device).set_(copied)
        for low, high, own in self.memory():
            if not torch.equal(own, source[low:high]):
                own.copy_(source[low:high])


def has_storage(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.layout is torch.strided


def is_laid_out(item: Any) -> bool:
    """Whether it is a tensor with elements in memory."""
    if not isinstance(item, torch.Tensor) or item.layout is not torch.strided or not item.numel():
        return False
    return bool(torch._C._data_address(item) != 0)  # type: ignore[attr-defined]


def stretches(tensors: Sequence[Any]) -> dict[int, Stretch]:
    """The memory of tensors, by storage; overlapping storages are in one stretch."""
    reach: dict[int, tuple[torch.Tensor, int, int]] = {}
    for tensor in filter(is_laid_out, tensors):
        window = window_of(tensor)
        _, low, high = reach.get(window.storage, (tensor, window.address, window.end))
        reach[window.storage] = tensor, min(low, window.address), max(high, window.end)
    found: dict[int, Stretch] = {}
    last: Stretch | None = None
    for key, (tensor, low, high) in sorted(reach.items(), key=lambda item: item[1][1]):
        if last is None or low >= last.high:
            last = Stretch(low // ALIGNED * ALIGNED, high, [])
        last.high = max(last.high, high)
        last.parts.append((tensor, low, high))
        found[key] = last
    return found


def copy_tensors(tensors: Sequence[Any], wanted: set[int]) -> list[Any]:
    """The tensors as leaves without hooks; those at `wanted`, and all that may share memory with
    them, on separate memory."""
    by_storage = stretches(tensors)
    homes = [by_storage.get(memory_of(item)) if is_laid_out(item) else None for item in tensors]
    chosen = {
        id(home): home for index, home in enumerate(homes) if index in wanted and home is not None
    }
    with torch.no_grad():
        fresh = {key: (home.copy(), home.low) for key, home in chosen.items()}
        return [
            recreate_tensor(tensor, fresh.get(id(home)))
            if isinstance(tensor, torch.Tensor)
            else tensor
            for tensor, home in zip(tensors, homes, strict=True)
        ]


def recreate_tensor(
    tensor: torch.Tensor, fresh: tuple[torch.UntypedStorage, int] | None
) -> torch.Tensor:
    """A tensor over its own memory, or over a copy: a storage, and the address that its first byte
    stands for."""
    if fresh is None:
        made = tensor.detach()
    elif (window_of(tensor).address - fresh[1]) % tensor.element_size():
        made = tensor.detach().clone()
    else:
        storage, low = fresh
        offset = (window_of(tensor).address - low) // tensor.element_size()
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
            storage, offset, tensor.shape, tensor.stride()
        )
        if tensor.is_neg():
            made = torch._neg_view(made)
        if tensor.is_conj():
            made = made.conj()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


def memory_between(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The bytes of the inputs' storages, with zeros in place of the inputs. Storages that inputs
    fill are left out."""
    members: dict[int, list[torch.Tensor]] = {}
    for tensor in inputs:
        members.setdefault(memory_of(tensor), []).append(tensor)
    found = []
    with torch.no_grad():
        for tensors in members.values():
            storage = tensors[0].untyped_storage()
            if any(fills(tensor, storage) for tensor in tensors):
                continue
            memory = (
                torch.empty(0, dtype=torch.uint8, device=tensors[0].device).set_(storage).clone()
            )
            for tensor in tensors:
                own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                own.set_(
                    memory.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
                ).zero_()
            found.append(memory)
    return found


def fills(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether every byte of a storage belongs to a tensor. Overlapping tensors may have more
    elements than the storage and still leave gaps."""
    return tensor.is_contiguous() and tensor.numel() * tensor.element_size() == storage.nbytes()
