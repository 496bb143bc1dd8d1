"""Wrapper subclasses: operators, attributes, constructors, writes and gradients are one graph whose
results have the class; what is guarded of an instance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from framejit import events
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...semantics.harness import capture_events, strict_compile, vec
from .wrappers import Int8Weight, Tagged, nested_pair, pair, visible

BACKENDS = ("eager", "aot_eager", "native", "autotune")


def pointwise(x, y):
    return x.sin() + 1, 2 * x - y / 3, torch.where(x > 0, x, y), x.abs().clamp(0.1, 0.5)


def products(x, y):
    return x @ y, F.linear(x, y), torch.relu(x).mm(y.t())


def reductions(x, y):
    return x.sum(), x.mean(1, keepdim=True), F.softmax(y, -1), F.layer_norm(x, (4,)), y.amax(0)


def views(x, y):
    z = x * y
    return z.view(-1), z.t(), z[0], z[:, 1:], x.view(-1), x.unbind(), x.detach(), z.reshape(2, 8)


def joined(x, y):
    return torch.cat([x, y]), torch.stack([x, y]).sum(0), torch.split(x, 2)


def inner_tensors(x, y):
    made = x * y
    return made, made.a, made.b.sin(), x.a, x.a is x.a, y.b * 2, x.get_elem_a()


def questions(x, y):
    made = x * y
    return (
        x + 1,
        isinstance(made, TwoTensor),
        type(made) is type(x),
        isinstance(x, torch.nn.Parameter),
        made.shape,
        made.dtype,
        x.requires_grad,
        hasattr(x, "nope"),
        hasattr(made, "a"),
        getattr(made, "nope", 3),
        len(x),
    )


def passed_on(x, y):
    kept = [x, y]
    return kept, x * 2


def rewritten(x, y):
    z = x * 2
    z[0] = 1
    z.mul_(y)
    z += 1
    return z


def mixed(x, y):
    return x + torch.ones(4), torch.ones(4, 4) @ y, x * y.sum()


def without_gradients(x, y):
    with torch.no_grad():
        return x * y, y.sin()


def looped(x, y):
    for factor in range(3):
        x = x * factor + y
    return [part * 2 for part in x]


PROGRAMS = [
    pointwise, products, reductions, views, joined, inner_tensors, questions, passed_on, rewritten,
    mixed, without_gradients, looped,
]  # fmt: skip


def outcome(function, inputs, backward):
    """The results, the gradients and the inputs afterwards."""
    results = function(*inputs)
    ends = [end for end in tensors(results) if end.requires_grad and end.grad_fn is not None]
    if backward and ends:
        sum(end.sin().sum() for end in ends).backward()
    return visible(results), visible([one.grad for one in inputs]), visible(inputs)


def tensors(value):
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def assert_same(mine, other, path="result"):
    assert type(mine) is type(other), f"{path}: {mine!r} in eager, {other!r} compiled"
    if isinstance(mine, torch.Tensor):
        torch.testing.assert_close(other, mine, msg=lambda text: f"{path}: {text}")
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(other), path
        for index, pair_ in enumerate(zip(mine, other, strict=True)):
            assert_same(*pair_, f"{path}[{index}]")
    elif isinstance(mine, dict):
        assert list(mine) == list(other), path
        for key in mine:
            assert_same(mine[key], other[key], f"{path}[{key!r}]")
    else:
        assert mine == other, f"{path}: {mine!r} in eager, {other!r} compiled"


def compiled(function, backend="eager"):
    options = {"options": {"patience": 0}} if backend == "autotune" else {}
    return strict_compile(function, backend=backend, **options)


def check(function, make, backend="eager", graphs=1, breaks=0, backward=False):
    """Asserts that compiled code does what eager does, in two calls."""
    wanted = outcome(function, make(), backward)
    handle = compiled(function, backend)
    assert_same(wanted, outcome(handle, make(), backward))
    count = handle.framejit.compiles
    assert_same(wanted, outcome(handle, make(), backward))
    assert handle.framejit.compiles == count, "the second call compiled again"
    report = handle.framejit.explain()
    assert (len(report.graphs), len(report.breaks)) == (graphs, breaks), str(report)
    return handle


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_are_one_graph(program, grad, backend):
    check(program, lambda: (pair(4, 4, grad=grad), pair(4, 4, grad=grad)), backend, backward=grad)


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize("program", [pointwise, products, inner_tensors], ids=lambda f: f.__name__)
def test_wrappers_of_wrappers(program, backend):
    check(program, lambda: (nested_pair(4, 4), nested_pair(4, 4)), backend)


def test_a_backend_that_cannot_take_wrappers_runs_them_as_captured():
    handle = check(pointwise, lambda: (pair(4, 4), pair(4, 4)), "torchscript")
    assert "torch.jit does not trace wrapper subclasses" in str(handle.framejit.explain())


def test_the_default_backend_chooses_for_the_inner_graph():
    handle = check(looped, lambda: (pair(64, 64), pair(64, 64)), "autotune")
    assert "measured (" in str(handle.framejit.explain())


class Counting(Tagged):
    """Counts its operators."""

    calls: list = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        cls.calls.append(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.parametrize("backend", ("aot_eager", "native"))
def test_compiled_calls_run_no_operator_of_the_class(backend):
    handle = compiled(lambda t: (t.sin() + 1) * t, backend)
    handle(Counting(vec(3), 2))
    assert Counting.calls
    Counting.calls.clear()
    assert torch.equal(handle(Counting(vec(3), 2)).inner, handle(Counting(vec(3), 2)).inner)
    assert Counting.calls == []


def test_inner_tensors_with_the_name_of_a_method():
    """torch.Tensor has a method `inner`."""
    check(lambda x: (x.inner * 2, (x + 1).inner), lambda: (Tagged(vec(3), 2),), "native")


# constructors, writes, and what breaks


def constructed(x, y):
    return TwoTensor(x, y).sin(), TwoTensor(x * 2, y).a, Tagged(x, 3).factor, Tagged(x, 2) * y


def from_inner(x, y):
    return [TwoTensor(x, y) + 1, Int8Weight.quantize(x).dequantize(), Int8Weight.quantize(y).bits]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [constructed, from_inner], ids=lambda f: f.__name__)
def test_constructors_are_nodes(program, backend):
    check(program, lambda: (vec(4, 4), vec(4, 4)), backend)


def writes(x, y):
    x.add_(1)
    x[0] = y[1]
    x *= 2
    return x * y


def writes_by_a_view(x, y):
    flat = x.view(-1)
    flat.mul_(2)
    return flat, x + y


def descends(x, y):
    with torch.no_grad():
        x.sub_(y * 0.1)
    return (x * y).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [writes, writes_by_a_view, descends], ids=lambda f: f.__name__)
def test_writes_reach_the_inputs(program, backend):
    check(program, lambda: (pair(4, 4), pair(4, 4)), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x, x),
        lambda x: (x, x.view(4, 4)),
        lambda x: (x, TwoTensor(x.a, x.b * 2)),
        lambda x: (x, TwoTensor(x.b, x.a)),
    ],
    ids=["one object", "a view", "one inner tensor", "exchanged inner tensors"],
)
def test_written_inputs_that_share_inner_tensors(make, backend):
    check(writes, lambda: make(pair(4, 4)), backend, graphs=1)


def writes_inner(x, y):
    with torch.no_grad():
        x.a.add_(1)
    return x * y


def writes_inner_of_result(x, y):
    z = x * y
    z.a.add_(1)
    return z + 1


def transposes_in_place(x, y):
    z = x * y
    z.t_()
    return z + 1


def stores_attribute(x, y):
    x.tag = 3
    return x * y, x.tag


def replaces_inner(x, y):
    x.a = y.b
    return x * 2


def prints(x, y):
    z = x * y
    print(type(z).__name__)
    return z + 1


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize(
    "program, graphs",
    [
        (writes_inner, 1),
        (writes_inner_of_result, 2),
        (transposes_in_place, 2),
        (stores_attribute, 1),
        (replaces_inner, 1),
        (prints, 2),
    ],
)
def test_one_break_where_python_has_to_run(program, graphs, backend):
    def run():
        check(program, lambda: (pair(4, 4), pair(4, 4)), backend, graphs=graphs, breaks=1)

    with ThreadPoolExecutor(1) as thread:  # t_() of a wrapper leaves torch's dispatch keys changed
        thread.submit(run).result()


def made_with_a_gradient(x, y):
    return TwoTensor(x, y) * 2


def test_a_new_leaf_breaks_once():
    check(
        made_with_a_gradient,
        lambda: (vec(4, grad=True), vec(4, grad=True)),
        graphs=1,
        breaks=1,
        backward=True,
    )


class Unknown(torch.Tensor):
    """A wrapper without torch's protocol."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        args = [arg.inner if isinstance(arg, cls) else arg for arg in args]
        return cls(func(*args, **kwargs or {}))


