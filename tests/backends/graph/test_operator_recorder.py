"""Recorded graphs are those of make_fx, and what cannot be recorded leaves nothing behind."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.graph import tracing_lock
from framejit.backends.graph.operator_recorder import CannotRecord, GivenSize, record_operators
from framejit.backends.graph.passes.functional import without_writes
from framejit.backends.graph.tracing_lock import trace_operators
from framejit.backends.native.decompositions import decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree

CONSTANT = torch.tensor([1.0, -2.0, 3.0])
WEIGHT = torch.nn.Parameter(torch.arange(9.0).view(3, 3) / 9)
LSTM = torch.nn.LSTM(3, 2)
# nodes that only one of the two makes: of the memory of a tensor, and of a constant's second use
UNEQUAL = ("detach", "alias", "_tensor_constant")


def random_numbers(x):
    return torch.rand_like(x) + torch.randn(2, 3) + torch.bernoulli(x.sigmoid()) + F.dropout(x)


def in_place(x):
    y = x * 2
    y.add_(1)[0].mul_(3)
    return y.t_()


def out(x):
    made = torch.empty(3)
    torch.add(x[0], 1, out=made)
    return made


def writes_input(x):
    x.mul_(2)
    return x[0] + 1


def numbers_of_program(x):
    new = torch.tensor([1.0, 2.0, 3.0])
    new.add_(1)
    return x + new + CONSTANT + CONSTANT * 2, torch.tensor(2)


def number_of_constant(x):
    return x * torch.tensor(0.5).item()


def indices(x):
    y = x.clone()
    y[x > 0] = 0
    y[:, torch.tensor([0, 2])] = CONSTANT[:2]
    return y[:, torch.tensor([1, 1])]


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ WEIGHT + (x @ WEIGHT).sum()


def gradients(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        z = y * 2
        z.register_hook(lambda gradient: gradient * 3)
        return torch.autograd.grad((F.gelu(z) @ WEIGHT).log_softmax(-1).sum(), y)


def statistics(x):
    mean, var = torch.zeros(3), torch.ones(3)
    return F.batch_norm(x, mean, var, None, None, True), mean, var


def lists(x):
    tensors = [x.clone(), x * 2]
    torch._foreach_add_(tensors, 1)
    return tensors + list(torch._foreach_mul(tensors, [x, x]))


def several_results(x):
    values, places = x.topk(2)
    first, second, third = x.split(1, 1)
    return values + places, first + second, third, [row * 2 for row in x.unbind()]


def nested_results(x):
    return {"one": (x + 1, [x, x]), "none": None, "number": 3}


def layers(x):
    q = x.view(1, 1, 2, 3)
    return (
        F.scaled_dot_product_attention(q, q, q),
        F.layer_norm(x, (3,), CONSTANT, CONSTANT),
        F.conv1d(x.view(1, 2, 3), torch.ones(2, 2, 2)),
        F.cross_entropy(x, torch.tensor([0, 1])),
        F.embedding(torch.tensor([0, 1]), WEIGHT),
        F.interpolate(x.view(1, 2, 3), scale_factor=2, mode="linear"),
    )


def transforms(x):
    return torch.vmap(torch.sin)(x), torch.func.grad(lambda y: (y**2).sum())(x)


def complex_numbers(x):
    return torch.fft.rfft(x).abs(), x * 2j, torch.complex(x, x).conj().abs()


def inference(x):
    with torch.inference_mode():
        return x * 2


def recurrent(x):
    return LSTM(x[:, None])[0]


PROGRAMS = [
    random_numbers, in_place, out, writes_input, numbers_of_program, indices, autocast, gradients,
    statistics, lists, several_results, nested_results, layers, transforms, complex_numbers,
    inference, recurrent,
]  # fmt: skip


def by_make_fx(function, inputs, table):
    return make_fx(function, decomposition_table=dict(table))(*inputs)


def traced(tracer, program, functional=False, table=None):
    """The graph of a program, and the symbols that nobody has taken."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    x = mode.from_tensor(torch.zeros(2, 3), static_shapes=True)
    function = without_writes(program) if functional else program
    with mode, enable_python_dispatcher(), torch.no_grad():
        graph = tracer(function, [x], {} if table is None else table)
    return graph, mode.shape_env.pending_fresh_unbacked_symbols


def operators(gm):
    """The operators of a graph, with the layouts of their results."""
    gm.graph.eliminate_dead_code()
    return [
        (node.target, [layout(item) for item in pytree.tree_leaves(node.meta.get("val"))])
        for node in gm.graph.nodes
        if node.op == "call_function" and not any(word in node.name for word in UNEQUAL)
    ]


