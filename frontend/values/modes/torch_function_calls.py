"""Who calls the `__torch_function__` of wrapper classes during a capture."""

from __future__ import annotations

from typing import Any

import torch


class TorchFunctionCalls:
    """torch calls it where operators run on fake tensors; or does not, where it is interpreted.
    A capture does one or the other."""

    def __init__(self) -> None:
        self._made_by_torch = False
        self._switched_off: Any = None

    @property
    def are_interpreted(self) -> bool:
        return self._switched_off is not None

    def leave_to_torch(self) -> bool:
        """Whether torch calls it from now on."""
        self._made_by_torch = not self.are_interpreted
        return self._made_by_torch

    def interpret(self) -> bool:
        """Whether it is interpreted from now on. Then torch's calls are switched off until
        `close`."""
        if self._made_by_torch:
            return False
        if self._switched_off is None:
            self._switched_off = torch._C.DisableTorchFunctionSubclass()
            self._switched_off.__enter__()
        return True

    def close(self) -> None:
        """Restores the state before the capture."""
        if self._switched_off is not None:
            self._switched_off.__exit__(None, None, None)
            self._switched_off = None
