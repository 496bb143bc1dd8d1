"""Inputs for trying a candidate, and a run of it that leaves no traces.

Tensors that the graph writes are copied, one copy for each stretch of memory, so that shared memory
stays shared. The others use the caller's memory, without its hooks. `copies` copies all of them,
for the first run of untrusted code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

from ...overlap import window_of
from ..graph.gradient_history import wants_gradients

SEED = 20221130
GRADIENT = "gradient"  # prefix of the names of gradients


@dataclass
class RunResult:
    """The outcome of a run: the graph's results, gradients of its inputs in training, and its
    inputs afterwards. between: the copied memory outside of the inputs."""

    results: list[Any]
    gradients: list[torch.Tensor | None]
    inputs: list[Any]
    between: list[torch.Tensor] = field(default_factory=list)

    def tensors(self) -> list[tuple[str, Any]]:
        """All its tensors, with names for messages."""
        return [
            *((f"result {number}", item) for number, item in enumerate(self.results)),
            *((f"{GRADIENT} {number}", item) for number, item in enumerate(self.gradients)),
            *((f"input {number} afterwards", item) for number, item in enumerate(self.inputs)),
            *(("memory between inputs", item) for item in self.between),
        ]


def coarsest_dtype(gm: torch.fx.GraphModule) -> torch.dtype | None:
    """The floating dtype with the fewest bits that a captured graph computes in; None without
    one."""
    fakes = (node.meta.get("example_value") for node in gm.graph.nodes if node.op != "placeholder")
    tensors = (item for fake in fakes for item in tree_leaves(fake))
    found = {item.dtype.to_real() for item in tensors if isinstance(item, torch.Tensor)}
    return coarsest(found)


def coarsest(dtypes: Iterable[torch.dtype]) -> torch.dtype | None:
    floating = (dtype for dtype in dtypes if dtype.is_floating_point)
    return max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=None)


class Trial:
    """The inputs of one graph, until `forget` drops them."""

    def __init__(self, gm: torch.fx.GraphModule | None, args: Sequence[Any]) -> None:
        """gm: None for a callable that is not a captured graph; then any input may be written, and
        gradients flow where inputs require them."""
        if gm is None:
            self.training = torch.is_grad_enabled() and any(
                getattr(one, "requires_grad", False) for one in args
            )
            self.written = set(range(len(args)))
        else:
            placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
            self.training = torch.is_grad_enabled() and wants_gradients(gm)
            self.written = {
                index for index, node in enumerate(placeholders) if node.meta.get("mutated")
            }
        self.originals = list(args)
        self.tangents: list[torch.Tensor] | None = None

    def bytes(self) -> int:
        """The memory that `copies` takes."""
        return sum(
            one.high - one.low
            for one in {id(one): one for one in stretches(self.originals).values()}.values()
        )

    def copies(self) -> list[Any]:
        """Copies of all inputs."""
        return copy_tensors(self.originals, set(range(len(self.originals))))

    def inputs(self) -> list[Any]:
        """The inputs; those that the graph writes are copies."""
        return copy_tensors(self.originals, self.written)

    def run(self, call: Callable[..., Any], inputs: Sequence[Any]) -> RunResult:
        """Runs a candidate, in training with its backward pass."""
        results = list(call(*inputs))
        if not self.training:
            return RunResult(results, [], list(inputs))
        ends = [item for item in results if isinstance(item, torch.Tensor) and item.requires_grad]
        starts = [
            item
            for item in inputs
            if isinstance(item, torch.Tensor) and item.requires_grad and item.is_leaf
        ]
        if not ends or not starts:
            return RunResult(results, [], list(inputs))
        if self.tangents is None:
            self.tangents = [random_gradient(item) for item in ends]
        tangents = [
            tangent.to(item.dtype) for tangent, item in zip(self.tangents, ends, strict=True)
        ]
        gradients = torch.autograd.grad(ends, starts, tangents, allow_unused=True)
        return RunResult([detach(item) for item in results], list(gradients), list(inputs))

    def first_run(self, call: Callable[..., Any], inputs: Sequence[Any]) -> RunResult:
        """As `run`, and also returns the copied memory that belongs to no input."""
        ran = self.run(call, inputs)
        mine = {item.untyped_storage()._cdata for item in self.originals if has_storage(item)}
        ran.between = memory_between(
            [
                item
                for item in inputs
                if is_laid_out(item) and item.untyped_storage()._cdata not in mine
            ]
        )
        return ran

    def memory_between_inputs(self) -> list[torch.Tensor]:
        """The program's own memory between the inputs, for comparison with first_run's copies."""
        return memory_between(list(filter(is_laid_out, self.copies())))

    def in_float64(self) -> list[Any]:
        """Copies of all inputs, floating ones in double precision."""

        def to_double(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or not (
                item.is_floating_point() or item.is_complex()
            ):
                return item
            return (
                item.detach()
                .to(torch.complex128 if item.is_complex() else torch.float64)
                .requires_grad_(item.requires_grad)
            )

        return list(map(to_double, self.copies()))

    def forget(self) -> None:
        self.originals.clear()
        self.tangents = None


def detach(item: Any) -> Any:
    return item.detach() if isinstance(item, torch.Tensor) else item


def random_gradient(like: torch.Tensor) -> torch.Tensor:
    """A gradient for a result: arbitrary numbers, the same each time."""
    source = torch.Generator(device=like.device).manual_seed(SEED)
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=source)


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
    homes = [
        by_storage.get(item.untyped_storage()._cdata) if is_laid_out(item) else None
        for item in tensors
    ]
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
        members.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
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


@contextmanager
def random_state_kept(devices: Sequence[torch.device]) -> Iterator[None]:
    """Restores torch's generators at the end."""
    cpu = torch.get_rng_state()
    cuda = [
        (device, torch.cuda.get_rng_state(device)) for device in devices if device.type == "cuda"
    ]
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        for device, state in cuda:
            torch.cuda.set_rng_state(state, device)
