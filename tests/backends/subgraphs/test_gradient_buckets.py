"""Graphs under DistributedDataParallel, in a group of one process."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from framejit.backends.subgraphs.gradient_buckets import bucket_bytes, cut_places
from torch import nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.usefixtures("process_group")


WIDTH = 16
LAYER = 4 * WIDTH * (WIDTH + 1)  # bytes of the parameters of one


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.norm(x)


class Tied(Layers):
    def __init__(self):
        super().__init__()
        self.layers[7] = self.layers[0]


class Chunked(nn.Module):
    """Before each layer less passes than behind it: two halves."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            first, second = layer(x).chunk(2, 1)
            x = first * second.sigmoid()
        return x


class Residual(Layers):
    """As residual networks do: what a layer has made is written, before others read it."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(8))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            made = norm(layer(x))
            made += x
            x = made.relu_()
        return self.norm(x)


class InPlace(Layers):
    def forward(self, x):
        y = x.clone()
        for layer in self.layers:
            y += layer(x)
        return self.norm(y)


def parallel(model, bytes_):
    return DistributedDataParallel(model, bucket_cap_mb=bytes_ / 2**20)


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("kind", [Layers, Tied, InPlace, Chunked, Residual])
@pytest.mark.parametrize("backend", ["aot_eager", "native", "autotune"])
def test_values_and_gradients(kind, backend):
    """In float64: batch norms of five rows have gradients that are mostly rounding."""
    torch.manual_seed(0)
    model = kind().double()
    plain = copy.deepcopy(model)
    compiled = framejit.compile(parallel(model, 4 * LAYER), backend=backend)
    for _ in range(3):
        x = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
        other = x.detach().requires_grad_()
        compiled(x).square().sum().backward()
        plain(other).square().sum().backward()
        torch.testing.assert_close(gradients(model), gradients(plain))
        torch.testing.assert_close(x.grad, other.grad)
        torch.testing.assert_close([*model.buffers()], [*plain.buffers()])


def graphs_of(model, x):
    """The graphs that a backend gets."""
    found = []

    def keep(gm, examples):
        found.append(gm)
        return gm.forward

    framejit.compile(model, backend=keep)(x)
    return found


def linears(gm):
    return sum("linear" in str(node.target) for node in gm.graph.nodes)


@pytest.mark.parametrize(
    ("layers", "graphs"), [(2, [2, 2, 2, 2]), (1, [2, 2, 2, 2]), (4, [4, 4]), (100, [8])]
)
def test_as_many_subgraphs_as_buckets(layers, graphs):
    found = graphs_of(parallel(Layers(), layers * LAYER), torch.randn(5, WIDTH))
    assert sorted(map(linears, found)) == graphs


def test_a_tuple_stays_with_its_items():
    found = graphs_of(parallel(Chunked(), 4 * LAYER), torch.randn(5, WIDTH))
    assert sorted(map(linears, found)) == [2, 2, 2, 2]


def test_writes_within_a_subgraph():
    found = graphs_of(parallel(Residual(), 2 * LAYER), torch.randn(5, WIDTH))
    assert sorted(map(linears, found)) == [2, 2, 2, 2]
    assert len(graphs_of(parallel(InPlace(), 2 * LAYER), torch.randn(5, WIDTH))) == 1


def test_little_passes_between_subgraphs():
    """The sum, not the result of a layer and what it is added to."""
    found = graphs_of(parallel(Layers(), 2 * LAYER), torch.randn(5, WIDTH))
    for gm in found[1:]:
        inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        assert sum(not node.meta["example_value"].is_leaf for node in inputs) == 1


def test_gradients_arrive_bucket_by_bucket():
    """Where those of a subgraph have arrived, the next one's backward pass has not begun."""
    model = Layers()
    compiled = framejit.compile(parallel(model, 2 * LAYER), backend="native")
    result = compiled(torch.randn(5, WIDTH)).sum()
    events = []
    for number, layer in enumerate(model.layers):
        layer.weight.register_post_accumulate_grad_hook(
            lambda _, number=number: events.append(number)
        )
    node = result.grad_fn.next_functions[0][0]
    while node is not None:
        node.register_prehook(lambda _: events.append("node"))
        following = [
            one for one, _ in node.next_functions if one and "Accumulate" not in one.name()
        ]
        node = following[0] if following else None
    result.backward()
    pairs = [{*events[place + 1 : place + 3]} for place, one in enumerate(events) if one == "node"]
    assert pairs == [{6, 7}, {4, 5}, {2, 3}, {0, 1}]


def test_without_data_parallel_a_graph_is_whole():
    assert len(graphs_of(Layers(), torch.randn(5, WIDTH))) == 1
    assert bucket_bytes() == 0


def test_without_gradients_a_graph_is_whole():
    with torch.no_grad():
        assert len(graphs_of(parallel(Layers(), LAYER), torch.randn(5, WIDTH))) == 1


@pytest.mark.parametrize(
    ("gradients", "passing", "size", "places"),
    [
        ([4, 4, 4, 4], [0, 1, 1, 1], 4, [1, 2, 3]),
        ([4, 4, 4, 4], [0, 1, 1, 1], 8, [2]),
        ([1, 4, 4], [0, 1, 1], 8, []),  # what is left is too little
        ([4, 0, 0, 4], [0, 3, 2, 3], 4, [2]),  # where the least passes
        ([4, 40, 4], [0, 1, 1], 8, [1]),  # one that is larger than a bucket
        ([], [], 8, []),
    ],
)
def test_places(gradients, passing, size, places):
    assert cut_places(gradients, passing, size) == places
