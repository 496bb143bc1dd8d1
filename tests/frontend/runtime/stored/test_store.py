"""Entries on disk: which ones are stored, and what takes them up again. A second handle stands for
a second process; test_store_between_processes.py starts real ones."""

from __future__ import annotations

import gc
import io
import logging
import sys
import threading
import warnings

import framejit
import numpy as np
import pytest
import torch
from framejit.backends.graph.copies import Copies
from framejit.backends.native import backend as native
from framejit.events import Captured, Chosen, Stored
from framejit.options import config
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor
from torch.torch_version import TorchVersion


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


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clip(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x):
        return Clipped.apply(self.first(x) * 3)


factor = 2


def double(x):
    return x * factor


doubled = torch.library.custom_op("test_store::doubled", double, mutates_args=(),
                                  schema="(Tensor x) -> Tensor")  # fmt: skip
doubled.register_fake(lambda x: torch.empty_like(x))
library = torch.library.Library("test_store", "FRAGMENT")
library.define("tripled(Tensor x) -> Tensor")
library.impl("tripled", lambda x: x * 3, "CompositeExplicitAutograd")
last = [threading.Lock()]
unknown = torch.library.custom_op("test_store::like_the_last", lambda x: x * 1, mutates_args=(),
                                  schema="(Tensor x) -> Tensor")  # fmt: skip
unknown.register_fake(lambda x: last and torch.empty_like(x))


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


def views(x):
    return x.t(), x, x[1:].unsqueeze(0)


def constants(x):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor(0.5)


def expected_branch(x):
    if x.sum() > 1e6:
        raise ValueError("too large")
    return x * 2


def users_operator(x):
    return torch.ops.test_store.doubled(x)


def method_in_c(x):
    return x.T.mT + 1


def profiled(x):
    with torch.autograd.profiler.record_function("part"):
        return x * 2


leaf = nn.Parameter(torch.ones(4))


def backward_inside(x):
    leaf.grad = None
    with torch.enable_grad():
        loss = (leaf * x).sin().sum()
        loss.backward()
        return loss, leaf.grad


def functions_of_numpy(x):
    return x + torch.from_numpy(np.linspace(0, 1, 4) + np.sqrt(4.0)) * float(np.mean([1.0, 2.0]))


def ellipsis_in_the_state(x):
    index = (..., 0)
    print(end="")
    return x[index] * 2


def class_of_a_module_in_c(x):
    return x * len(io.StringIO("text").getvalue())


ways = {list: (lambda x: x * 2,), tuple: (lambda x: x * 3,)}  # found by a path that names a class


def function_at_a_class(x):
    return ways[tuple][0](x)


linear = nn.Linear(4, 2)


def functional_call(x):
    """The names of its tensors are the members of a set."""
    return torch.func.functional_call(linear, {"weight": x[:2], "bias": x[0, :2]}, (x,))


def sizes_at_run_time(x):
    return x[x > -9].reshape(4, 3) + x[x < 9].reshape(4, 3)


def waiting_generator(x):
    waiting = (x * factor for factor in range(1, 4))
    y = next(waiting)
    print(end="")
    return y + next(waiting)


PROGRAMS = (
    plain, writes, random_numbers, numbers, nested, without_tensors, views, constants,
    expected_branch, users_operator, method_in_c, profiled,
    backward_inside, functions_of_numpy, ellipsis_in_the_state, class_of_a_module_in_c,
    function_at_a_class, functional_call, sizes_at_run_time, waiting_generator,
)  # fmt: skip
MODULES = (Net, Breaks, Recurrent, Custom)
BACKENDS = ("eager", "native", "autotune")


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
        return sum(isinstance(one, Captured) and not one.from_disk for one in self.events)

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
    want = results(make(program))
    first = Handle(program, backend)
    assert_same(results(first.run), want)
    assert (first.taken, first.compiled > 0) == (0, True), first.sentences
    del first.run
    gc.collect()
    later = Handle(program, backend)
    assert_same(results(later.run), want)
    assert (later.taken > 0, later.compiled) == (True, 0), later.sentences
    assert_same(results(later.run), want)
    assert later.compiled == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", MODULES, ids=lambda program: program.__name__)
