"""Entries on disk: which ones are stored, and what takes them up again. A second handle stands for
a second process; test_processes.py starts real ones."""

from __future__ import annotations

import gc

import framejit
import pytest
import torch
from framejit.events import Captured, Chosen, Stored
from framejit.options import config
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.rest = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5))

    def forward(self, x):
        return self.rest(self.norm(self.first(x)))


class Breaks(Net):
    def inner(self, x):
        y = x * 2
        print(end="")
        return y + 1

    def forward(self, x):
        y = self.first(x)
        for count in range(2):
            print(end="")
            y = y * (count + 1)
        return self.norm(self.inner(y)).sum()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(4, 6, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.cell(x.unsqueeze(0))[0]


def plain(x):
    return F.softmax(x * 2 + 1, -1).sum(0), x.relu()


def writes(x):
    x.add_(1)
    return x.view(-1)[:2], x


def random_numbers(x):
    return x + torch.rand(4) * torch.randn_like(x)


def numbers(x, factor=1.5, *, name="sum"):
    return getattr(x, name)() * factor


def nested(x):
    def scale(y):
        return y * len(x)

    return {"a": scale(x), "b": [x.sin(), (x, 3)]}


def without_tensors(x):
    return x.shape, len(x)


PROGRAMS = (plain, writes, random_numbers, numbers, nested, without_tensors)
MODULES = (Net, Breaks, Recurrent)
BACKENDS = ("eager", "native", "autotune")
# results that are views of an input: torch's aot_autograd makes them, whose functions are not stored
NOT_STORED = {(writes, "native")}


def make(program):
    torch.manual_seed(3)
    return program() if isinstance(program, type) else program


class Handle:
    """A program under a handle of its own, as in a process of its own. `taken`, `compiled`: how
    many entries came from disk, and how many were captured."""

    def __init__(self, program, backend, **options):
        self.events = []
        with config.patch(sinks=(self.events.append,)):
            self.run = framejit.compile(make(program), backend=backend, **options)

    @property
    def taken(self):
        return sum(isinstance(event, Stored) and event.taken for event in self.events)

    @property
    def compiled(self):
        return sum(isinstance(event, Captured) for event in self.events)

    @property
    def sentences(self):
        return [event.text for event in self.events if isinstance(event, Stored)]


@pytest.fixture(autouse=True)
def _stores(cache_dir):
    with config.patch(store=True):
        yield


def results(run, gradients=False):
    """What a call returns, what it leaves in its input and in the generator, and gradients."""
    torch.manual_seed(5)
    x = torch.randn(3, 4)
    if not gradients:
        with torch.no_grad():
            return run(x), x, torch.get_rng_state()
    x.requires_grad_()
    made = run(x)
    made.sum().backward()
    left = [parameter.grad for parameter in run.parameters()]
    run.zero_grad()
    return made.detach(), x.grad, left


def assert_same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*PROGRAMS, *MODULES], ids=lambda program: program.__name__)
def test_a_later_handle_captures_nothing(program, backend):
    stored = (program, backend) not in NOT_STORED
    want = results(make(program))
    first = Handle(program, backend)
    assert_same(results(first.run), want)
    assert (first.taken, first.compiled > 0) == (0, True), first.sentences
    del first.run
    gc.collect()
    later = Handle(program, backend)
    assert_same(results(later.run), want)
    assert (later.taken > 0, later.compiled == 0) == (stored, stored), later.sentences
    assert_same(results(later.run), want)
    assert (later.compiled == 0) == stored


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", MODULES, ids=lambda program: program.__name__)
def test_gradients(program, backend):
    want = results(make(program), gradients=True)
    first = Handle(program, backend)
    assert_same(results(first.run, gradients=True), want)
    later = Handle(program, backend)
    assert_same(results(later.run, gradients=True), want)
    assert (later.taken > 0, later.compiled) == (True, 0), later.sentences


def test_a_choice_that_was_measured_is_taken_over():
    def run(handle):
        return results(handle.run)

    at_once = {"patience": 0}
    first = Handle(plain, "autotune", options=at_once)
    run(first)
    later = Handle(plain, "autotune", options=at_once)
    run(later)
    chosen = [
        {(event.backend, event.why) for event in handle.events if isinstance(event, Chosen)}
        for handle in (first, later)
    ]
    assert chosen[0] == chosen[1] != set()
    assert later.compiled == 0


def test_another_kind_of_input_is_compiled_and_stored_beside():
    def run(handle, *sizes):
        return [handle.run(torch.ones(size)) for size in sizes]

    first = Handle(numbers, "eager", dynamic=False)
    run(first, 3)
    second = Handle(numbers, "eager", dynamic=False)
    run(second, 3, 5)
    assert (second.taken, second.compiled) == (1, 1)
    third = Handle(numbers, "eager", dynamic=False)
    assert run(third, 5, 3) == run(Handle(numbers, "eager"), 5, 3)
    assert (third.taken, third.compiled) == (2, 0)


@pytest.mark.parametrize(
    "changed", [{"backend": "native"}, {"mode": "max-autotune"}, {"dynamic": True}]
)
def test_other_options_are_another_key(changed):
    results(Handle(plain, "eager").run)
    asked = {"backend": "eager"} | changed
    if "mode" in changed:
        asked["backend"] = "autotune"
    later = Handle(plain, asked.pop("backend"), **asked)
    results(later.run)
    assert later.taken == 0


def test_a_patched_function_is_seen(monkeypatch):
    results(Handle(Net, "eager").run)
    monkeypatch.setattr(F, "gelu", lambda x, approximate="none": x * 7)
    later = Handle(Net, "eager")
    assert_same(results(later.run), results(make(Net)))
    assert later.taken == 0 and later.compiled > 0


doubled = torch.library.custom_op("test_store::doubled", lambda x: x * 2, mutates_args=(),
                                  schema="(Tensor x) -> Tensor")  # fmt: skip
doubled.register_fake(lambda x: torch.empty_like(x))


def order_of_a_set(x):
    for name in {"sin", "cos"}:
        x = getattr(x, name)()
    return x


def hashes(x):
    return x * (hash("a") % 7)


def users_operator(x):
    return torch.ops.test_store.doubled(x)


@pytest.mark.parametrize(
    "program, why",
    [
        (order_of_a_set, "the order of a set"),
        (hashes, "a hash"),
        (users_operator, "operator test_store.doubled"),
    ],
)
def test_what_another_process_may_have_otherwise_is_not_stored(program, why):
    handle = Handle(program, "eager")
    assert_same(handle.run(torch.ones(2)), program(torch.ones(2)))
    assert any(text.startswith(f"not stored on disk: {why}") for text in handle.sentences)


def test_a_backend_of_the_user_is_not_stored(register, cache_dir):
    register("mine", lambda gm, inputs: gm.forward)
    results(Handle(plain, "mine").run)
    assert not (cache_dir / "entries").exists()


def test_nothing_is_written_unless_asked_for(cache_dir):
    with config.patch(store=False):
        results(Handle(plain, "eager").run)
    assert not (cache_dir / "entries").exists()


@pytest.mark.parametrize("asked, stored", [(True, True), (False, False)])
def test_the_option_of_one_handle(cache_dir, asked, stored):
    with config.patch(store=not asked):
        results(Handle(plain, "eager", options={"store": asked}).run)
    assert (cache_dir / "entries").exists() == stored
