"""typing: cast() and the like, which return their argument."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from ..base import Value
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


@models(typing.cast)
def cast(tx: TraceContext, kind: Value, value: Value) -> Value:
    return value