def test_gradients(program, backend):
    want = results(make(program), gradients=True)
    first = Handle(program, backend)
    assert_same(results(first.run, gradients=True), want)
    later = Handle(program, backend)
    assert_same(results(later.run, gradients=True), want)
    assert (later.taken > 0, later.compiled) == (True, 0), later.sentences


def scaled(x):
    return (x.sin() * torch.tensor([1.0, 2.0, 3.0, 4.0])).cumsum(0)


def test_gradients_in_batches(monkeypatch):
    """A stored backward graph runs operator by operator for them. Storing it makes no text of it,
    which took half of the time."""

    def run(function):
        x = torch.ones(4, requires_grad=True)
        return torch.autograd.grad(function(x), x, torch.eye(4), is_grads_batched=True)[0]

    with monkeypatch.context() as patch:
        patch.setattr(Copies, "module", fail)
        first = Handle(scaled, "native")
        first.run(torch.ones(4, requires_grad=True)).sum().backward()
    later = Handle(scaled, "native")
    assert_same(run(later.run), run(scaled))
    assert (later.taken, later.compiled) == (1, 0), first.sentences + later.sentences


def test_a_backward_pass_that_torchs_operators_run(monkeypatch):
    compile_aten = native.compile_aten

    def compile_forward_only(graph, report, *, boxed, **more):
        if boxed:
            raise NotImplementedError("a backward graph")
        return compile_aten(graph, report, boxed=boxed, **more)

    monkeypatch.setattr(native, "compile_aten", compile_forward_only)
    want = results(make(Net), gradients=True)
    for taken in (0, 1):
        handle = Handle(Net, "native")
        assert_same(results(handle.run, gradients=True), want)
        assert (handle.taken, handle.compiled) == (taken, 1 - taken), handle.sentences


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


@pytest.mark.parametrize("training", [False, True])
def test_a_choice_for_sizes_that_vary_is_taken_over(training, monkeypatch):
    """Also one that has not been measured when the entry was stored."""

    def run(handle, sizes):
        results = []
        for size in sizes:
            x = torch.linspace(0, 1, size * 4).reshape(size, 4).requires_grad_(training)
            with torch.set_grad_enabled(training):
                results.append(handle(x)[1])
            if training:
                results[-1].sum().backward()
                results.append(x.grad)
        return results

    at_once = {"patience": 0, "candidates": ["native"]}
    first = Handle(plain, "autotune", options=at_once, dynamic=True)
    want = run(plain, (30, 31))
    assert_same(run(first.run, (30, 31)), want)
    with monkeypatch.context() as patch:
        patch.setattr("framejit.backends.autotune.tuning.measure", fail)
        later = Handle(plain, "autotune", options=at_once, dynamic=True)
        assert_same(run(later.run, (30, 31)), want)
    assert (later.taken, later.compiled) == (1, 0), later.sentences
    # of another scale, nothing is known: the next call compiles again, and measures
    assert_same(run(later.run, (900, 901)), run(plain, (900, 901)))
    assert later.compiled == 1


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


class Sizes(nn.Module):
    """Results that are views, and a written buffer."""

    def __init__(self):
        super().__init__()
        self.linear, self.count = nn.Linear(4, 4), nn.Buffer(torch.zeros(()))

    def forward(self, x):
        self.count += 1
        y = self.linear(x).exp() * len(x)
        return y.t()


@pytest.mark.parametrize("backend", ["native", "autotune"])
def test_training_with_sizes_that_vary(backend):
    def train(run):
        torch.manual_seed(1)
        run.zero_grad()
        for rows in (3, 5, 4):
            run(torch.randn(rows, 4)).sum().backward()
        return [parameter.grad for parameter in run.parameters()], run.count

    want = train(make(Sizes))
    first = Handle(Sizes, backend)
    assert_same(train(first.run), want)
    later = Handle(Sizes, backend)
    assert_same(train(later.run), want)
    assert (later.taken > 0, later.compiled) == (True, 0), later.sentences


