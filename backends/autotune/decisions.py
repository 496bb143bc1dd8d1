"""Decisions on disk: which backend was the fastest for a graph, in an SQLite file that any number
of processes share.

The first decision that is written for a key stands; who comes second takes it over. A connection
lives for one question.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import warn_once

FILE = "decisions.sqlite"
PATIENCE_S = 20.0  # for another process's lock
COLUMNS = "key, graph, shapes, device, versions, mode, chosen, timings, struck, seconds, made"
TABLE = (
    f"CREATE TABLE IF NOT EXISTS decisions ({COLUMNS.replace('key', 'key TEXT PRIMARY KEY', 1)})"
)


@dataclass(frozen=True)
class Decision:
    """What was chosen for a graph, and what speaks for it."""

    key: str
    graph: str  # its hash
    shapes: str
    device: str
    versions: str
    mode: str
    chosen: str
    timings: tuple[tuple[str, float], ...]  # seconds a call, the fastest first
    struck: tuple[tuple[str, str], ...]  # candidates that are out, and why
    seconds: float  # that the choice took
    made: float = 0.0  # seconds since 1970


class Decisions:
    """The file in one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(TABLE)
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    def find(self, key: str) -> Decision | None:
        """The decision of a key, None if there is none or the file cannot be read."""
        if not self.path.exists():
            return None
        try:
            with self._open() as connection:
                row = connection.execute(
                    f"SELECT {COLUMNS} FROM decisions WHERE key = ?", (key,)
                ).fetchone()
        except (sqlite3.Error, OSError) as error:
            warn_about_file(self.path, error)
            return None
        return None if row is None else from_row(row)

    def keep(self, decision: Decision) -> Decision:
        """Writes a decision unless there is one; returns the one that stands."""
        row = (*to_row(decision)[:-1], time.time())
        try:
            with self._open() as connection:
                connection.execute(
                    f"INSERT OR IGNORE INTO decisions ({COLUMNS}) VALUES "
                    f"({', '.join('?' * len(row))})",
                    row,
                )
                stands = connection.execute(
                    f"SELECT {COLUMNS} FROM decisions WHERE key = ?", (decision.key,)
                ).fetchone()
        except (sqlite3.Error, OSError) as error:
            warn_about_file(self.path, error)
            return decision
        return from_row(stands)

    def drop(self, key: str) -> None:
        """Forgets one decision, which turned out not to hold."""
        try:
            with self._open() as connection:
                connection.execute("DELETE FROM decisions WHERE key = ?", (key,))
        except (sqlite3.Error, OSError) as error:
            warn_about_file(self.path, error)

    def all(self) -> list[Decision]:
        """Every decision, the latest first. Raises sqlite3.Error or OSError."""
        if not self.path.exists():
            return []
        with self._open() as connection:
            return [
                from_row(row)
                for row in connection.execute(f"SELECT {COLUMNS} FROM decisions ORDER BY made DESC")
            ]

    def clear(self) -> int:
        """Forgets all of them and says how many there were. Raises sqlite3.Error or OSError."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            return int(connection.execute("DELETE FROM decisions").rowcount)


def to_row(decision: Decision) -> tuple[str | float, ...]:
    d = decision
    timings, struck = json.dumps(d.timings), json.dumps(d.struck)
    return (
        d.key,
        d.graph,
        d.shapes,
        d.device,
        d.versions,
        d.mode,
        d.chosen,
        timings,
        struck,
        d.seconds,
        d.made,
    )


def from_row(row: tuple[object, ...]) -> Decision:
    key, graph, shapes, device, versions, mode, chosen, timings, struck, seconds, made = map(
        str, row
    )
    pairs = [tuple((name, value) for name, value in json.loads(text)) for text in (timings, struck)]
    return Decision(
        key,
        graph,
        shapes,
        device,
        versions,
        mode,
        chosen,
        pairs[0],
        pairs[1],
        float(seconds),
        float(made),
    )


def warn_about_file(path: Path, error: Exception) -> None:
    """Warns once a file that decisions have to be made again in each process."""
    text = f"decisions cannot be kept in {path}: {type(error).__name__}: {error}"
    warn_once(text, key=path, stacklevel=3)
