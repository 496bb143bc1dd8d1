"""Tensor subclasses written in Python: their __torch_function__, methods and attributes are
captured, and results have their class."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from framejit import events

from ...semantics.harness import strict_compile, vec

HANDLED = {}


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(
            (func.__name__, len(args), sorted(kwargs or {}), [of.__name__ for of in types])
        )
        return super().__torch_function__(func, types, args, kwargs or {})


class Handled(torch.Tensor):
    """By a table, as torch's own examples do."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args, **kwargs or {})
        return super().__torch_function__(func, types, args, kwargs or {})


HANDLED[torch.add] = lambda a, b: ("added", a.sum())
HANDLED[torch.Tensor.mul] = lambda a, b: a.sum() - b


class Box(torch.Tensor):
    """Results are plain, but for some that keep what the instance knows: torchvision's way."""

    @classmethod
    def wrap(cls, tensor, kind):
        made = tensor.as_subclass(cls)
        made.kind = kind
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(cls, of) for of in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs or {})
        return (
            cls.wrap(result, getattr(args[0], "kind", None))
            if func in (torch.Tensor.clone, torch.Tensor.to)
            else result
        )


class Own(torch.Tensor):
    def twice(self):
        return self * 2

    @property
    def half(self):
        return self / 2

    def __add__(self, other):
        return torch.Tensor.add(self, other) * 10

    def __len__(self):
        return 77


class Weight(torch.nn.Parameter):
    @property
    def tenfold(self):
        return self * 10


def operations(x, t):
    return [
        t + 1, 1 + t, x + t, t + x, t - 1, 1 - t, t / 2, 2 / t, t**2, 2**t, t // 1, t @ x, -t, abs(t), t == 1, t < x, t.sin(), torch.sin(t),
        torch.cat([t, x]), t.shape, t.size(0), t.dim(), t[0], t[:1], t.T, t.dtype, t.device, t.sum(), t.view(1, 2), F.relu(t),
        F.linear(t, torch.ones(2, 2)), torch.stack((t, t)), torch.split(t, 1), t.unbind(), t.to(torch.float64), t.requires_grad, len(t),
        t.max(0), torch.where(t > 1, t, x), t.clone(), t.detach(), torch.zeros_like(t), F.softmax(t, 0), isinstance(t, Logged),
        type(t).__name__, t.new_zeros(2), t.numel(), t.ndim, [part + 1 for part in t], t.norm(), t.reshape(2, 1),
    ]  # fmt: skip


def tabled(x, t):
    return torch.add(t, x), t * 2, t.sin()


def boxed(x, t):
    t.kind = "xyxy"
    return t + 1, t.clone(), t.clone().kind, t.to(torch.float64).kind, t.kind, t.shape


def own_methods(x, t):
    return t.twice(), t.half, t + 1, len(t), x + t, t.twice().half


def in_place(x, t):
    added = t.add_(1)
    t += 1
    t[0] = 5
    return added is t, t, x + t


def attributes(x, t):
    t.tag = "q"
    made = t * 2
    made.tag = x
    return made, made.tag, t.tag, hasattr(made, "nope"), getattr(t, "nope", 3)


def made_inside(x, t):
    return x.as_subclass(Own).twice(), t.as_subclass(torch.Tensor) + 1, x.as_subclass(Plain)


def broken(x, t):
    made = t * 2
    print(type(made).__name__)
    return made + t


def as_weight(x, t):
    return (
        t + 1,
        t.tenfold,
        F.linear(x, t[None]),
        t.requires_grad,
        isinstance(t, torch.nn.Parameter),
    )


