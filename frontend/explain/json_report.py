"""A report as JSON. The schema is report.schema.json; docs/explain.md documents it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import torch

from ...events import Chosen, Kernels
from .report_data import BreakReport, CaptureReport, ReportData, Times

SCHEMA = "framejit.explain/1"


def as_json(report: ReportData) -> str:
    return json.dumps(as_dict(report), indent=2, ensure_ascii=False, allow_nan=False)


def as_dict(report: ReportData) -> dict[str, Any]:
    """The report as JSON can hold it; docs/explain.md has the schema."""
    return {
        "schema": SCHEMA,
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
        "title": report.title,
        "summary": summary_of(report),
        "time": time_of(report.times),
        "captures": list(map(capture_of, report.captures)),
        "breaks": list(map(break_of, report.breaks)),
        "recompiles": [
            pick(one, "function where", changes=pick_each(one.changes, "guard what old new line"))
            for one in report.misses
        ],
        # the name that iterations had in the first version of the schema, which keeps its fields
        "turns": pick_each(report.iterations, "function where what line times"),
        "skipped": pick_each(report.skipped, "function where reason"),
        "specialised": [
            pick(one, "function source number backend operator", line=one.where)
            for one in report.specialised
        ],
        "stored": pick_each(report.stored, "function where taken text"),
        "sources": [
            pick(part, "file", lines=pick_each(part.lines, "number text captures breaks"))
            for part in report.sources
        ],
        "timeline": [
            pick(one, "row phase start end depth", capture=one.number) for one in report.timeline
        ],
    }


def pick(one: Any, names: str, **more: Any) -> dict[str, Any]:
    """The attributes of an object under their own names, and what is called otherwise."""
    found = {name: getattr(one, name) for name in names.split()}
    return {
        name: list(value) if isinstance(value, tuple | frozenset) else value
        for name, value in found.items()
    } | more


def pick_each(several: Iterable[Any], names: str) -> list[dict[str, Any]]:
    return [pick(one, names) for one in several]


def summary_of(report: ReportData) -> dict[str, Any]:
    return {
        "frames_seen": report.seen,
        "captures": len(report.captures),
        "graphs": len(report.graphs),
        "ops": report.ops,
        "breaks": len(report.breaks),
        "recompiles": len(report.misses),
        "skipped": len(report.skipped),
        "lost_seconds": report.lost_seconds,
    }


def time_of(times: Times) -> dict[str, Any]:
    return {
        "wall_seconds": times.wall,
        "compiling": dict(times.compiling),
        "graphs_seconds": times.graphs,
        "python_seconds": times.python,
        "measuring_seconds": times.measuring,
        "shares": times.shares,
    }


def capture_of(one: CaptureReport) -> dict[str, Any]:
    return pick(
        one,
        "number function where ops runs run_seconds graph backend notes check_seconds",
        seconds=dict(one.seconds),
        inputs=pick_each(one.inputs, "source dtype sizes device"),
        nodes=pick_each(one.nodes, "name kind target inputs type line"),
        choices=list(map(choice_of, one.choices)),
        kernels=list(map(kernels_of, one.kernels)),
        cuda_graphs=pick_each(one.recordings, "recorded text"),
        wrong=pick_each(one.wrong, "backend reason script"),
        guards=pick_each(one.checks, "text line seconds watched"),
    )


def choice_of(one: Chosen) -> dict[str, Any]:
    return pick(
        one,
        "backend why seconds",
        timings=[{"backend": name, "seconds": seconds} for name, seconds in one.timings],
        struck=[{"backend": name, "reason": reason} for name, reason in one.struck],
    )


def kernels_of(one: Kernels) -> dict[str, Any]:
    return pick(
        one,
        "part host",
        kernels=pick_each(one.kernels, "name language ops text"),
        called=[{"operator": name, "times": times} for name, times in one.called],
        apart=[
            {"first": first, "second": second, "reason": reason}
            for first, second, reason in one.apart
        ],
    )


def break_of(one: BreakReport) -> dict[str, Any]:
    return pick(
        one,
        "id function where place source caret chain reason hint page times ops_lost passes",
        lost_seconds=one.lost,
        statement_seconds=one.work,
        lost_seconds_in_all=None if one.lost is None else one.lost_in_all,
    )
