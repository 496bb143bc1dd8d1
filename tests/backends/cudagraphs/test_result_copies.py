"""Subgraphs that are recorded one by one read each other's results in place. A tape of operators
stands for CUDA graphs here: it replays them on the same memory."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import framejit
import pytest
import torch
from framejit.backends.autograd.graph_parts import compile_forward_and_backward
from framejit.backends.cudagraphs import graphed, parts, recording
from framejit.backends.cudagraphs.graphed import GraphedCallable
from framejit.backends.cudagraphs.parts import GraphRecorder
from framejit.backends.cudagraphs.pool import without_ownership
from framejit.backends.cudagraphs.recording import Recording
from framejit.backends.cudagraphs.result_copies import ResultCopies
from framejit.backends.graph.passed_values import PassedValues
from framejit.events import UNREPORTED
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from .shown_layers import ShownLayers


class Tape(TorchDispatchMode):
    """Keeps what the operators make, but no inputs: a CUDA graph only knows their addresses."""

    def __init__(self):
        super().__init__()
        self.calls, self.made = [], set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        with _disable_current_modes():
            args, kwargs = tree_map_only(torch.Tensor, self.without_inputs, (args, kwargs or {}))
        self.made |= {item.data_ptr() for item in tensors_in(out)}
        if "empty" not in function.name():  # an allocation leaves the memory as it is
            self.calls.append((function, args, kwargs, out))
        return out

    def without_inputs(self, tensor):
        return tensor if tensor.data_ptr() in self.made else without_ownership(tensor)

    def replay(self):
        for function, args, kwargs, out in self.calls:
            now = function(*args, **kwargs)
            for old, new in zip(tensors_in(out), tensors_in(now), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def tensors_in(results):
    return [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]


class CountedCopies(ResultCopies):
    replays, copies = 0, 0

    def __call__(self, args):
        CountedCopies.replays += 1
        CountedCopies.copies += len(self.alone) + sum(len(members) for _, members in self.groups)
        return super().__call__(args)


@pytest.fixture(autouse=True)
def tapes(monkeypatch):
    """Recordings are tapes; everything that asks the device answers as one stream would."""

    def record(run, pool, device):
        with Tape() as tape:
            results = run()
        return tape, results

    stream = SimpleNamespace(wait_stream=lambda other: None)
    pools = SimpleNamespace(
        Pool=lambda device, stream, shared: SimpleNamespace(
            shared=shared, bytes=0, usable=True, lock=contextlib.nullcontext()
        ),
        side_stream=lambda *place: stream,
        is_full=lambda device: False,
    )
    pools.shared_pool = lambda *place: pools.Pool(0, 0, shared=False)
    monkeypatch.setattr(graphed, "pool", pools)
    monkeypatch.setattr(GraphedCallable, "stream", lambda self: 0)
    monkeypatch.setattr(recording, "record_work", record)
    monkeypatch.setattr(recording, "ResultCopies", CountedCopies)
    monkeypatch.setattr(parts, "check_recordable", lambda *given: True)
    monkeypatch.setattr(graphed, "has_other_threads", lambda: False)
    monkeypatch.setattr(CountedCopies, "replays", 0)
    monkeypatch.setattr(CountedCopies, "copies", 0)
    for name, answer in (
        ("is_current_stream_capturing", lambda: False),
        ("current_stream", lambda device: stream),
        ("stream", contextlib.nullcontext),
        ("device", contextlib.nullcontext),
        ("memory_reserved", lambda device: 0),
    ):
        monkeypatch.setattr(torch.cuda, name, answer)


def recorded(gm, example_inputs):
    around = GraphRecorder(UNREPORTED, False)
    return compile_forward_and_backward(
        gm,
        example_inputs,
        lambda part: around(part, part.module().forward),
        random_like_eager=True,
        keep_writes=True,
    )


def compiled_and_eager():
    torch.manual_seed(0)
    ours, theirs = ShownLayers(3, 4), ShownLayers(3, 4)
    theirs.load_state_dict(ours.state_dict())
    return framejit.compile(ours, backend=recorded), ours, theirs


def check_gradients(ours, theirs):
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


def test_training_is_eagers_and_copies_little():
    compiled, ours, theirs = compiled_and_eager()
    for _ in range(6):
        x = torch.randn(2, 4)
        for one in (ours, theirs):
            one.zero_grad()
        before = CountedCopies.replays, CountedCopies.copies
        loss, shown = compiled(x)
        wanted, also = theirs(x)
        loss.backward()
        wanted.backward()
        torch.testing.assert_close((loss, shown), (wanted, also))
        check_gradients(ours, theirs)
    replays, copies = CountedCopies.replays - before[0], CountedCopies.copies - before[1]
    assert replays == 8  # of four subgraphs, forward and backward
    assert copies == 1 + 3 + 6  # the loss, what is shown, and the gradients of weights and biases


def test_gradients_that_the_program_keeps_stay():
    compiled, ours, theirs = compiled_and_eager()
    kept = []
    for step in range(6):
        x = torch.randn(2, 4)
        for one, call in ((ours, compiled), (theirs, theirs)):
            one.zero_grad()
            loss, shown = call(x)
            shown[1].register_hook(kept.append)
            (loss + shown[0].sum()).backward(retain_graph=step == 3)
            if step == 3:
                loss.backward()
        check_gradients(ours, theirs)
    count = len(kept) // 2
    assert count == 7
    pairs = [kept[0:2], kept[2:4], kept[4:6], (kept[6], kept[8]), (kept[7], kept[9]), kept[10:12]]
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted)


def test_two_forward_passes_before_their_backward_passes():
    compiled, ours, theirs = compiled_and_eager()
    for step in range(8):
        x, y = torch.randn(2, 4), torch.randn(2, 4)
        for one, call in ((ours, compiled), (theirs, theirs)):
            one.zero_grad()
            first = call(x)[0]
            second = call(y)[0] if step % 2 else first * 2
            (first + second).backward()
        check_gradients(ours, theirs)
    assert CountedCopies.replays > 20


def test_a_written_copy_does_not_stand_for_its_original():
    results = [torch.ones(3), torch.ones(2)]
    out = ResultCopies(results, [], (), PassedValues(results=frozenset({0})))
    out.watch_results()
    copy = out([])[0]
    (original,) = out.originals_of(copy)
    assert original.memory.data_ptr() == results[0].data_ptr()
    assert original.address_for(copy) == results[0].data_ptr()
    later = out([])[0]
    assert not out.originals_of(copy) and out.originals_of(later)
    later.add_(1)
    assert not out.originals_of(later)
    assert original.address_for(later) == later.data_ptr()
    assert not out.originals_of(out([])[0].view(3, 1))


def test_hidden_results_are_in_use_as_long_as_a_view_of_them_lives():
    out = ResultCopies(
        [torch.ones(4), torch.ones(2)], [], (1,), PassedValues(hidden=frozenset({0}))
    )
    out.watch_results()
    assert not out.in_use()
    hidden, saved = out([])
    assert hidden.data_ptr() == out.template[0].data_ptr()
    view = hidden.view(2, 2)
    del saved, hidden
    assert out.in_use()
    del view
    assert not out.in_use()
    saved = out([])[1]
    assert out.in_use() and torch.equal(saved, torch.ones(2))
    del saved
    assert not out.in_use()


def test_what_reads_a_hidden_result_runs_unrecorded_where_its_maker_did():
    compiled, ours, theirs = compiled_and_eager()
    made = []
    real = Recording.__init__

    def note(self, *args, **kwargs):
        real(self, *args, **kwargs)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recording, "__init__", note)
        for _ in range(4):
            compiled(torch.randn(2, 4))[0].backward()
        before = len(made)
        for _ in range(6):
            held = compiled(torch.randn(2, 4))  # in use: the next pass cannot be replayed
            compiled(torch.randn(2, 4))[0].backward()
            held[0].backward()
        assert len(made) == before
        assert any(one.fed for one in made)
