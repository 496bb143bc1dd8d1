"""Graphs on a GPU that calculate with numbers on the CPU."""

from __future__ import annotations

import operator

import framejit
import pytest
import torch
from framejit.backends.subgraphs import host_numbers
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F


class Written:
    """A graph as captures write it, on fake tensors."""

    def __init__(self):
        self.graph, self.mode = torch.fx.Graph(), FakeTensorMode()

    def input(self, name, device, *shape, dtype=torch.float32):
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["example_value"] = torch.empty(shape, device=device, dtype=dtype)
        return node

    def call(self, target, *args):
        node = self.graph.call_function(target, args)
        with self.mode, torch.no_grad():  # without a GPU, autograd fails
            fakes = torch.fx.node.map_arg(args, lambda one: one.meta["example_value"])
            node.meta["example_value"] = target(*fakes)
        return node

    def train(self, target, *args):
        node = self.call(target, *args)
        node.meta["example_value"].requires_grad_()
        return node

    def item(self, tuple, number):
        """An item of a tuple, of whose tensors a capture notes nothing in the tuple's node."""
        node = self.graph.call_function(operator.getitem, (tuple, number))
        with self.mode:
            node.meta["example_value"] = torch.empty((), dtype=torch.float32)
        return node

    def compile(self, *results):
        """What `build` gets, as device types and operators; None where nothing is parted."""
        self.graph.output(results)
        gm, seen = torch.fx.GraphModule({}, self.graph), []

        def build(part, examples):
            calls = [node for node in part.graph.nodes if node.op == "call_function"]
            kinds = set().union(*(host_numbers.devices_by_node(part.graph)[node] for node in calls))
            seen.append((kinds, [getattr(node.target, "__name__", "") for node in calls]))
            return part.forward

        inputs = self.graph.find_nodes(op="placeholder")
        examples = [node.meta["example_value"] for node in inputs]
        return seen if host_numbers.compile_by_device(gm, examples, build) is not None else None


def test_a_step_of_an_optimizer():
    made = Written()
    step, p, g = made.input("step", "cpu"), made.input("p", "cuda", 4), made.input("g", "cuda", 4)
    made.call(torch.Tensor.add_, step, 1)
    scale = made.call(torch.mul, p, 2.0)
    rate = made.call(torch.div, 0.1, made.call(torch.Tensor.double, step))
    made.call(torch.Tensor.add_, p, made.call(torch.mul, g, rate))
    seen = made.compile(scale)
    assert seen == [
        ({"cpu"}, ["add_", "double", "div", "to", "stack"]),
        ({"cuda"}, ["select", "to", "mul", "mul", "add_"]),
    ]


def test_counts_in_lists():
    made = Written()
    steps = [made.input(f"step_{number}", "cpu") for number in range(2)]
    ps = [made.input(f"p_{number}", "cuda", 4) for number in range(2)]
    written = made.graph.call_function(torch._foreach_add_, (steps, 1))
    made.graph.call_function(operator.getitem, (written, 0))
    rates = made.call(torch.stack, [made.call(torch.div, 0.1, step) for step in steps])
    parts = made.call(torch.unbind, rates)
    del parts.meta["example_value"]
    items = [made.item(parts, number) for number in range(2)]
    for item, p in zip(items, ps, strict=True):
        made.call(torch.Tensor.mul_, p, item)
    first, last = made.compile()
    assert first[1][:2] == ["_foreach_add_", "getitem"] and first[1][-1] == "stack"
    assert last == ({"cuda"}, ["select", "to", "select", "to", "mul_", "mul_"])


def test_a_count_that_the_gpu_does_not_use():
    made = Written()
    step, p = made.input("step", "cpu"), made.input("p", "cuda", 4)
    made.call(torch.Tensor.add_, step, 1)
    assert made.compile(made.call(torch.mul, p, 2.0)) == [({"cpu"}, ["add_"]), ({"cuda"}, ["mul"])]


