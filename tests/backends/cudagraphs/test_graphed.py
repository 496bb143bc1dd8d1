"""When work is recorded, recorded again, or not at all: the policy alone, with a fake recording."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import framejit
import pytest
import torch
from framejit.backends.cudagraphs import graphed as module
from framejit.backends.cudagraphs.graphed import GraphedCallable, RecordingRequest
from framejit.backends.cudagraphs.recording import Recording
from framejit.backends.cudagraphs.result_copies import Unrecordable
from framejit.events import Reporter
from torch import nn


class FakePool:
    def __init__(self, device, stream, *, shared):
        self.shared, self.bytes, self.usable = shared, 0, True


class Recorded(Recording):
    """Keeps what a recording keeps for checking inputs, and counts."""

    made: list[Recorded] = []
    refuse = ""

    def __init__(self, work, args, copied, pool, originals):
        self.pool, self.bytes = pool, 0
        if Recorded.refuse:
            raise Unrecordable(Recorded.refuse)
        self.run, self.originals = work.run, originals
        self.static = tuple(index for index in range(len(args)) if index not in copied)
        self.copied = tuple(sorted(copied))
        self.addresses = self.static_addresses(args)
        self.back = tuple((index, args[index]) for index in self.copied if index in work.written)
        self.back_addresses, self.calls_in_place = [], 0
        self.replays, self.in_use = 0, False
        self.out = SimpleNamespace(in_use=lambda: self.in_use, saved=[], hidden=[], template=[])
        Recorded.made.append(self)

    def replay(self, args):
        self.replays += 1
        return self.run(*args)


@pytest.fixture(autouse=True)
def no_device(monkeypatch):
    """Everything that asks the device answers as one with a single stream would."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(module, "Recording", Recorded)
    shared = FakePool(0, 0, shared=True)
    pools = SimpleNamespace(
        Pool=FakePool,
        shared_pool=lambda *place: shared,
        side_stream=lambda *place: stream,
        is_full=lambda device: False,
    )
    monkeypatch.setattr(module, "pool", pools)
    monkeypatch.setattr(GraphedCallable, "stream", lambda self: 0)
    for name, answer in (("is_current_stream_capturing", lambda: False), ("current_stream", lambda device: stream),
                         ("stream", contextlib.nullcontext), ("device", contextlib.nullcontext)):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, answer)
    every_thread, before = (
        threading.enumerate,
        threading.enumerate(),
    )  # a pool that another test left, say
    monkeypatch.setattr(
        threading,
        "enumerate",
        lambda: [thread for thread in every_thread() if thread not in before],
    )
    monkeypatch.setattr(Recorded, "made", [])
    monkeypatch.setattr(Recorded, "refuse", "")


def graphed(**more):
    said, runs = [], []

    def run(*args):
        runs.append(1)
        return [args[0] + 1]

    return GraphedCallable(
        RecordingRequest(run, 0, **more), Reporter("f", "", lambda event: said.append(event.text))
    ), said


def test_the_second_call_records_and_the_third_replays():
    work, said = graphed()
    x, weight = torch.ones(3), nn.Parameter(torch.ones(3))
    for _ in range(4):
        work(x, weight)
    (made,) = Recorded.made
    assert (
        made.static == (0, 1)
        and made.replays == 3
        and said == ["CUDA graphs: recorded, 2 inputs read in place, 0 copied in"]
    )


def test_what_moved_is_copied_in_but_parameters_are_not():
    work, _ = graphed()
    kept, buffer = [], torch.ones(3)
    for _ in range(5):
        kept.append((torch.ones(3), nn.Parameter(torch.ones(3))))
        work(kept[-1][0], buffer, kept[-1][1])
    assert [made.copied for made in Recorded.made] == [(0,)] * 4 and work.remade == 3
    work(torch.ones(3), torch.ones(3), kept[-1][1])
    assert Recorded.made[-1].copied == (0, 1)
    work(torch.ones(3), torch.ones(3), kept[-1][1])
    assert Recorded.made[-1].replays == 2


def test_what_is_written_is_read_in_place_once_it_stays_there():
    work, said = graphed(written=frozenset({1}))
    x, kept = torch.ones(3), [torch.ones(3) for _ in range(3)]
    for written in kept[:2]:  # as the autotuner tries candidates: on copies
        work(x, written)
    assert [made.copied for made in Recorded.made] == [(1,)]
    for _ in range(module.CALLS_IN_PLACE):
        work(x, kept[2])
    assert [made.copied for made in Recorded.made] == [(1,), ()] and work.remade == 0
    assert len(said) == 2 and "2 inputs read in place, 0 copied in" in said[-1]
    for _ in range(3):
        work(x, kept[2])
    assert Recorded.made[-1].replays == 4

    work(x, kept[0])  # it moves after all: copied again, and for longer
    assert [made.copied for made in Recorded.made] == [(1,), (), (1,)]
    for _ in range(2 * module.CALLS_IN_PLACE - 1):
        work(x, kept[0])
    assert len(Recorded.made) == 3
    work(x, kept[0])
    assert Recorded.made[-1].copied == () and len(Recorded.made) == 4


def test_what_is_written_and_moves_stays_copied():
    work, _ = graphed(written=frozenset({0}))
    kept = []
    for _ in range(3 * module.CALLS_IN_PLACE):
        kept.append(torch.ones(3))
        work(kept[-1])
    assert [made.copied for made in Recorded.made] == [(0,)]


