"""Report: the data of a report, and the ways to show it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...records import record
from .json_report import as_dict, as_json
from .report_data import ReportData
from .text_report import full_text, short_text

if TYPE_CHECKING:
    from rich.console import RenderableType


@record
class Report(ReportData):
    """A report of one call (`framejit.explain`), of all calls so far (`handle.framejit.explain()`),
    or of a program.

    `print(report)` gives text, `rich.print(report)` tables; `to_json` and `to_html` write those
    formats.
    """

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, of the schema that docs/explain.md tells."""
        return as_dict(self)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The same as JSON; written to a file too, if there is a path."""
        text = as_json(self)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A page that needs no network, and returns its text; written to a file, if there is a
        path."""
        # jinja2 and pygments take their time
        page = importlib.import_module(".html_report", __package__)
        text: str = page.html(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def details(self) -> str:
        """The whole report as text; `print(report)` shows what fits a screen."""
        return full_text(self)

    def __str__(self) -> str:
        return short_text(self)

    def __rich__(self) -> RenderableType:
        tables = importlib.import_module(".rich_tables", __package__)
        renderable: RenderableType = tables.renderable(self)
        return renderable
