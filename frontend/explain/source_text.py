"""Source text: the line at file:line, the part of it that an event is about, and the excerpts that
a report shows."""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterable

import torch

from ...events import Position
from ...records import record

AROUND = 4  # lines shown before and after those that matter
MOST_LINES = 3000  # in one report


@record
class SourceLine:
    """A line of a file: the numbers of the captures whose graphs have operations of it, and the
    positions of the breaks there."""

    number: int
    text: str
    captures: tuple[int, ...]
    breaks: tuple[int, ...]


@record
class SourcePart:
    """Neighbouring lines of a file."""

    file: str
    lines: tuple[SourceLine, ...]


LIBRARY_FOLDERS = tuple(
    {
        os.path.join(sysconfig.get_path(name), "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def is_users(where: str) -> bool:
    """Whether a place is in the user's code, not in a library's."""
    return not where.startswith(LIBRARY_FOLDERS) and not where.startswith("<")


def rank(file: str) -> int:
    """The order of a file in listings: the user's first, then libraries', then torch's."""
    return 2 if file.startswith(TORCH) else 0 if is_users(file) else 1


def split_place(where: str) -> tuple[str, int]:
    """File and line of "file:line"; line 0 where there is none."""
    name, _, line = where.rpartition(":")
    return (name, int(line)) if line.isdigit() else (where, 0)


def source_line(where: str) -> str:
    """The text at file:line, without its indentation."""
    name, line = split_place(where)
    return linecache.getline(name, line).strip() if line else ""


def caret(where: str, position: Position) -> str:
    """Spaces and carets that mark, under `source_line(where)`, the part of the line that is meant;
    "" if it is not known."""
    name, number = split_place(where)
    line, last_line, column, last_column = position
    text = linecache.getline(name, number).rstrip()
    if not text or line != number or column is None or last_column is None:
        return ""
    start = len(text.encode()[:column].decode(errors="replace"))  # columns count bytes
    end = (
        len(text.encode()[:last_column].decode(errors="replace"))
        if last_line == line
        else len(text)
    )
    indented = len(text) - len(text.lstrip())
    return " " * (start - indented) + "^" * max(1, end - start) if start >= indented else ""


def source_parts(
    captured: Iterable[tuple[str, int]], broken: Iterable[tuple[str, int]]
) -> tuple[SourcePart, ...]:
    """The parts of files around these places: file:line and the number of a capture, or the
    position of a break."""
    found: dict[str, dict[int, tuple[set[int], set[int]]]] = {}
    for which, places in enumerate((captured, broken)):
        for where, number in places:
            name, line = split_place(where)
            if line:
                found.setdefault(name, {}).setdefault(line, (set(), set()))[which].add(number)
    made: list[SourcePart] = []
    room = MOST_LINES
    for name, marked in sorted(found.items(), key=lambda pair: rank(pair[0])):
        length = len(linecache.getlines(name))
        for first, last in windows(sorted(marked), length):
            if room <= 0:
                return tuple(made)
            lines = tuple(
                line_of(name, number, marked)
                for number in range(first, min(last, first + room) + 1)
            )
            room -= len(lines)
            made.append(SourcePart(name, lines))
    return tuple(made)


def line_of(name: str, number: int, marked: dict[int, tuple[set[int], set[int]]]) -> SourceLine:
    captures, breaks = marked.get(number, (set(), set()))
    return SourceLine(
        number,
        linecache.getline(name, number).rstrip("\n"),
        tuple(sorted(captures)),
        tuple(sorted(breaks)),
    )


def windows(numbers: list[int], length: int) -> list[tuple[int, int]]:
    """First and last line of each part that shows these lines with some around them."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if number > length:
            continue
        first, last = max(1, number - AROUND), min(length, number + AROUND)
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def relative_place(where: str) -> str:
    """file:line relative to the current folder, if it is inside."""
    return where.removeprefix(os.getcwd() + os.sep)
