"""torch.distributions: its properties that are calculated at the first look."""
from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributions import utils

from ..base import Value
from ..facts import Facts
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


@models(utils._lazy_property_and_property)
def lazy_property(tx: TraceContext, wrapped: Value) -> Value:
    """What such a property is to who asks its class for it."""
    real = getattr(wrapped, "real", None)
    if real is None:
        raise wrapped.unsupported("as a lazy property")
    return Facts(utils._lazy_property_and_property(real))
