"""The clock of phases: what is inside another phase is not counted twice."""

from __future__ import annotations

import threading
import time

from framejit.clock import Clock


class Turns:
    """Time that goes on by one second a look."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", self.look)

    def look(self):
        self.now += 1.0
        return self.now


def test_phases_add_up(monkeypatch):
    Turns(monkeypatch)
    clock = Clock()
    with clock.phase("backend"):  # 1 .. 6
        with clock.phase("lowering"):  # 2 .. 5
            with clock.phase("c_compile"):  # 3 .. 4
                pass
    assert clock.seconds == {"c_compile": 1, "lowering": 2, "backend": 2}
    assert [(span.phase, span.start, span.end, span.depth) for span in clock.spans] == [
        ("c_compile", 3, 4, 2), ("lowering", 2, 5, 1), ("backend", 1, 6, 0),
    ]  # fmt: skip


def test_a_phase_that_is_not_shown_is_counted(monkeypatch):
    Turns(monkeypatch)
    clock = Clock()
    with clock.phase("trace"):  # 1 .. 6
        with clock.phase("fake_tensors", shown=False):  # 2 .. 5
            with clock.phase("imports"):  # 3 .. 4
                pass
    assert clock.seconds == {"imports": 1, "fake_tensors": 2, "trace": 2}
    assert [span.phase for span in clock.spans] == ["imports", "trace"]


def test_an_exception_ends_a_phase():
    clock = Clock()
    try:
        with clock.phase("backend"), clock.phase("lowering"):
            raise ValueError
    except ValueError:
        pass
    assert set(clock.seconds) == {"backend", "lowering"} and clock.stack == []


def test_threads_do_not_nest_in_each_other():
    clock = Clock()
    with clock.phase("backend"):
        thread = threading.Thread(target=lambda: clock.phase("tuning").__enter__())
        thread.start()
        thread.join()
        assert len(clock.stack) == 1


def test_late_phases_are_sent_separately(monkeypatch):
    Turns(monkeypatch)
    told = []
    clock = Clock(lambda phase, seconds: told.append((phase, seconds)))
    with clock.phase("trace"):
        pass
    clock.over = True
    with clock.phase("lowering"), clock.phase("c_compile"):
        pass
    assert clock.seconds == {"trace": 1} and told == [("lowering", 3)]
