"""Replaces code objects that were read from disk by the equal ones of the running program."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...pycode.decode import decode
from ...pycode.resume import SuspendedFrame
from ..sites import HandleSites
from .object_descriptions import NotFound, lookup


def with_live_code(frame: SuspendedFrame, sites: HandleSites) -> SuspendedFrame:
    """A suspended frame with the code object that the program runs; with that of an equal frame
    of the handle, or its own, where that is not found."""
    code = frame.decoded.code
    candidates = (*functions_named(code, frame.globals), *sites.suspended_codes)
    for candidate in candidates:
        if candidate is code:
            return frame
        if candidate == code and candidate.co_filename == code.co_filename:
            return replace(frame, decoded=decode(candidate))
    return frame


def functions_named(code: types.CodeType, names: dict[str, Any]) -> Iterator[types.CodeType]:
    """The code objects of the functions that have a code object's name, decorators taken off."""
    module = sys.modules.get(str(names.get("__name__")))
    if module is None or vars(module) is not names:
        return
    try:
        found = lookup(module, code.co_qualname)
    except NotFound:
        return
    while isinstance(found, types.FunctionType):
        yield found.__code__
        found = found.__dict__.get("__wrapped__")
