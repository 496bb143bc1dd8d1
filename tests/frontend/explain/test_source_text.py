"""Places in files: carets under what is meant, and which lines a report shows."""

from __future__ import annotations

import linecache
import os

import framejit
import torch
from framejit.frontend.explain.source_text import (
    caret,
    is_users,
    source_line,
    source_parts,
    windows,
)


def calls(x):
    y = x + 1
    ähm = "äöü", print("ü"), y
    # fmt: off
    (print(
        "two lines"
    ))
    # fmt: on
    return ähm[2]


def underlined(one):
    return one.source[one.caret.index("^") : len(one.caret)]


def test_carets_stand_under_what_broke():
    report = framejit.explain(calls)(torch.ones(3))
    first, second = report.breaks
    assert underlined(first) == 'print("ü")' and first.source.startswith("ähm")
    assert underlined(second) == "print("


def test_places_that_cannot_be_read():
    assert source_line("<string>:3") == "" and source_line("?") == ""
    assert (
        caret("<string>:3", (3, 3, 0, 4)) == ""
        and caret(f"{__file__}:1", (None, None, None, None)) == ""
    )


def test_parts_show_lines_with_some_around_them(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("\n".join(f"line {n}" for n in range(1, 101)))
    linecache.checkcache()
    found = source_parts(
        [(f"{path}:10", 1), (f"{path}:14", 2), (f"{path}:50", 1)],
        [(f"{path}:11", 0), ("<string>:3", 1)],
    )
    assert [(part.file, part.lines[0].number, part.lines[-1].number) for part in found] == [
        (str(path), 6, 18),
        (str(path), 46, 54),
    ]
    by_number = {line.number: line for part in found for line in part.lines}
    assert (
        by_number[10].captures == (1,)
        and by_number[14].captures == (2,)
        and by_number[11].breaks == (0,)
    )
    assert by_number[12].text == "line 12" and not by_number[12].captures
    assert windows([1, 2, 300], 100) == [(1, 6)]


def test_what_is_the_users():
    assert (
        is_users(f"{__file__}:1")
        and not is_users(f"{os.__file__}:1")
        and not is_users(f"{torch.__file__}:1")
    )
