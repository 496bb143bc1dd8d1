"""Finds the dictionary behind a types.MappingProxyType."""

from __future__ import annotations

import gc
from types import MappingProxyType
from typing import Any


def mapping_behind(proxy: Any) -> Any:
    """The mapping behind a proxy: the one object that it holds. Raises TypeError for others."""
    if type(proxy) is not MappingProxyType:
        raise TypeError(f"{proxy!r} shows no mapping")
    return gc.get_referents(proxy)[0]
