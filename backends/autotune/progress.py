"""Shows on a terminal what is being tried; shows nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.errors import LiveError

from ...options import config


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Callable[[str], None]]:
    """Gives a function that shows a line."""
    console = Console(stderr=True)
    if not config.progress or not sys.stderr.isatty():
        yield lambda text: None
        return
    status = console.status(title)
    try:
        status.start()
    except LiveError:  # the program has a live display
        yield lambda text: None
        return
    try:
        yield lambda text: status.update(f"{title}: {text}")
    finally:
        status.stop()
