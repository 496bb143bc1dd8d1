"""Decisions on disk: the fastest backend of each graph, in an SQLite file that any number of
processes share.

The first decision for a key stands; later ones are dropped in its favour. A connection is opened
for each query.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import warn_once
from ...records import record

FILE = "decisions.sqlite"
PATIENCE_S = 20.0  # seconds to wait for another process's lock
COLUMNS = "key, graph, shapes, device, versions, mode, chosen, timings, struck, seconds, made"
TABLE = (
    f"CREATE TABLE IF NOT EXISTS decisions ({COLUMNS.replace('key', 'key TEXT PRIMARY KEY', 1)})"
)


@record
class Decision:
    """The choice for a graph, and its reasons."""

    key: str
    graph: str  # hash of the graph
    shapes: str
    device: str
    versions: str
    mode: str
    chosen: str
    timings: tuple[tuple[str, float], ...]  # seconds a call by candidate, the fastest first
    struck: tuple[tuple[str, str], ...]  # rejected candidates, with the reason
    seconds: float  # seconds that the choice took
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
        """Stores a decision unless the key has one. Returns the stored one."""
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
        """Deletes a decision that turned out to be wrong."""
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
    """A row of the table of decisions."""
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
    """The decision in a row of the table, which has pairs as JSON."""
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
    """Warns once that decisions cannot be stored, and are made again in each process."""
    text = f"decisions cannot be kept in {path}: {type(error).__name__}: {error}"
    warn_once(text, key=path, stacklevel=3)
