"""Options of the tests. What tests need beside is in fixtures.py; the process that only hands tests
out to others does not import it, as torch takes seconds."""

from __future__ import annotations

import importlib
import os

from . import sweep_slice


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files anew instead of comparing with them",
    )
    parser.addoption(
        "--one-of",
        type=int,
        default=1,
        help="run one test of so many, others at each commit (all with FRAMEJIT_SWEEP=all)",
    )


def pytest_configure(config):
    """The environment is also for processes that tests start."""
    os.environ.setdefault("FRAMEJIT_STORE", "0")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(importlib.import_module(".fixtures", __package__))


def pytest_terminal_summary(terminalreporter):
    if not sweep_slice.WHOLE:
        terminalreporter.write_line(
            f"long tables: slice {sweep_slice.NUMBER} (FRAMEJIT_SWEEP_SLICE={sweep_slice.NUMBER} "
            "repeats it, FRAMEJIT_SWEEP=all runs every case)"
        )