def test_random_numbers():
    made = Written()
    n, p = made.input("n", "cpu"), made.input("p", "cuda", 4)
    assert made.compile(made.call(torch.mul, p, made.call(torch.rand_like, n))) == [
        ({"cuda"}, ["select", "to", "mul"])
    ]


def test_random_numbers_in_training():
    made = Written()
    p = made.input("p", "cuda", 4)
    made.call(operator.lt, made.call(torch.rand, []), 0.0)
    doubled = made.train(torch.mul, p, 2.0)
    made.call(operator.lt, made.call(torch.rand, []), 0.0)
    assert made.compile(made.train(torch.mul, doubled, 2.0)) == [({"cuda"}, ["mul", "mul"])]


def unknown(x):
    return x


def written_after_its_use(made, n, p):
    used = made.call(torch.mul, p, n)
    made.call(torch.Tensor.add_, n, 1)
    return used


def from_the_gpu(made, n, p):
    return made.call(torch.add, made.call(torch.Tensor.cpu, p), 1), made.call(torch.mul, p, n)


def a_tensor_with_dimensions(made, n, p):
    wide = made.call(torch.Tensor.expand, made.call(torch.add, n, 1), (4,))
    copied = made.graph.call_function(torch.Tensor.copy_, (p, wide))
    copied.meta.update(p.meta)
    return copied


def random_numbers_beside_an_unknown_function(made, n, p):
    return made.call(unknown, made.call(torch.mul, p, made.call(torch.rand_like, n)))


def a_number_in_training(made, n, p):
    return made.train(torch.mul, p, made.call(torch.add, n, 1))


def integers(made, n, p):
    return made.call(torch.mul, p, made.call(torch.Tensor.long, n))


LEFT_WHOLE = [
    written_after_its_use, from_the_gpu, a_tensor_with_dimensions, integers,
    random_numbers_beside_an_unknown_function, a_number_in_training,
]  # fmt: skip


@pytest.mark.parametrize("make", LEFT_WHOLE, ids=lambda make: make.__name__)
def test_graphs_left_whole(make):
    made = Written()
    results = make(made, made.input("n", "cpu"), made.input("p", "cuda", 4))
    assert made.compile(*(results if isinstance(results, tuple) else (results,))) is None


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["native", "autotune"])
def test_a_whole_training_step(backend):
    def train(compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        x, y = torch.randn(8, 16, device="cuda"), torch.randn(8, 4, device="cuda")

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        step = compile(step)
        losses = [step(x + number / 10, y).detach() for number in range(8)]
        states = [value for one in optimizer.state.values() for value in one.values()]
        return losses, [one.grad for one in model.parameters()], states, step

    options = {} if backend == "native" else {"patience": 0}
    wanted = train(lambda f: f)
    got = train(lambda f: framejit.compile(f, backend=backend, options=options))
    torch.testing.assert_close(got[:3], wanted[:3], rtol=1e-3, atol=1e-4)
    assert not got[3].framejit.explain().breaks


@pytest.mark.gpu
def test_training_with_unread_draws_is_recorded():
    def train(compile):
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6)).cuda()
        x = torch.randn(64, 64, device="cuda")

        def step(x):
            for layer in layers:
                if torch.rand([]) < 0.0:
                    continue
                x = F.gelu(layer(x))
            return x.square().mean()

        step, losses = compile(step), []
        for _ in range(5):
            losses.append(step(x))
            losses[-1].backward()
        return [losses, [one.grad for one in layers.parameters()], torch.rand(2)], step

    wanted, _ = train(lambda f: f)
    settings = {"mode": "reduce-overhead", "options": {"patience": 0}}
    got, step = train(lambda f: framejit.compile(f, backend="autotune", **settings))
    torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-3)
    report = step.framejit.explain()
    assert not report.breaks and "CUDA graphs: recorded" in report.details()