def seen(value):
    """What can be compared of a result."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return (
                type(value),
                value.tolist(),
                value.dtype,
                value.requires_grad,
                {name: seen(item) for name, item in value.__dict__.items()},
            )
    return (
        [seen(item) for item in value]
        if isinstance(value, list | tuple) and not isinstance(value, torch.Size)
        else value
    )


def instance(cls, grad=False):
    with torch._C.DisableTorchFunctionSubclass():
        return Weight(vec(2)) if cls is Weight else vec(2, grad=grad).as_subclass(cls)


CASES = [
    (operations, Plain), (operations, Logged), (operations, Box), (tabled, Handled), (boxed, Box), (own_methods, Own), (in_place, Plain),
    (in_place, Logged), (attributes, Plain), (made_inside, Plain), (as_weight, Weight),
]  # fmt: skip


@pytest.mark.parametrize("function, cls", CASES, ids=lambda value: value.__name__)
def test_one_graph(function, cls):
    compiled = strict_compile(function, fullgraph=True)
    for _ in range(2):
        outcomes = []
        for call in (function, compiled):
            Logged.calls.clear()
            given = instance(cls)
            outcomes.append((seen(call(vec(2), given)), seen(given), list(Logged.calls)))
        assert outcomes[0] == outcomes[1]
    assert compiled.framejit.compiles == 1


def two_classes(x, t):
    try:
        return t + x.as_subclass(Logged)
    except TypeError as error:
        return t * 2, str(error)


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def refused(x, t):
    try:
        return t + x
    except TypeError:
        return x + 1


BREAKING = [(broken, Plain), (broken, Box), (two_classes, Plain), (refused, Refusing)]


@pytest.mark.parametrize("function, cls", BREAKING, ids=lambda value: value.__name__)
def test_around_breaks(function, cls, capsys):
    compiled = strict_compile(function)
    for _ in range(2):
        outcomes = []
        for call in (function, compiled):
            outcomes.append((seen(call(vec(2), instance(cls))), capsys.readouterr().out))
        assert outcomes[0] == outcomes[1]


def test_gradients_reach_the_instance():
    def f(x, weight):
        return (x * weight).sin() + weight.tenfold

    grads = []
    for call in (f, strict_compile(f, fullgraph=True), strict_compile(f, backend="aot_eager")):
        weight, x = Weight(vec(2)), vec(2, grad=True)
        call(x, weight).sum().backward()
        grads.append((weight.grad.tolist(), x.grad.tolist()))
    assert grads[0] == grads[1] == grads[2]


def test_a_module_with_weights_of_a_class():
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Weight(vec(2))

        def forward(self, x):
            return x * self.weight + self.weight.tenfold

    module = Scale()
    compiled = framejit_of(module)
    assert torch.equal(compiled(vec(2)), module(vec(2)))
    with torch.no_grad():
        module.weight.mul_(2)
    assert torch.equal(compiled(vec(2)), module(vec(2)))


def framejit_of(module):
    return strict_compile(lambda x: module(x), fullgraph=True)


def test_a_plain_tensor_has_an_entry_of_its_own():
    def f(x):
        return x.sin() + 1

    compiled = strict_compile(f)
    recorder = events.Recorder()
    compiled.framejit.cache.sinks.append(recorder)
    for given in (vec(2), instance(Plain), vec(2), instance(Own), instance(Plain)):
        assert seen(compiled(given)) == seen(f(given))
    assert compiled.framejit.compiles == 3 and not [
        event for event in recorder.events if isinstance(event, events.Break)
    ]


def test_functions_that_close_over_themselves():
    class Counted:
        def __init__(self):
            def count(n):
                return n if n == 0 else count(n - 1) + 1

            self.count = count

        def __getattr__(self, name):
            return self.count(3)

    counted = Counted()

    def f(x):
        return x * counted.three

    assert torch.equal(strict_compile(f, fullgraph=True)(vec(2)), vec(2) * 3)


def tenfold(cls, func, types, args=(), kwargs=None):
    with torch._C.DisableTorchFunctionSubclass():
        result = func(*args, **kwargs or {})
    return result * 10 if func is torch.Tensor.add else result


@pytest.mark.parametrize("owner", [0, 1], ids=["its own class", "a class below"])
@pytest.mark.parametrize("made_inside", [False, True])
def test_torch_function_replaced_after_compile_is_seen(made_inside, owner):
    class Below(torch.Tensor):
        pass

    class Above(Below):
        pass

    def f(x):
        return (x.as_subclass(Above) if made_inside else x) + 1

    def asked():
        x = vec(2) if made_inside else vec(2).as_subclass(Above)
        return seen(f(x)), seen(compiled(x))

    compiled = strict_compile(f)
    changed = (Above, Below)[owner]
    for new in (None, classmethod(tenfold), torch._C._disabled_torch_function_impl):
        if new is not None:
            changed.__torch_function__ = new
        expected, found = asked()
        assert found == expected
    del changed.__torch_function__
    expected, found = asked()
    assert found == expected


class Doubling(torch.Tensor):
    """Doubles what torch gives, below its own `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs or {})
            return result * 2


def test_methods_of_torch_that_call_others_in_c():
    """Tensor.unflatten is written in Python, and calls the method of its base class."""

    def program(t):
        return t.unflatten(0, (2, 2)), torch.Tensor.unflatten(t, 0, (2, 2))

    handle = strict_compile(program, backend="eager", fullgraph=True)
    for mine, other in zip(
        program(vec(4).as_subclass(Doubling)), handle(vec(4).as_subclass(Doubling)), strict=True
    ):
        assert torch.equal(mine, other)


def test_a_call_while_torch_function_is_switched_off():
    handle = strict_compile(lambda t: t.sin(), backend="eager")
    t = vec(4).as_subclass(Doubling)
    doubled = handle(t)
    with torch._C.DisableTorchFunctionSubclass():
        assert torch.equal(handle(t) * 2, doubled)
        assert torch.equal(handle(t) * 2, doubled)
    assert torch.equal(handle(t), doubled)
    report = handle.framejit.explain()
    assert (len(report.graphs), len(report.breaks)) == (2, 0), str(report)


class Talking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.sin:
            print("sin")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_break_inside_torch_function(capsys):
    handle = strict_compile(lambda t: (t * 2).sin() + 1, backend="eager")
    for _ in range(2):
        made = handle(vec(4).as_subclass(Talking))
        assert torch.equal(made, ((vec(4) * 2).sin() + 1).as_subclass(Talking))
    assert capsys.readouterr().out == "sin\n" * 2
    report = handle.framejit.explain()
    assert (len(report.graphs), len(report.breaks)) == (2, 1), str(report)


def test_attributes_with_the_name_of_a_method():
    def labelled():
        t = vec(4).as_subclass(Plain)
        t.inner = "metres"
        return t

    handle = strict_compile(lambda t: (t.inner, t * 2), backend="eager")
    assert handle(labelled())[0] == "metres"
    assert handle(labelled())[0] == "metres"
