"""The states of torch's default generators, kept for a second run with the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class RandomStates:
    """The states, as they are now, of the CPU's generator and of some GPUs'. among: devices, and
    tensors whose devices count; anything else is passed over."""

    def __init__(self, among: Iterable[Any]) -> None:
        self.gpus = sorted({number for item in among if (number := gpu_of(item)) is not None})
        self.states = self.read()

    def read(self) -> list[torch.Tensor]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self.gpus)]

    def have_moved(self) -> bool:
        """Whether numbers were drawn since."""
        return not all(map(torch.equal, self.states, self.read()))

    def restore(self) -> None:
        torch.set_rng_state(self.states[0])
        for gpu, state in zip(self.gpus, self.states[1:], strict=True):
            torch.cuda.set_rng_state(state, gpu)


def gpu_of(item: Any) -> int | None:
    """The number of the GPU that an object is or is on; None for others."""
    device = item.device if isinstance(item, torch.Tensor) else item
    if not isinstance(device, torch.device) or device.type != "cuda":
        return None
    return torch.cuda.current_device() if device.index is None else device.index


@contextmanager
def random_states_kept(among: Iterable[Any], first: RandomStates | None = None) -> Iterator[None]:
    """Restores the states at the end. first: states for the block; None for those of now."""
    before = RandomStates(among)
    if first is not None:
        first.restore()
    try:
        yield
    finally:
        before.restore()