@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])
def test_wrappers_with_sizes_that_vary(gradients):
    def run(handle):
        seen = []
        for rows in (3, 5, 4):
            torch.manual_seed(rows)
            parts = torch.randn(4, rows).t(), torch.randn(4, rows).t()
            made = handle(TwoTensor(*parts).requires_grad_(gradients))
            seen += [made.a.detach(), made.b.detach()]
            if gradients:
                made.sum().backward()
        return seen

    def program(x):
        return (x.sin() * x)[1:] + 1

    want = run(program)
    first = Handle(program, "native")
    assert_same(run(first.run), want)
    later = Handle(program, "native")
    assert_same(run(later.run), want)
    # in torch 2.15, aot_autograd's graphs have sizes behind each part: its own function runs them
    is_stored = TorchVersion(torch.__version__) < (2, 15)
    assert (later.taken > 0, later.compiled == 0) == (True, is_stored), later.sentences


def test_an_expectation_that_fails_in_a_later_process():
    first = Handle(expected_branch, "eager")
    first.run(torch.ones(3))
    later = Handle(expected_branch, "eager")
    assert torch.equal(later.run(torch.ones(3)), torch.full((3,), 2.0))
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            later.run(torch.full((3,), 1e7))
    assert torch.equal(later.run(torch.ones(3)), torch.full((3,), 2.0))
    assert later.taken == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(doubled, "_init_fn", lambda x: x * 2),
        lambda patch: patch.setattr(doubled, "_abstract_fn", lambda x: torch.empty_like(x)),
        lambda patch: patch.setattr(doubled, "_backward_fn", lambda context, grad: grad),
        lambda patch: patch.setitem(globals(), "factor", 3),
    ],
)
def test_another_rule_of_an_operator_is_seen(change, monkeypatch):
    Handle(users_operator, "eager").run(torch.ones(2))
    change(monkeypatch)
    later = Handle(users_operator, "eager")
    later.run(torch.ones(2))
    assert (later.taken, later.compiled) == (0, 1)
    assert any("test_store.doubled has other functions" in text for text in later.sentences)


def test_entries_that_differ_in_a_type_only_are_both_kept():
    def run(handle, *values):
        return [handle.run(torch.ones(2), value) is not None for value in values]

    def program(x, value):
        return x * 2 if isinstance(value, str) else x + 1

    run(Handle(program, "eager"), None, "a")
    later = Handle(program, "eager")
    run(later, None, "a")
    assert (later.taken, later.compiled) == (2, 0), later.sentences


def test_entries_that_differ_in_torchs_state_only_are_both_kept():
    def run(handle):
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                handle.run(torch.ones(2))

    run(Handle(numbers, "eager"))
    later = Handle(numbers, "eager")
    run(later)
    assert (later.taken, later.compiled) == (2, 0), later.sentences


def test_a_patched_function_is_seen(monkeypatch):
    results(Handle(Net, "eager").run)
    monkeypatch.setattr(F, "gelu", lambda x, approximate="none": x * 7)
    later = Handle(Net, "eager")
    assert_same(results(later.run), results(make(Net)))
    assert later.taken == 0 and later.compiled > 0


def weighted(parameters, weights):
    return sum(parameter * weights[parameter] for parameter in parameters)


@pytest.mark.parametrize("backward, taken", [(False, 1), (True, 0)])
def test_keys_that_are_objects_are_found_by_their_positions(backward, taken):
    """In another order they are other objects than those that the arguments lead to."""

    def arguments(backward):
        parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))]
        held = reversed(parameters) if backward else parameters
        return parameters, {one: torch.tensor(float(one is parameters[0])) for one in held}

    Handle(weighted, "eager").run(*arguments(False))
    later = Handle(weighted, "eager")
    given = arguments(backward)
    assert_same(later.run(*given), weighted(*given))
    assert (later.taken, later.compiled) == (taken, 1 - taken), later.sentences


