"""Event records -> lines of Python's logging, under "framejit.breaks", "framejit.guards" and so on,
as config.log asks.

A table maps each name to its records and their text. Where the program has set up no logging, lines
go to stderr.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...events import (
    Break,
    Captured,
    Chosen,
    Event,
    Full,
    Kernels,
    Miss,
    Note,
    Recorded,
    Skipped,
    Specialised,
    WrongGraph,
)
from ...options import config


def break_line(event: Break) -> str:
    called = "".join(f"\n    called from {where}" for where in event.chain[1:])
    return (
        f"{event.function} at {event.where}: {event.sentence} [{event.reason_id}]\n    hint: "
        f"{event.hint}{called}"
    )


def skip_line(event: Skipped) -> str:
    return f"{event.function} at {event.where} is left to Python: {event.reason}"


def miss_line(event: Miss) -> str:
    reasons = "".join(f"\n    {failure}" for failure in event.failures)
    missed = (
        "another iteration of a loop needs code of its own"
        if event.for_iteration
        else "nothing compiled serves this call"
    )
    return f"{event.function} at {event.where}: {missed}{reasons}"


def limit_line(event: Full) -> str:
    return f"{event.function} at {event.where} has {event.sentence}; other calls run in eager"


def specialisation_line(event: Specialised) -> str:
    if event.backend:
        return f"{event.function}: {event.sentence}"
    return (
        f"{event.function}: {event.source} varies, but {event.where or 'the code'} needs it to "
        f"be {event.number}"
    )


def guard_count(event: Captured) -> str:
    return f"{event.function} from {event.where}: {len(event.guards)} guards"


def graph_lines(event: Captured) -> str:
    if event.graph is None:
        return ""
    code = event.graph.python_code("self").src.strip()
    return f"{event.function} from {event.where}: {event.ops} ops\n{code}"


def note_line(event: Note | Recorded) -> str:
    return f"the graph of {event.function} from {event.where}: {event.text}"


def kernel_lines(event: Kernels) -> str:
    texts = "".join(f"\n{kernel.text}" for kernel in event.kernels)
    return (
        f"kernels of the {event.part} of {event.function} from {event.where}: "
        f"{len(event.kernels)}{texts}"
    )


def wrong_graph_line(event: WrongGraph) -> str:
    return f"the graph of {event.function} from {event.where}: {event.sentence}"


def choice_line(event: Chosen) -> str:
    return f"the graph of {event.function} from {event.where} {event.sentence}"


# the text of a record; "" for none
LINES: dict[str, dict[type, Callable[[Any], str]]] = {
    "breaks": {Break: break_line, Skipped: skip_line},
    "recompiles": {Miss: miss_line, Full: limit_line, Specialised: specialisation_line},
    "guards": {Captured: guard_count},
    "graphs": {Captured: graph_lines},
    "kernels": {Note: note_line, Recorded: note_line, Kernels: kernel_lines},
    "tune": {Chosen: choice_line, WrongGraph: wrong_graph_line},
}


class Log:
    """A sink. `describe` puts a guard into words."""

    def __init__(self, describe: Callable[[Any], str]) -> None:
        self.describe = describe

    def __call__(self, event: Event) -> None:
        for name in config.log:
            line = LINES[name].get(type(event))
            text = line(event) if line is not None else ""
            if name == "guards" and isinstance(event, Captured):
                text = "\n    ".join([text, *map(self.describe, event.guards)])
            if text:
                logger_of(name).info("%s", text)


def logger_of(name: str) -> logging.Logger:
    """A logger that lets these lines through: who asks for them wants to see them."""
    root = logging.getLogger("framejit")
    if root.level == logging.NOTSET:
        root.setLevel(logging.INFO)
    if not root.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        root.addHandler(handler)
    return logging.getLogger(f"framejit.{name}")
