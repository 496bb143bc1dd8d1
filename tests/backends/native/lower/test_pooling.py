"""Pooling as loops, lowered for a GPU and run by the reference interpreter: equal to eager's on the
CPU."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.fx
from framejit.backends.native.ir.program import Call, View, with_buffers
from framejit.backends.native.lower.build import lower
from torch._subclasses.fake_tensor import FakeTensorMode

from ..evaluate import evaluate

aten = torch.ops.aten
MAX, MEAN = aten.max_pool2d_with_indices.default, aten.avg_pool2d.default
MAX_BACK, MEAN_BACK = (
    aten.max_pool2d_with_indices_backward.default,
    aten.avg_pool2d_backward.default,
)
WINDOWS = {  # size, stride, padding
    "that overlap": ([3, 3], [2, 2], [1, 1]),
    "at each place": ([3, 3], [1, 1], [1, 1]),
    "side by side": ([2, 2], [], [0, 0]),
    "of one number": ([2], [2], [0]),
    "that overhang": ([3, 3], [2, 2], [0, 0]),
    "of another height": ([2, 3], [1, 2], [1, 0]),
    "with space between": ([2, 2], [3, 3], [0, 0]),
}
FORMATS = {"rows": torch.contiguous_format, "channels last": torch.channels_last}


def images(format_: torch.memory_format, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.randn(2, 3, 9, 10, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[0, 0, 3, 3] = x[0, 0, 4, 4] = torch.nan
    x[0, 1] = -torch.inf  # no element is larger than the value that a search starts with
    x[1, 2] = 1.0  # all are equal
    return x.contiguous(memory_format=format_)


def on_loops(operator, *args):
    """The operator's results as its lowering for a GPU computes them; None if it is called."""
    graph, mode = torch.fx.Graph(), FakeTensorMode()
    given: dict[str, torch.Tensor] = {}
    nodes, fakes = [], []
    for number, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor):
            nodes.append(arg)
            fakes.append(arg)
            continue
        with mode:
            fake = torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device="cuda")
        node = graph.placeholder(f"input_{number}")
        node.meta["val"], given[node.name] = fake, arg
        nodes.append(node)
        fakes.append(fake)
    node = graph.call_function(operator, tuple(nodes))
    with mode:
        node.meta["val"] = operator(*fakes)
    several = isinstance(node.meta["val"], tuple)
    items = [node]
    if several:
        items = [graph.call_function(torch.fx.node.operator.getitem, (node, n)) for n in range(2)]
        for item, fake in zip(items, node.meta["val"], strict=True):
            item.meta["val"] = fake
    graph.output(tuple(items))
    program = lower(torch.fx.GraphModule({}, graph), ("cuda",))
    if any(isinstance(step, Call) for step in program.steps):
        return None
    memory = {
        name: torch.empty(buffer.size and numel(buffer.size), dtype=buffer.dtype)
        for name, buffer in program.buffers.items()
    }
    for name, arg in given.items():
        memory[name] = arg.as_strided((arg.numel(),), (1,))
    for step in program.steps:
        evaluate(with_buffers(step), memory)
    return [shown(view, memory) for view in program.outputs]


def numel(size) -> int:
    total = 1
    for one in size:
        total *= one.value
    return total


def shown(view: View, memory: dict[str, torch.Tensor]) -> torch.Tensor:
    sizes, strides = ([one.value for one in group] for group in (view.size, view.stride))
    return memory[view.buffer].as_strided(sizes, strides)


def assert_equal(got, want):
    for one, other in zip(got, want, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, equal_nan=True)


ALL = [*itertools.product(WINDOWS, FORMATS, [False, True])]


@pytest.mark.parametrize(("name", "layout", "ceil_mode"), ALL)
def test_largest(name, layout, ceil_mode):
    x, one = images(FORMATS[layout]), [1, 1]
    args = (*WINDOWS[name], one, ceil_mode)
    want = MAX(x, *args)
    assert_equal(on_loops(MAX, x, *args), want)
    gradient = torch.randn_like(want[0])
    size, stride, padding, *more = args
    back = (gradient, x, size, stride or size, padding, *more, want[1])
    assert_equal(on_loops(MAX_BACK, *back), [MAX_BACK(*back)])


@pytest.mark.parametrize("with_padding", [False, True])
@pytest.mark.parametrize(("name", "layout", "ceil_mode"), ALL)
def test_mean(name, layout, ceil_mode, with_padding):
    x = images(FORMATS[layout])
    for divisor in (None, 3):
        args = (*WINDOWS[name], ceil_mode, with_padding, divisor)
        want = MEAN(x, *args)
        got = on_loops(MEAN, x, *args)
        size, stride, padding, *more = args
        back = (torch.randn_like(want), x, size, stride or size, padding, *more)
        got_back = on_loops(MEAN_BACK, *back)
        if padding == [0, 0] and not ceil_mode or divisor:
            assert got is not None and got_back is not None
        if got is not None:
            assert_equal(got, [want])
            assert_equal(got_back, [MEAN_BACK(*back)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_dtypes(dtype):
    x = images(torch.channels_last, dtype)
    args = ([3, 3], [2, 2], [1, 1])
    assert_equal(on_loops(MAX, x, *args, [1, 1], False), MAX(x, *args, [1, 1], False))
    assert_equal(on_loops(MEAN, x, *args, False, True, None), [MEAN(x, *args)])


def test_what_torch_does():
    x = images(torch.contiguous_format)
    assert on_loops(MAX, x, [3, 3], [2, 2], [1, 1], [2, 2], False) is None  # windows with gaps
    assert on_loops(MAX, x, [7, 7], [1, 1], [3, 3], [1, 1], False) is None  # large ones
    assert on_loops(MEAN, x, [3, 3], [2, 2], [1, 1], True, True, None) is None  # of several sizes
    values, places = MAX(x, [2, 2])
    back = (values, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    torch.use_deterministic_algorithms(True)
    try:
        assert on_loops(MAX_BACK, *back) is None  # eager raises on a GPU
    finally:
        torch.use_deterministic_algorithms(False)
