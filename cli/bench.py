"""Measure framejit beside eager and torch.compile; a markdown table and, with --out, plots."""

from __future__ import annotations

from ..benchmarks.command import arguments, run

__all__ = ["arguments", "run"]