def layout(item):
    if not isinstance(item, torch.Tensor):
        return item
    return item.shape, item.stride(), item.dtype, item.device


def results(gm):
    x = torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
    torch.manual_seed(1)
    return pytree.tree_leaves((gm(x), x))


@pytest.mark.parametrize("functional", [False, True], ids=["as it is", "decomposed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recorded_graph_is_that_of_make_fx(program, functional):
    table = decompositions() if functional else {}
    mine, _ = traced(record_operators, program, functional, table)
    wanted, _ = traced(by_make_fx, program, functional, table)
    assert operators(mine) == operators(wanted)
    for one, other in zip(results(mine), results(wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@torch.library.custom_op("recorder_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


class Wrapped(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            plain = pytree.tree_map_only(cls, lambda item: item.as_subclass(torch.Tensor), args)
            return func(*plain, **(kwargs or {}))


REFUSED = {
    "a number": lambda x: x * (x + torch.rand(2, 3))[0, 0].item(),
    "a number of an input": lambda x: x * x[0, 0].item(),
    "a number of a constant": number_of_constant,
    "positions": lambda x: x.nonzero(),
    "masked": lambda x: (x[(x + 1) > 0], x[0] > 0, x[0][x[0] > 0]),
    "custom": lambda x: positive(x * 2) * 2,
}


@pytest.mark.parametrize("functional", [False, True], ids=["as it is", "functional"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_left_to_make_fx(name, functional):
    program = REFUSED[name]
    before = torch.get_rng_state(), torch.is_autocast_cache_enabled()
    with pytest.raises(CannotRecord):
        traced(record_operators, program, functional)
    mine, left = traced(trace_operators, program, functional)
    assert not left
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.is_autocast_cache_enabled() is before[1]
    wanted, _ = traced(by_make_fx, program, functional)
    called = [
        [n.target for n in gm.graph.nodes if n.op == "call_function"] for gm in (mine, wanted)
    ]
    assert called[0] == called[1]
    bound = [
        [sorted(node.meta.get("unbacked_bindings") or (), key=str) != [] for node in gm.graph.nodes]
        for gm in (mine, wanted)
    ]
    assert bound[0] == bound[1]


def test_subclasses_and_operators_of_higher_order_cannot_be_recorded():
    wrapped = torch.ones(2, 3).as_subclass(Wrapped)
    for program in (
        lambda x: x + wrapped,
        lambda x: torch.ops.higher_order.cond(x, None, None, ()),
    ):
        with pytest.raises(CannotRecord):
            traced(record_operators, program)


def test_an_error_of_the_program_ends_the_modes():
    before = torch.is_autocast_cache_enabled()
    for program, error in ((lambda x: 1 / 0, ZeroDivisionError), (lambda x: [].pop(), IndexError)):
        with pytest.raises(error):
            traced(record_operators, program)
    assert torch.is_autocast_cache_enabled() is before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_training_graph_with_sizes_that_vary_is_recorded(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("traced by make_fx")

    def loss(x, weight):
        y = F.pad((x @ weight).relu(), (0, 1))
        return F.layer_norm(y.view(x.shape[0] * 2, -1), (2,)).sin().mean()

    monkeypatch.setattr(tracing_lock, "make_fx", refuse)
    compiled = framejit.compile(loss, backend="native", dynamic=True)
    for count in (4, 6):
        outcomes = []
        for call in (compiled, loss):
            x, weight = torch.ones(count, 3), WEIGHT.detach().clone().requires_grad_()
            result = call(x, weight)
            result.backward()
            outcomes.append((result, weight.grad))
        torch.testing.assert_close(*outcomes)
    assert len(compiled.framejit.explain().captures) == 1


def test_a_size_is_recorded_once():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    varying = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    x = mode.from_tensor(torch.ones(4, 3), symbolic_context=varying)

    def run(x):
        return x.new_zeros(x.shape[0] * 2) + 1, x.new_ones(x.shape[0] * 2)

    with mode:
        traced = record_operators(run, [x], {}, sizes=True)
        with pytest.raises(CannotRecord):
            record_operators(run, [x], {})
    (size,) = (node for node in traced.graph.nodes if isinstance(node.target, GivenSize))
    assert size.meta["val"].node.expr == x.shape[0].node.expr * 2
    assert len(size.users) == 2
