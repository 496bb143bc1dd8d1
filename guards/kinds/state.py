"""TORCH_STATE: torch's modes are those of the snapshot."""

from __future__ import annotations

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..native import fingerprint
from ..torch_state import TorchState
from .registry import GuardKind, guard_kind


@guard_kind(Kind.TORCH_STATE)
class State(GuardKind):
    """torch's modes and settings; no object."""

    cost = 20

    def holds(self, expected: TorchState, subject: None) -> bool:
        return expected.holds()

    def encode(self, guard: Guard) -> Encoded:
        fingerprint.calibrate()
        return Encoded("TORCH_STATE", guard.expected, runs_python=True)

    def expression(self, guard: Guard) -> str:
        return "torch_state()"

    def old(self, guard: Guard) -> str:
        return "as it was"

    def difference(self, guard: Guard, subject: None) -> tuple[str, str, str]:
        what, old, new = guard.expected.difference(TorchState.now())
        return f"torch state {what}", repr(old), repr(new)
