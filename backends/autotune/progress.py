"""Shows on a terminal what is being tried; shows nothing elsewhere."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator

from ...options import config


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Callable[[str], None]]:
    """Gives a function that shows a line."""
    if not config.progress or not sys.stderr.isatty():
        yield lambda text: None
        return
    # rich has 45 modules
    console = importlib.import_module("rich.console").Console(stderr=True)
    status = console.status(title)
    try:
        status.start()
    except importlib.import_module("rich.errors").LiveError:  # the program has a live display
        yield lambda text: None
        return
    try:
        yield lambda text: status.update(f"{title}: {text}")
    finally:
        status.stop()
