"""How a handler ends the interpretation of a frame: it returned, or it yielded."""
from __future__ import annotations

from dataclasses import dataclass

from ..values.base import Value


@dataclass(frozen=True, slots=True)
class Returned:
    """The frame is done."""

    value: Value


@dataclass(frozen=True, slots=True)
class Yielded:
    """The generator's frame waits."""

    value: Value
