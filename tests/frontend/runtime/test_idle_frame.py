"""Frames without tensor work are captured ever more rarely."""

from __future__ import annotations

import framejit
import torch
from framejit.frontend.runtime.idle_frame import IDLE_RESTS, IdleFrame


def test_frames_without_tensor_work_are_captured_ever_more_rarely():
    frame = IdleFrame()
    captured = []
    for call in range(100):
        if frame.may_capture():
            captured.append(call)
            frame.found_nothing()
    assert captured == [0, 1, 2, 3, 7, 23, 87]


def test_a_frame_whose_breaks_lead_to_no_tensor_work_is_left_to_python():
    def describe(names):
        found = []
        for number, name in enumerate(names):
            print(end="")
            found.append(name * number)
            memo[name, number] = len(found)
        return found

    def f(x, names):
        return x + len(describe(names))

    memo = {}
    names = [f"name{number}" for number in range(60)]
    handle = framejit.compile(f, backend="eager")
    for _ in range(3):
        memo.clear()
        assert torch.equal(handle(torch.ones(2), names), torch.ones(2) + 60)
        assert len(memo) == 60
    assert handle.framejit.compiles <= IDLE_RESTS + 12
    assert str(handle.framejit.explain().details()).count("has no tensor operations") == 1


def test_a_frame_with_tensor_work_behind_many_breaks_is_compiled():
    def f(x, chatty):
        if chatty:
            for number in range(30):
                print(end="")
                chatty.append(number)
        return x.sin() + 1

    handle, x = framejit.compile(f, backend="eager"), torch.ones(2)
    for chatty in ([], [1], [1], []):
        assert torch.equal(handle(x, chatty), x.sin() + 1)
    assert any(capture.ops for capture in handle.framejit.explain().captures)


def test_a_rest_without_tensor_work_is_captured_twice_at_first():
    def f(x, mode):
        total = x.sum().item()
        if mode == 0:
            return total + 1
        if mode == 1:
            return total - 1
        if mode == 2:
            return total * 2
        return torch.full((2,), total) if mode > 9 else -total

    handle = framejit.compile(f, backend="eager")
    for mode in (0, 1, 2, 3, 4, 2, 2, 12, 11, 10, 2):
        got, expected = handle(torch.ones(2), mode), f(torch.ones(2), mode)
        assert repr(got) == repr(expected)
    assert handle.framejit.compiles <= 5, handle.framejit.explain()
