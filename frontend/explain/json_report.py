"""A report as JSON. The schema is report.schema.json; docs/explain.md documents it."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from ...events import Chosen, Kernels, Miss
from .report_data import BreakReport, CaptureReport, ReportData, Times

SCHEMA = "framejit.explain/1"


def as_json(report: ReportData) -> str:
    return json.dumps(as_dict(report), indent=2, ensure_ascii=False, allow_nan=False)


def as_dict(report: ReportData) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
        "title": report.title,
        "summary": {
            "frames_seen": report.seen,
            "captures": len(report.captures),
            "graphs": len(report.graphs),
            "ops": report.ops,
            "breaks": len(report.breaks),
            "recompiles": len(report.misses),
            "skipped": len(report.skipped),
            "lost_seconds": report.lost_seconds,
        },
        "time": time_of(report.times),
        "captures": list(map(capture_of, report.captures)),
        "breaks": list(map(break_of, report.breaks)),
        "recompiles": list(map(recompile_of, report.misses)),
        # the name that iterations had in the first version of the schema, which keeps its fields
        "turns": [
            {
                "function": one.function,
                "where": one.where,
                "what": one.what,
                "line": one.line,
                "times": one.times,
            }
            for one in report.iterations
        ],
        "skipped": [
            {"function": one.function, "where": one.where, "reason": one.reason}
            for one in report.skipped
        ],
        "specialised": [
            {
                "function": one.function,
                "source": one.source,
                "number": one.number,
                "line": one.where,
                "backend": one.backend,
                "operator": one.operator,
            }
            for one in report.specialised
        ],
        "sources": [
            {
                "file": part.file,
                "lines": [
                    {
                        "number": line.number,
                        "text": line.text,
                        "captures": list(line.captures),
                        "breaks": list(line.breaks),
                    }
                    for line in part.lines
                ],
            }
            for part in report.sources
        ],
        "timeline": [
            {
                "row": one.row,
                "phase": one.phase,
                "capture": one.number,
                "start": one.start,
                "end": one.end,
                "depth": one.depth,
            }
            for one in report.timeline
        ],
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
    return {
        "number": one.number,
        "function": one.function,
        "where": one.where,
        "ops": one.ops,
        "seconds": dict(one.seconds),
        "runs": one.runs,
        "run_seconds": one.run_seconds,
        "inputs": [
            {
                "source": item.source,
                "dtype": item.dtype,
                "sizes": list(item.sizes),
                "device": item.device,
            }
            for item in one.inputs
        ],
        "graph": one.graph,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "target": node.target,
                "inputs": list(node.inputs),
                "type": node.type,
                "line": node.line,
            }
            for node in one.nodes
        ],
        "backend": one.backend,
        "choices": list(map(choice_of, one.choices)),
        "kernels": list(map(kernels_of, one.kernels)),
        "cuda_graphs": [{"recorded": item.recorded, "text": item.text} for item in one.recordings],
        "wrong": [
            {"backend": item.backend, "reason": item.reason, "script": item.script}
            for item in one.wrong
        ],
        "notes": list(one.notes),
        "guards": [
            {
                "text": check.text,
                "line": check.line,
                "seconds": check.seconds,
                "watched": check.watched,
            }
            for check in one.checks
        ],
        "check_seconds": one.check_seconds,
    }


def choice_of(one: Chosen) -> dict[str, Any]:
    return {
        "backend": one.backend,
        "why": one.why,
        "timings": [{"backend": name, "seconds": seconds} for name, seconds in one.timings],
        "struck": [{"backend": name, "reason": reason} for name, reason in one.struck],
        "seconds": one.seconds,
    }


def kernels_of(one: Kernels) -> dict[str, Any]:
    return {
        "part": one.part,
        "kernels": [
            {"name": k.name, "language": k.language, "ops": list(k.ops), "text": k.text}
            for k in one.kernels
        ],
        "called": [{"operator": name, "times": times} for name, times in one.called],
        "apart": [
            {"first": first, "second": second, "reason": reason}
            for first, second, reason in one.apart
        ],
        "host": one.host,
    }


def break_of(one: BreakReport) -> dict[str, Any]:
    return {
        "id": one.id,
        "function": one.function,
        "where": one.where,
        "place": one.place,
        "source": one.source,
        "caret": one.caret,
        "chain": list(one.chain),
        "reason": one.reason,
        "hint": one.hint,
        "page": one.page,
        "times": one.times,
        "ops_lost": one.ops_lost,
        "passes": one.passes,
        "lost_seconds": one.lost,
        "statement_seconds": one.work,
        "lost_seconds_in_all": None if one.lost is None else one.lost_in_all,
    }


def recompile_of(one: Miss) -> dict[str, Any]:
    return {
        "function": one.function,
        "where": one.where,
        "changes": [
            {
                "guard": change.guard,
                "what": change.what,
                "old": change.old,
                "new": change.new,
                "line": change.line,
            }
            for change in one.changes
        ],
    }
