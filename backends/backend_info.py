"""BackendInfo: one backend, as `list_backends()` describes it."""

from __future__ import annotations

from ..records import record


@record
class BackendInfo:
    """An entry of list_backends(). `reason`: why the backend is not usable here."""

    name: str
    devices: tuple[str, ...] | None
    training: bool
    wants: str
    usable: bool
    reason: str
    origin: str

    def __str__(self) -> str:
        needs = (
            f"{' or '.join(self.devices) if self.devices else 'any device'}, {self.wants} graphs"
        )
        training = "" if self.training else ", inference only"
        origin = f", from {self.origin}" if self.origin else ""
        return f"{self.name}: {needs}{training}{origin}" + (
            "" if self.usable else f"; not usable here: {self.reason}"
        )
