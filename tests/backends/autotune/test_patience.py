"""A graph runs as captured until that has taken a share of what trying other backends is likely to
take; then it is compiled for good."""

from __future__ import annotations

import operator

import framejit
import pytest
import torch
from framejit.backends.autotune import candidates, patience
from framejit.backends.autotune.patience import Forecast, WaitingGraph, forecast
from framejit.events import Chosen, CompileStarted
from framejit.tier import Tier
from torch._subclasses.fake_tensor import FakeTensorMode


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(6)))

    def forward(self, x):
        return self.layers(x).relu() * 2


def compiled(events, **options):
    with framejit.config.patch(sinks=(events.append,), strict=True):
        return framejit.compile(
            Network(),
            backend="autotune",
            options={"remember": False, "tune_budget_s": 0.3, **options},
        )


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("sizes", [(4,), (4, 5, 6)], ids=["one size", "sizes that vary"])
def test_it_waits_and_is_compiled_once_more(sizes):
    events = []
    model = compiled(events, patience=0.0005)  # due after some milliseconds
    for number in range(400):
        x = torch.randn(sizes[number % len(sizes)], 16)
        torch.testing.assert_close(model(x), model.forward(x))
    choices = of(Chosen, events)
    assert choices[0].backend == "eager" and choices[0].why.startswith("for now")
    assert any(not one.why.startswith("for now") for one in choices[1:])
    settled = len(of(CompileStarted, events))
    for number in range(20):
        model(torch.randn(sizes[number % len(sizes)], 16))
    assert len(of(CompileStarted, events)) == settled


def test_a_short_program_compiles_nothing():
    events = []
    model = compiled(events)
    for _ in range(20):
        model(torch.randn(4, 16))
    assert len(of(CompileStarted, events)) == 1
    assert [one.backend for one in of(Chosen, events)] == ["eager"]


@pytest.mark.parametrize("how", [
    {"options": {"patience": 0}}, {"mode": "max-autotune-no-cudagraphs"}, {"options": {"candidates": ("native",)}},
])  # fmt: skip
def test_who_asks_gets_it_at_the_first_call(how, monkeypatch):
    monkeypatch.setattr(candidates, "AT_MOST", ("torchscript",))  # inductor takes ten seconds
    events = []
    how = {**how, "options": {**how.get("options", {}), "remember": False, "tune_budget_s": 0.3}}
    with framejit.config.patch(sinks=(events.append,)):
        model = framejit.compile(Network(), backend="autotune", **how)
    model(torch.randn(4, 16))
    assert not any(one.why.startswith("for now") for one in of(Chosen, events))


def test_large_graphs_do_not_wait():
    assert Forecast(compile_s=1.0, call_s=0.02).due_s(0.15) == 0
    assert Forecast(compile_s=1.0, call_s=0.001).due_s(0.15) == pytest.approx(0.15)


@pytest.mark.parametrize(
    "seconds, expected",
    [({}, 1.0), ({"trace": 0.01}, 1.0), ({"trace": 0.1, "fake_tensors": 0.24}, 2.0)]
    + [({"trace": 9.0}, 4.0), ({"tuning": 9.0, "imports": 9.0}, 1.0)],
)
def test_a_slow_capture_means_a_slow_compile(seconds, expected):
    gm = torch.fx.symbolic_trace(Network())
    for node in list(gm.graph.nodes):  # 28 operators
        for _ in range(20 if node.op == "output" else 0):
            with gm.graph.inserting_before(node):
                gm.graph.call_function(torch.relu, node.args)
    assert patience.slowness(gm, seconds) == pytest.approx(expected, rel=0.05)


def test_a_forecast_counts_products():
    def graph(size):
        gm = torch.fx.symbolic_trace(lambda x, weight: torch.nn.functional.linear(x, weight))
        nodes = list(gm.graph.nodes)
        fakes = [torch.empty(size, size, device="meta")] * 4
        for node, fake in zip(nodes, fakes, strict=False):
            node.meta["example_value"] = fake
        return gm

    small, large = forecast(graph(8)), forecast(graph(4096))
    assert small.call_s < 1e-4 < 0.1 < large.call_s and small.compile_s == large.compile_s
    assert small.saved == large.saved == pytest.approx(0.1)  # torch's own product either way
    assert large.due_s(1e9) == pytest.approx(1e10 * large.compile_s)


