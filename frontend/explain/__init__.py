"""Reports: records of what happened (events.py) in; text, tables, JSON or HTML out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .report import Report


def make_report(*records_and_times: Any, **named: Any) -> Report:
    """gather.make_report, which is loaded by the first report: most programs ask for none."""
    gather = importlib.import_module(".gather", __package__)
    report: Report = gather.make_report(*records_and_times, **named)
    return report