def test_a_forward_graph_recorded_again_does_not_count_as_moves():
    forward, _ = graphed()
    backward, _ = graphed(forward=forward)
    x = torch.ones(3)
    for _ in range(module.MOST_REMADE + 3):
        forward.states.clear()
        forward(x)
        forward(x)
        made, saved = Recorded.made[-1], torch.ones(4)
        made.in_use, made.out.saved, made.out.template = True, [0], [saved]
        backward(saved, x)
        backward(saved, x)
        made.in_use = False
    assert backward.remade == 0 and not backward.off


def test_parameters_that_keep_moving_end_it():
    work, said = graphed()
    kept = [nn.Parameter(torch.ones(3)) for _ in range(module.MOST_REMADE + 5)]
    for weight in kept:
        work(weight)
    assert (
        len(Recorded.made) == module.MOST_REMADE + 1
        and "keep moving" in said[-1]
        and work.states == {}
    )


def test_saved_results_in_use_are_not_overwritten():
    work, _ = graphed()
    x = torch.ones(3)
    for _ in range(3):
        work(x)
    (made,) = Recorded.made
    made.in_use = True
    work(x)
    assert made.replays == 2
    made.in_use = False
    work(x)
    assert made.replays == 3 and len(Recorded.made) == 1


def test_a_backward_pass_is_recorded_after_a_forward_pass_that_was():
    forward, _ = graphed()
    backward, _ = graphed(forward=forward)
    x = torch.ones(3)
    forward(x)
    backward(x, x)
    backward(x, x)
    assert len(Recorded.made) == 0  # the forward pass ran as it is
    forward(x)
    (made,) = Recorded.made
    saved = torch.ones(4)
    made.in_use, made.out.saved, made.out.template = True, [0], [saved]
    backward(saved, x)
    assert len(Recorded.made) == 2
    made.in_use = False
    other = torch.ones(4)
    backward(other, x)  # of a forward pass that ran as it is: neither replayed nor recorded again
    assert len(Recorded.made) == 2 and Recorded.made[1].replays == 1


def test_a_forward_pass_that_saves_results_shares_a_pool_with_its_backward_pass_only():
    forward, _ = graphed(saved=frozenset({0}))
    backward, _ = graphed(forward=forward)
    other, inference = graphed(saved=frozenset({0}))[0], graphed()[0]
    x, saved = torch.ones(3), torch.ones(4)
    for work in (forward, other, inference):
        work(x)
        work(x)
    first, second, third = Recorded.made
    assert not first.pool.shared and not second.pool.shared and third.pool.shared
    assert first.pool is not second.pool
    first.in_use, first.out.saved, first.out.template = True, [0], [saved]
    backward(saved, x)
    backward(saved, x)
    assert Recorded.made[-1].pool is first.pool
    first.in_use = False
    moved = torch.ones(3)
    forward(moved)
    assert len(Recorded.made) == 5 and Recorded.made[-1].pool is first.pool  # recorded again


def test_a_failure_ends_it_and_is_an_error_where_graphs_are_required():
    work, said = graphed()
    Recorded.refuse = "operation not permitted"
    for _ in range(3):
        assert torch.equal(work(torch.ones(3))[0], torch.full((3,), 2.0))
    assert said == ["CUDA graphs: not recorded: operation not permitted"]
    work.require, work.off = True, ""
    work(torch.ones(3))
    with pytest.raises(framejit.RequirementError, match="operation not permitted"):
        work(torch.ones(3))


def test_a_warm_up_that_fails_has_ended_before_anything_is_restored(monkeypatch):
    def fail(*args):
        raise ValueError

    waits = []
    here, side = (
        SimpleNamespace(wait_stream=lambda other, name=name: waits.append(name))
        for name in ("here", "side")
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: here)
    monkeypatch.setattr(module.pool, "side_stream", lambda *place: side)
    with pytest.raises(ValueError):
        GraphedCallable(RecordingRequest(fail, 0), Reporter("f", "", print))(torch.ones(3))
    assert waits == ["side", "here"]


def test_a_size_is_recorded_once_it_has_recurred():
    work, _ = graphed(varying=(0,))
    weight = nn.Parameter(torch.ones(3))
    inputs = [torch.ones(size) for size in range(1, 20)]
    for made in (0, 0, len(inputs), len(inputs)):
        for x in inputs:
            work(x, weight)
        assert len(Recorded.made) == made
    assert all(recording.replays == 2 for recording in Recorded.made)


def test_sizes_that_do_not_recur_are_not_recorded():
    work, said = graphed(varying=(0,))
    for size in range(module.MOST_COUNTED + 2):
        work(torch.ones(size))
    assert Recorded.made == [] and said == [] and len(work.seen) < 4


def test_the_number_of_recordings_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_SHAPES", 3)
    work, said = graphed(varying=(0,))
    inputs = [torch.ones(size) for size in range(1, 7)]
    for _ in range(4):
        for x in inputs:
            work(x)
    assert len(Recorded.made) == 3 and any("no room for more" in text for text in said)


def test_other_threads_postpone_it():
    work, said = graphed()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    x = torch.ones(3)
    for _ in range(3):
        work(x)
    assert Recorded.made == [] and len(said) == 1 and "recorded later" in said[0]
    done.set()
    thread.join()
    work(x)
    assert len(Recorded.made) == 1