@pytest.mark.parametrize(
    ("device", "saved"), [("cpu", (3 * 0.1 + 2 * 0.5) / 5), ("cuda", 1.0)], ids=["cpu", "cuda"]
)
def test_a_small_product_takes_its_time_in_any_case(device, saved):
    """On the CPU as long as three other operators; recording on a GPU saves its launch, too."""
    gm = torch.fx.symbolic_trace(lambda x, y: torch.relu(torch.matmul(x, y)) + 1)
    with FakeTensorMode():
        for node in gm.graph.nodes:
            node.meta["example_value"] = torch.empty(4, 4, device=device)
    assert forecast(gm).saved == pytest.approx(saved)


@pytest.mark.parametrize(("dtype", "faster"), [(torch.float32, 1), (torch.bfloat16, 10)])
def test_products_in_half_precision_are_faster_on_a_gpu(dtype, faster):
    gm = torch.fx.symbolic_trace(lambda x, y: torch.matmul(x, y))
    with FakeTensorMode():
        for node in gm.graph.nodes:
            node.meta["example_value"] = torch.empty(4096, 4096, device="cuda", dtype=dtype)
    assert forecast(gm).call_s == pytest.approx(2 * 4096**3 / 2e13 / faster)


def test_operators_on_distributed_tensors_take_time_in_python(monkeypatch):
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x).sin())
    for node in gm.graph.nodes:
        node.meta["example_value"] = torch.empty(4, device="meta")
    plain = forecast(gm)
    monkeypatch.setattr(patience, "is_on_distributed_tensors", lambda node: True)
    distributed = forecast(gm)
    assert distributed.call_s == pytest.approx(plain.call_s + 2 * patience.DISTRIBUTED_S)
    assert distributed.saved > 0.9 > plain.saved


def test_equal_operators_are_made_once():
    def graph(count, *sizes):
        gm = torch.fx.symbolic_trace(lambda x: x)
        x, output = gm.graph.nodes
        with gm.graph.inserting_before(output):
            for number in range(count):
                node = gm.graph.call_function(torch.relu, (x,))
                node.meta["example_value"] = torch.empty(sizes[number % len(sizes)], device="meta")
                gm.graph.call_function(operator.getitem, (node, 0))
        return forecast(gm).compile_s

    base = graph(0, 1)
    assert 0 < graph(40, 1) - base < graph(40, *range(40)) - base < 2 * (graph(40, 1) - base)


def test_slow_first_calls_are_not_taken_for_all(monkeypatch):
    clock = iter([0.0, 5.0, 5.0, 5.001, 6.0, 6.001, 7.0, 7.001, 8.0, 8.001])
    monkeypatch.setattr(patience.time, "perf_counter", lambda: next(clock))
    asked = []
    tier = Tier()
    tier.begin(lambda: asked.append(True))
    waiting = WaitingGraph(lambda: None, 0.0045, tier)
    counts = []
    for _ in range(5):
        waiting()
        counts.append(len(asked))
    assert counts == [0, 0, 0, 0, 1]


def test_a_graph_that_waits_counts_what_compiling_would_have_saved(monkeypatch):
    clock = iter([0.0, 0.5, 1.0, 1.25])
    monkeypatch.setattr(patience.time, "perf_counter", lambda: next(clock))
    tier = Tier()
    waiting = WaitingGraph(lambda: None, 100.0, tier, gain=2.0)
    waiting()
    waiting()
    assert tier.savable_s == (0.5 + 0.25) * 2


@pytest.mark.parametrize("wrong", [-1, "long"])
def test_patience_is_a_number(wrong):
    with pytest.raises((ValueError, framejit.FramejitError), match="patience"):
        framejit.compile(Network(), backend="autotune", options={"patience": wrong})(
            torch.randn(4, 16)
        )


def test_time_that_the_host_does_not_wait_for_counts():
    """A call on a GPU returns before it is done."""
    asked = []
    tier = Tier()
    tier.begin(lambda: asked.append(True))
    waiting = WaitingGraph(lambda: None, 40.0, tier, device_s=10.0)
    counts = []
    for _ in range(5):
        waiting()
        counts.append(len(asked))
    assert counts == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("device", "seconds"), [("cpu", 0.0), ("cuda", 8e-6)])
def test_only_a_gpu_works_on_behind_the_host(device, seconds):
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    with FakeTensorMode():
        for node in gm.graph.nodes:
            node.meta["example_value"] = torch.empty(4, device=device)
    assert forecast(gm).device_s == seconds