def test_the_code_of_other_subclasses_stays_in_python():
    handle = compiled(lambda x: x + 1)
    made = capture_events(handle)
    result = handle(Unknown(vec(3)))
    assert torch.equal(result.inner, vec(3) + 1)
    functions = {event.function for event in made if isinstance(event, events.Break)}
    assert len(functions) == 1, functions


# parameters


def quantized_network(grad):
    torch.manual_seed(0)
    first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
    weight = Int8Weight.quantize(first.weight.detach())
    first.weight = torch.nn.Parameter(weight, requires_grad=False)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second).requires_grad_(False), grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_a_quantized_weight_is_one_graph(grad, backend):
    network = quantized_network(grad)[0]
    network[2].requires_grad_(grad)

    def step(x):
        return network(x), network[0].weight.bits, isinstance(network[0].weight, torch.nn.Parameter)

    wanted = outcome(step, (vec(3, 8, grad=grad),), grad)
    handle = compiled(step, backend)
    for _ in range(2):
        network.zero_grad()
        assert_same(wanted, outcome(handle, (vec(3, 8, grad=grad),), grad))
    report = handle.framejit.explain()
    assert (len(report.graphs), len(report.breaks), handle.framejit.compiles) == (1, 0, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_with_wrapper_parameters(backend):
    def train(compile_):
        weight = torch.nn.Parameter(pair(4, 4))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        step = compile_(lambda x: F.linear(x, weight).tanh().sum())
        for _ in range(3):
            optimizer.zero_grad()
            step(pair(3, 4)).backward()
            optimizer.step()
        return visible([weight, weight.grad]), step

    wanted, _ = train(lambda function: function)
    found, step = train(lambda function: compiled(function, backend))
    assert_same(wanted, found)
    assert step.framejit.compiles == 1


# guards


def scaled(t):
    return t * 2, t.factor


def changed_factor(t):
    t.factor = 5
    return t


@pytest.mark.parametrize(
    "other",
    [
        lambda: Tagged(vec(3), 4),
        lambda: Tagged(vec(3).double(), 3),
        lambda: Tagged(pair(3), 3),
        lambda: changed_factor(Tagged(vec(3), 3)),
        lambda: Tagged(vec(3, grad=True), 3),
        lambda: vec(3).as_subclass(Named),
    ],
    ids=["metadata", "dtype", "class inside", "stored", "gradient", "class"],
)
def test_another_kind_of_instance_compiles_again(other):
    handle = compiled(scaled)
    assert_same(visible(scaled(Tagged(vec(3), 3))), visible(handle(Tagged(vec(3), 3))))
    assert_same(visible(scaled(other())), visible(handle(other())))
    assert handle.framejit.compiles == 2
    handle(Tagged(vec(3), 3))
    assert handle.framejit.compiles == 2


class Named(torch.Tensor):
    factor = 3


class Approximate(Tagged):
    """Its factors are equal up to 1."""

    @staticmethod
    def __metadata_guard__(mine, other):
        return abs(mine["factor"] - other["factor"]) <= 1


def test_the_class_compares_its_metadata():
    handle = compiled(lambda t: t * 2)
    for factor in (3, 4, 9):
        handle(Approximate(vec(3), factor))
    assert handle.framejit.compiles == 2


def test_an_edited_class_compiles_again(monkeypatch):
    handle = compiled(lambda t: t + 1)
    assert torch.equal(handle(Tagged(vec(3), 3)).inner, vec(3) + 1)
    original = Tagged.__torch_dispatch__.__func__

    def doubled(cls, func, types, args, kwargs=None):
        made = original(cls, func, types, args, kwargs)
        return cls(made.inner * 2, made.factor)

    monkeypatch.setattr(Tagged, "__torch_dispatch__", classmethod(doubled))
    assert torch.equal(handle(Tagged(vec(3), 3)).inner, (vec(3) + 1) * 2)
    assert handle.framejit.compiles == 2


# sizes


def sized(x, y):
    z = (x * y).view(-1)
    return z, x.shape[0] * 2, z.sum() / x.size(0), x.a[: x.shape[0] - 1], F.softmax(x @ y.t(), -1)


@pytest.mark.sweep(5, each=("backend", "grad", "program"))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", [pointwise, sized, rewritten], ids=lambda f: f.__name__)
def test_sizes_that_vary_compile_twice(program, grad, backend):
    handle = compiled(program, backend)
    for size in (4, 6, 9, 5):
        inputs = [(pair(size, 4, grad=grad), pair(size, 4, grad=grad)) for _ in range(2)]
        wanted = outcome(program, inputs[0], grad)
        assert_same(wanted, outcome(handle, inputs[1], grad))
    assert handle.framejit.compiles == 2
    assert not handle.framejit.explain().breaks


def test_sizes_that_vary_inside_a_wrapper_of_wrappers():
    handle = compiled(pointwise)
    for size in (4, 6, 9):
        inputs = (nested_pair(size, 4), nested_pair(size, 4))
        assert_same(visible(pointwise(*inputs)), visible(handle(*inputs)))
    assert handle.framejit.compiles == 2


def test_other_sizes_than_those_of_the_inner_tensors():
    handle = compiled(lambda w, x: F.linear(x, w))
    for rows in (4, 6, 9):
        weight = Int8Weight.quantize(vec(rows, 8))
        assert_same(F.linear(vec(2, 8), weight), handle(weight, vec(2, 8)))
    assert handle.framejit.compiles == 2


class Forward(Tagged):
    """Has no derivative of a sine."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.cos.default:
            raise NotADirectoryError("no cosine")
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_that_fails_in_the_backward_pass(backend):
    x = Forward(vec(4, 4), 3).requires_grad_()
    handle = compiled(lambda x: x.sin() * 2, backend)
    made = handle(x)
    assert_same((x.sin() * 2).detach().inner, made.detach().inner)
    assert len(handle.framejit.explain().graphs) == 1
    with pytest.raises(NotADirectoryError):
        made.backward(x.detach())


# modes around the call


class Noting(TorchDispatchMode):
    """Notes the operators that it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("backend", ("eager", "native"))
@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_mode_around_the_call_sees_the_operators(compiled_before, backend):
    def step(x):
        return x.sin() * 2 + 1

    handle = compiled(step, backend)
    if compiled_before:
        handle(pair(3))
    seen = []
    for function in (step, handle):
        with Noting() as mode:
            function(pair(3))
        seen.append(mode.seen)
    assert seen[0] == seen[1] and "aten.sin.default" in seen[0]
