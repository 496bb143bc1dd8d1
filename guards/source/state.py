"""State of the thread: torch's modes, the handled exception, the random generator."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ..encoded import Encoded
from .path import Source, path


@path
class TorchStateSource(Source):
    """Root: torch's thread-local and global modes, for guards of kind TORCH_STATE. There is no
    object: the guard asks torch itself."""

    cost = 0
    written = "torch state"

    def read(self, of: Any) -> None:
        return None

    def encode(self) -> Encoded:
        return Encoded("CONSTANT", None)


@path
class HandledOutside(Source):
    """The exception that was being handled when the frame was entered; None if there was none."""

    written = "sys.exception()"
    of: Source = TorchStateSource()

    def read(self, of: None) -> BaseException | None:
        return sys.exc_info()[1]


@path
class EnteredRandomState(Source):
    """The state of torch's CPU generator when the frame was entered, in a new tensor."""

    cost = 5000
    written = "torch.get_rng_state()"
    of: Source = TorchStateSource()

    def read(self, of: None) -> torch.Tensor:
        return torch.get_rng_state()
