"""Files written in the background."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from framejit.frontend.runtime.stored.entry_writer import EntryWriter, entry_writer

A, B = Path("a"), Path("b")


def test_a_call_does_not_wait_and_a_reader_does():
    writer, may_write, done = EntryWriter(), threading.Event(), []
    writer.write(A, lambda: (may_write.wait(60), done.append(1)))
    writer.wait_for(B)
    assert done == []
    may_write.set()
    writer.wait_for(A)
    assert done == [1]


def test_files_are_written_in_order():
    writer, done = EntryWriter(), []
    for number in range(20):
        writer.write(A, lambda number=number: done.append(number))
    writer.wait_for(A)
    assert done == [*range(20)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_thread_of_its_own(tmp_path):
    entry_writer.write(tmp_path / "a", lambda: None)
    entry_writer.wait_for(tmp_path / "a")
    child = os.fork()
    if not child:
        path = tmp_path / "b"
        entry_writer.write(path, lambda: path.write_text("written"))
        entry_writer.wait_for(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "b").read_text() == "written"
