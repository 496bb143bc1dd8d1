"""contextlib."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..base import Value
from ..constant import Constant
from ..modes.mode_manager import NullManager
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


@models(contextlib.nullcontext)
def nullcontext(tx: TraceContext, enter_result: Value | None = None) -> Value:
    return NullManager(enter_result or Constant(None))