class Handled:
    def forward(self, x):
        return self.inner(x) + 1

    def inner(self, x):
        return x * 2


def test_a_handle_that_a_capture_meets_is_known_by_its_function():
    def run(make):
        handled = Handled()
        handled.inner = framejit.compile(handled.inner, backend="eager")
        return make(handled.forward)

    x = torch.ones(2)
    handles = [run(lambda forward: Handle(forward, "eager")) for _ in range(2)]
    assert [one.run(x).tolist() for one in handles] == [[3.0, 3.0]] * 2
    assert (handles[1].taken, handles[1].compiled) == (1, 0), handles[1].sentences


def step(parameter, optimizer):
    parameter.grad = parameter * 2
    optimizer.step()


def test_the_step_that_creates_the_state_of_an_optimizer_is_not_captured_again():
    def run(handle):
        parameter = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([parameter])
        for _ in range(3):
            handle(parameter, optimizer)
        return parameter.detach()

    want = run(step)
    first, later = Handle(step, "autotune"), Handle(step, "autotune")
    assert_same(run(first.run), want)
    assert (first.taken, first.compiled, first.run.framejit.compiles) == (0, 1, 2)
    assert_same(run(later.run), want)
    assert (later.taken, later.compiled, later.run.framejit.compiles) == (2, 0, 0)


def test_a_module_of_torch_that_a_path_starts_from_is_imported(monkeypatch):
    Handle(profiled, "eager").run(torch.ones(2))
    monkeypatch.delitem(sys.modules, "torch.profiler._cupti_monitor", raising=False)
    monkeypatch.setattr(torch.autograd.profiler, "_cupti_monitor_module", None, raising=False)
    monkeypatch.setattr(torch.autograd.profiler, "_cupti_monitor_checked", False, raising=False)
    later = Handle(profiled, "eager")
    assert_same(later.run(torch.ones(2)), profiled(torch.ones(2)))
    assert (later.taken, later.compiled) == (1, 0), later.sentences


def order_of_a_set(x):
    for name in {"sin", "cos"}:
        x = getattr(x, name)()
    return x


def hashes(x):
    return x * (hash("a") % 7)


def operator_of_a_library(x):
    return torch.ops.test_store.tripled(x)


def operator_with_an_unknown_rule(x):
    return torch.ops.test_store.like_the_last(x)


