"""importlib: whether a package is installed."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ModuleSource
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import models


@models(importlib.util.find_spec)
def find_spec(tx: TraceContext, name: Value, package: Value | None = None) -> Value:
    """None for a package that is not installed, which each call asks again."""
    asked = name.constant() if name.is_constant() else None
    if package is not None or not isinstance(asked, str) or "." in asked or not is_absent(asked):
        raise GraphBreak("unknown-call", "importlib.util.find_spec")
    path = ModuleSource("importlib.util")
    tx.guards.add(path, Kind.PYTHON, (f"finds no {asked}", partial(finds_nothing, asked)))
    return Constant(None)


def is_absent(name: str) -> bool:
    """Whether no module of this name is imported, and none is found."""
    return name not in sys.modules and importlib.util.find_spec(name) is None


def finds_nothing(name: str, _: object) -> bool:
    return is_absent(name)
