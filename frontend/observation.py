"""Observation: one report over all functions that a program compiles meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..events import Recorder
from ..options import config
from .control import condition
from .explain import make_report
from .runtime.probe import Probe

if TYPE_CHECKING:
    from .explain.report import Report


class Observation:
    """What is seen of all functions that are compiled inside `with observation:`, for one report
    over a whole program."""

    def __init__(self) -> None:
        self.recorder, self.probe = Recorder(), Probe()
        self._patch = config.patch(sinks=(*config.sinks, self.recorder), probe=self.probe)

    def __enter__(self) -> None:
        self._patch.__enter__()
        self._start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.wall = time.perf_counter() - self._start
        self._patch.__exit__(*exc)

    def report(self, title: str) -> Report:
        return make_report(tuple(self.recorder.events), condition, self.probe, self.wall, title)
