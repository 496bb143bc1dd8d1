"""Keeps generated source in linecache, where tracebacks and debuggers look for it, as long as the
code made of it lives."""

from __future__ import annotations

import itertools
import linecache
import weakref
from typing import Any

_numbers = itertools.count(1)


def file_name(what: str) -> str:
    """A name for a text, of its own in this process: no file has it."""
    return f"<framejit {what} {next(_numbers)}>"


def keep_source(name: str, text: str, owner: Any) -> None:
    """Lets linecache find a text by its name until `owner` is gone."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    weakref.finalize(owner, linecache.cache.pop, name, None).atexit = False
