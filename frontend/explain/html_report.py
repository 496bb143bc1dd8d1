"""A report as one HTML file: styles, script, drawings and highlighted text are in it, so that it
works from disk without a network."""

from __future__ import annotations

import linecache
from itertools import groupby
from typing import Any

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from ...clock import PHASES
from . import graph_svg, text_report
from .report_data import ReportData, TimelineSpan
from .source_text import SourcePart, relative_place, source_line

LIGHT, DARK = "default", "github-dark"  # pygments' styles
LEXERS = {"triton": "python"}
ABOUT = {
    "graphs": "compiled code at work",
    "python": "Python in and around the statements at breaks",
}
HUES = 8  # colours of captures, which then begin again; phases have more
# phases by their colours
COLOURED_PHASES = (
    "graphs", "trace", "tuning", "c_compile", "lowering", "backend", "fake_tensors", "guards",
    "imports", "codegen", "measuring", "python", "triton_compile",
)  # fmt: skip
SHORTEST_SHARE = 0.0005  # of the timeline: what is shorter is not drawn

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def html(report: ReportData) -> str:
    """The report as one HTML page that needs no other file."""
    colours = {capture.number: place % HUES for place, capture in enumerate(report.graphs)}
    places = {capture.number: place for place, capture in enumerate(report.captures, 1)}
    return _environment.get_template("report.html.j2").render(
        report=report,
        plain=text_report,
        near=relative_place,
        source_line=source_line,
        about=PHASES | ABOUT,
        colours=colours,
        places=places,
        files=[
            (file, [(part, lines_of(part)) for part in parts])
            for file, parts in groupby(report.sources, lambda part: part.file)
        ],
        hue=hue,
        drawing=lambda capture: Markup(graph_svg.svg(capture.nodes)),
        code=lambda text, language: Markup(
            highlight(text, lexer(language), HtmlFormatter(nowrap=True))
        ),
        phases=sorted(report.times.parts.items(), key=lambda pair: -pair[1]),
        rows=timeline_rows(report),
        end=max((span.end for span in report.timeline), default=0.0),
        light=Markup(HtmlFormatter(style=LIGHT).get_style_defs(".code")),
        dark=Markup(HtmlFormatter(style=DARK).get_style_defs(':root[data-theme="dark"] .code')),
    )


def hue(phase: str) -> int:
    """The number of a phase's colour."""
    return COLOURED_PHASES.index(phase) if phase in COLOURED_PHASES else len(COLOURED_PHASES) - 1


def lexer(language: str) -> Any:
    return get_lexer_by_name(LEXERS.get(language, language), stripnl=False)


def lines_of(part: SourcePart) -> list[Markup]:
    """The part's lines, highlighted as in their file: a part may begin inside of a text of many
    lines."""
    shown = [line.text for line in part.lines]
    start = part.lines[0].number - 1
    above = [line.rstrip("\n") for line in linecache.getlines(part.file)[: start + len(shown)]]
    if above[start:] != shown:  # the file is not what it was
        above, start = shown, 0
    lines = highlight("\n".join(above), lexer("python"), HtmlFormatter(nowrap=True)).split("\n")
    return [Markup(line) for line in lines[start : start + len(shown)]]


def timeline_rows(report: ReportData) -> list[tuple[str, int, list[TimelineSpan]]]:
    """The timeline's rows: what they show, and their spans."""
    end = max((span.end for span in report.timeline), default=0.0)
    found: dict[tuple[str, int], list[TimelineSpan]] = {}
    for span in report.timeline:
        if span.end - span.start >= SHORTEST_SHARE * end:
            found.setdefault((span.row, span.depth), []).append(span)
    return [(row, depth, spans) for (row, depth), spans in sorted(found.items())]
