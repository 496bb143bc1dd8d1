"""What is not captured costs one break with a reason, and gives eager's results: effects of C
code on objects, unusual subclasses, autograd inside."""

from __future__ import annotations

import copy
import functools
import itertools
import re
import threading
import types
import weakref

import pytest
import torch

from .harness import check, strict_compile, vec


class Text(str):
    def shout(self):
        return self.upper() + "!"


class Number(int):
    pass


class Share(float):
    pass


class Pair(tuple):
    def total(self):
        return self[0] + self[1]


class Bag(set):
    pass


class Counted:
    made = 0


def class_attribute(x):
    y = x + 1
    Counted.made += 1
    return y * Counted.made


def subclasses(x, text, number, share, pair, bag):
    y = x + number
    return y * share + pair.total(), text.shout(), len(bag), number + 1, text + "a"


def subclasses_made(x):
    y = x + Number(3)
    return y * Share(0.5), Text("a").shout(), Pair((y, 1)).total(), sorted(Bag([2, 1]))


def namespace(x, n):
    n.count += 1
    made = types.SimpleNamespace(a=x + 1, b=n.count)
    made.b += 1
    return made.a * made.b, made


def compared(x, items):
    y = x + 1
    ordered = sorted(items, key=functools.cmp_to_key(lambda a, b: b - a))
    return y * 2, ordered


def identity(x, items):
    y = x + 1
    return y * 2, id(items) == id(items)


def numbers(x):
    y = x + 1
    a = y.numpy() * 2
    return torch.from_numpy(a) + 1


def hooked(x):
    seen = []
    y = x * 2
    y.register_hook(lambda grad: seen.append(grad.sum().item()))
    (y * 3).sum().backward()
    return seen, x.grad


def differentiated(x):
    y = (x * 3).sum()
    (grad,) = torch.autograd.grad(y, x)
    return grad * 2


def forward_mode(x):
    primal, tangent = torch.func.jvp(lambda t: t.sin() * 2, (x,), (torch.ones_like(x),))
    return primal + 1, tangent * 2


def random_state(x):
    before = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(before)
    b = torch.rand(2)
    torch.manual_seed(3)
    return a - b, torch.rand(2) + x, torch.initial_seed()


def generator(x):
    made = torch.Generator().manual_seed(1)
    return x + torch.rand(2, generator=made), torch.randn(2, generator=made)


def distribution(x):
    normal = torch.distributions.Normal(x, torch.ones(2))
    return (
        normal.log_prob(x + 1),
        normal.sample().shape,
        torch.distributions.Categorical(logits=x).entropy(),
    )


CASES = [
    (subclasses, (Text("q"), Number(2), Share(1.5), Pair((1, 2)), Bag({1}))), (subclasses_made, ()),
    (namespace, (types.SimpleNamespace(count=1),)), (compared, ([1, 3, 2],)), (identity, ([],)), (numbers, ()),
    (forward_mode, ()), (random_state, ()), (generator, ()), (distribution, ()),
]  # fmt: skip


@pytest.mark.parametrize("f, inputs", CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_right_with_breaks(f, inputs):
    check(
        f, vec(2), *inputs, graphs=None, breaks=None, again=f is not identity
    )  # an id is another one for each new object


@pytest.mark.parametrize("f", [hooked, differentiated])
def test_autograd_inside(f):
    check(f, vec(2, grad=True), graphs=None, breaks=None)


def test_a_class_attribute_is_stored_in_order():
    handle = strict_compile(class_attribute)
    outcomes = []
    for call in (class_attribute, handle):
        Counted.made = 0
        outcomes.append([(call(vec(2)).tolist(), Counted.made) for _ in range(3)])
    assert outcomes[0] == outcomes[1] and Counted.made == 3


class Logged(torch.Tensor):
    """A subclass with __torch_function__."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_tensor_subclass_with_torch_function():
    def f(x, t):
        y = x + 1
        z = t * 2
        return y + z

    outcomes = []
    for call in (f, strict_compile(f)):
        Logged.calls.clear()
        result = call(vec(2), vec(2).as_subclass(Logged))
        outcomes.append(
            (type(result), result.as_subclass(torch.Tensor).tolist(), list(Logged.calls))
        )
    assert outcomes[0] == outcomes[1]


def test_a_submodule_that_was_not_imported_yet(tmp_path, monkeypatch):
    package = tmp_path / "a_package_of_the_tests"
    package.mkdir()
    (package / "__init__.py").write_text("A = 3")
    (package / "inner.py").write_text("B = 4")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        y = x + 1
        try:
            from a_package_of_the_tests import missing  # noqa: F401
        except AttributeError:
            y = y * 100
        except ImportError as error:
            y = y * len(error.name)
        from a_package_of_the_tests import A, inner

        return y * inner.B + A

    __import__("a_package_of_the_tests")
    compiled = strict_compile(f)
    got = [compiled(vec(2)), compiled(vec(2))]
    assert torch.equal(got[0], f(vec(2))) and torch.equal(got[1], f(vec(2)))


def test_weak_references():
    class Thing:
        scale = 2.0

    thing = Thing()
    there, gone = weakref.ref(thing), weakref.ref(Thing())

    def f(x):
        found = there()
        return x * found.scale if gone() is None else x, found is there(), bool(gone)

    compiled = strict_compile(f)
    assert (
        compiled(vec(2))[1:] == (True, True)
        and len(compiled.framejit.explain().captures) == 1
        and torch.equal(compiled(vec(2))[0], vec(2) * 2)
    )
    thing.scale = 3.0
    assert torch.equal(compiled(vec(2))[0], vec(2) * 3)
    del thing
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'scale'"):
        compiled(vec(2))


def count_up():
    yield 1


def tried(function, *args):
    """What a call gives, or the error that it raises, as text."""
    try:
        return function(*args)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("make", [count_up, threading.Lock, lambda: itertools.count(3), lambda: re.compile("a"), lambda: iter([1, 2]),
                                  lambda: types.SimpleNamespace(a=1), lambda: types], ids=range(7))  # fmt: skip
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_of_what_is_made_in_c(make, way):
    obj = make()

    def f(x):
        copied = tried(way, obj)
        return x + 1, copied if isinstance(copied, str) else (type(copied), copied is obj)

    assert strict_compile(f)(vec(2))[1] == f(vec(2))[1]


def test_methods_of_modules():
    class Proxy:
        def __getattr__(self, name):
            return types.__getattribute__(name)

    proxy, bound = Proxy(), types.__getattribute__

    def f(x):
        return x + 1, proxy.FunctionType, bound("__name__"), types.__getattribute__("__name__")

    compiled = strict_compile(f)
    assert compiled(vec(2))[1:] == f(vec(2))[1:] == compiled(vec(2))[1:]


class Mortal:
    """Counts those that live."""

    living = 0

    def __init__(self):
        Mortal.living += 1

    def __del__(self):
        Mortal.living -= 1


def test_objects_that_do_something_when_they_die():
    def f(x):
        mortal = Mortal()
        return x * mortal.living + 1

    compiled = strict_compile(f)
    for _ in range(3):
        assert torch.equal(compiled(vec(2)), vec(2) + 1) and Mortal.living == 0