@pytest.mark.parametrize(
    "program, why",
    [
        (order_of_a_set, "the order of a set"),
        (hashes, "a hash"),
        (operator_of_a_library, "operator test_store.tripled"),
        (operator_with_an_unknown_rule, "operator test_store.like_the_last"),
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


def test_a_graph_is_written_as_the_text_that_it_runs(monkeypatch):
    made = []
    write = torch.fx.Graph.python_code

    def counted(graph, *args, **kwargs):
        made.append(graph)
        return write(graph, *args, **kwargs)

    monkeypatch.setattr(torch.fx.Graph, "python_code", counted)
    with torch.no_grad():
        framejit.compile(Net().eval(), backend="eager")(torch.ones(3, 4))
    assert len(made) == 1


def test_a_handle_with_fullgraph_uses_stored_entries():
    want = results(make(Net))
    for _ in range(2):
        later = Handle(Net, "eager", fullgraph=True)
        assert_same(results(later.run), want)
    assert (later.taken, later.compiled) == (1, 0), later.sentences
    with pytest.raises(framejit.GraphBreakError):
        results(Handle(Breaks, "eager", fullgraph=True).run)


def test_reports_of_stored_entries_are_those_of_their_capture():
    def report():
        run = framejit.compile(Breaks(), backend="eager")
        results(run)
        return run.framejit.explain(), framejit.stats()

    (first, _), (later, stats) = report(), report()
    assert (later.ops, len(later.graphs)) == (first.ops, len(first.graphs)) != (0, 0)
    assert later.breaks == first.breaks != ()
    assert [one.checks for one in later.captures] == [one.checks for one in first.captures]
    assert [one.inputs for one in later.captures] == [one.inputs for one in first.captures]
    assert [one.backend for one in later.captures] == [one.backend for one in first.captures]
    assert "print() writes output" in str(later)
    assert any(one.entries and not one.compiles for one in stats.functions)


def fail(*args):
    raise ZeroDivisionError("of the test")


@pytest.mark.parametrize(
    "place",
    ["key_of", "take_apart", "put_together", "EntryFolder.read", "EntryFolder.add",
     "EntryFolder.difference"],
)  # fmt: skip
def test_a_store_that_fails_costs_an_entry_and_nothing_else(place, monkeypatch, recwarn):
    if place == "put_together":
        results(Handle(Net, "eager").run)
    monkeypatch.setattr(f"framejit.frontend.runtime.stored.store.{place}", fail)
    with config.patch(strict=False):
        later = Handle(Net, "eager")
    assert_same(results(later.run), results(make(Net)))
    assert (later.taken, later.compiled) == (0, 1)
    assert any("of the test" in text for text in later.sentences)
    assert not recwarn


def test_a_folder_that_cannot_be_written_costs_no_warning(tmp_path, recwarn):
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=tmp_path / "file" / "inside"):
        handle = Handle(Net, "eager")
        assert_same(results(handle.run), results(make(Net)))
    assert handle.sentences[0].startswith("entries on disk are not used: the cache folder cannot")
    assert handle.sentences[1].startswith("not stored on disk: the cache folder cannot")
    assert not recwarn


def test_global_variables_of_no_module_are_not_those_of_the_module_of_their_name():
    names = {"__name__": __name__, "factor": 5}
    exec("def run(x, other):\n    return other(x) * factor", names)

    def other(x):
        return x + factor

    for _ in range(2):
        handle = Handle(names["run"], "eager")
        assert torch.equal(handle.run(torch.ones(2), other), torch.full((2,), 15.0))


@pytest.mark.parametrize("asked, stored", [(True, True), (False, False)])
def test_the_option_of_one_handle(cache_dir, asked, stored):
    with config.patch(store=not asked):
        results(Handle(plain, "eager", options={"store": asked}).run)
    assert (cache_dir / "entries").exists() == stored


names = {"sin", "cos"}
logger = logging.getLogger("test_store")


def set_of_strings(x):
    return x.sin() if "sin" in names else x


def message_of_a_logger(x):
    logger.debug("a message")
    return x + logger.isEnabledFor(logging.INFO)


def warning(x):
    warnings.warn("a warning", UserWarning, stacklevel=1)
    return x + 1


def iterators(x, pairs):
    return [x * a * b for a, b in pairs]


@pytest.mark.parametrize(
    "program, more",
    [
        (set_of_strings, lambda: ()),
        (message_of_a_logger, lambda: ()),
        (warning, lambda: ()),
        (iterators, lambda: (zip([1, 2], [3, 4], strict=True),)),
        (iterators, lambda: (map(divmod, [7, 9], [2, 4]),)),
    ],
)
def test_conditions_in_python_are_stored(program, more):
    handles = [Handle(program, "eager"), Handle(program, "eager")]
    results = []
    for run in (program, *(handle.run for handle in handles)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results.append([run(torch.ones(2), *more()), *map(str, caught)])
    assert repr(results[0]) == repr(results[1]) == repr(results[2])
    assert (handles[1].taken, handles[1].compiled) == (1, 0), handles[1].sentences


def test_a_condition_in_python_that_fails_is_compiled_anew(monkeypatch):
    Handle(set_of_strings, "eager").run(torch.ones(2))
    monkeypatch.setitem(globals(), "names", {"cos", "tan"})
    later = Handle(set_of_strings, "eager")
    later.run(torch.ones(2))
    assert (later.taken, later.compiled) == (0, 1)
