"""Facts about numbers that vary: where they are found, which were specialised, and users' marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._guards
import torch.fx
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
)

from ....errors import FramejitError
from ....guards.source import Source
from ....records import record
from ...values.tensor.dynamic_marks import Mark
from ...values.tensor.symbolic_number import Symbol, SymbolicNumber
from .value_origins import ValueOrigin


class MarkError(FramejitError, ConstraintViolationError):
    """A user's mark of a dimension does not hold. Also torch's error of that meaning, for those who
    catch it."""


@record
class SizeFact:
    """A number at a path, and the symbolic number for it."""

    source: Source
    sym: Symbol


@record
class SpecialisedNumber:
    """A number that was to vary and is guarded now: its path, its value, and the user's line that
    needed it."""

    source: Source
    number: Any
    line: str
    mark: Mark | None
    operator: str = ""  # at which a backend needed it, "" if the program did


@record
class FactsAtRunTime:
    """Relations of numbers, to be checked by each call. origin: the last operation that gave one of
    the numbers."""

    function: Callable[..., bool]
    numbers: tuple[SymbolicNumber, ...]
    origin: ValueOrigin


def check_mark(real: torch.Tensor, source: Source, dim: int, mark: Mark | None) -> None:
    if mark is None:
        return
    size = real.shape[dim]
    if (mark.min is not None and size < mark.min) or (mark.max is not None and size > mark.max):
        raise MarkError(
            f"dimension {dim} of {source.name} has size {size}, outside of what mark_dynamic "
            f"said: [{mark.min}, {mark.max}]"
        )
