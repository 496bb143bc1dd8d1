"""What compile() takes: modules however their forward is defined, proxies, partials, builtins,
callable objects; and what it says of what it does not take, of copies, and of classes whose calls
it cannot reach."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings

import framejit
import pytest
import torch
from framejit.errors import FramejitWarning
from torch import nn


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


class Descriptor:
    def __get__(self, instance, owner):
        return lambda x: x * 3 + (instance is not None)


def scaled(x, by):
    return x * by


class ByStatic(nn.Module):
    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)


class ByClass(nn.Module):
    by = 3

    @classmethod
    def forward(cls, x):
        return x * cls.by


class ByPartial(nn.Module):
    forward = functools.partial(scaled, by=4)


class ByPartialMethod(nn.Module):
    def scale(self, x, by):
        return x * by

    forward = functools.partialmethod(scale, by=5)


class ByLambda(nn.Module):
    forward = lambda self, x: x * 2  # noqa: E731


class ByObject(nn.Module):
    forward = Scale(5)


class ByProperty(nn.Module):
    @property
    def forward(self):
        return self.add

    def add(self, x):
        return x + 7


class ByDescriptor(nn.Module):
    forward = Descriptor()


class ByBuiltin(nn.Module):
    forward = staticmethod(torch.sin)


class ByDispatch(nn.Module):
    @functools.singledispatchmethod
    def forward(self, x):
        return x * 2

    @forward.register
    def _(self, x: torch.Tensor):
        return x * 3


class ByGetAttribute(nn.Module):
    def __getattribute__(self, name):
        if name == "forward":
            return lambda x: x + 3
        return super().__getattribute__(name)


class ByCallImpl(nn.Linear):
    def _call_impl(self, x):
        return super()._call_impl(x) * 2


class CallsOn(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


def on_instance(forward):
    module = nn.Linear(4, 4)
    module.forward = forward
    return module


MODULES = {cls.__name__: cls for cls in (
    ByStatic, ByClass, ByPartial, ByPartialMethod, ByLambda, ByObject, ByProperty, ByDescriptor, ByBuiltin, ByDispatch, ByGetAttribute,
)} | {
    "ByCallImpl": lambda: ByCallImpl(4, 4), "CallsOn": lambda: CallsOn(4, 4),
    "lambda of the instance": lambda: on_instance(lambda x: x + 1), "object of the instance": lambda: on_instance(Scale(3)),
    "partial of the instance": lambda: on_instance(functools.partial(scaled, by=2)),
    "another's forward": lambda: on_instance(nn.Conv1d(3, 3, 1).forward), "builtin of the instance": lambda: on_instance(torch.cos),
    "staticmethod on the instance": lambda: on_instance(ByStatic.forward),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("within", [False, True], ids=["alone", "in a sequence"])
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_ways_to_define_forward(make, within, backend):
    torch.manual_seed(0)
    module = make()
    module = nn.Sequential(nn.Linear(4, 4), module) if within else module
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    expected = module(x)
    gradients = torch.autograd.grad(expected.sum(), x)
    compiled = framejit.compile(module, backend=backend)
    for _ in range(2):
        found = compiled(x)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), x), gradients)
    assert compiled.framejit.is_compiled and compiled.framejit.compiles > 0
    slot, module._compiled_call_impl = module._compiled_call_impl, None
    with module.register_forward_hook(lambda module, args, result: result + 1):
        hooked = module(y)
        module._compiled_call_impl = slot
        torch.testing.assert_close(compiled(y), hooked)


class Proxy:
    """Says that it is the module inside."""

    def __init__(self, module):
        self.__dict__["module"] = module

    @property
    def __class__(self):
        return type(self.module)

    def __getattr__(self, name):
        return getattr(self.__dict__["module"], name)

    def __call__(self, *args):
        return self.module(*args)


class Callee:
    def __init__(self):
        self.calls, self.by = 0, 2

    def __call__(self, x, more=0):
        self.calls += 1
        return x * self.by + more


CALLABLES = {
    "proxy": lambda: Proxy(nn.Linear(4, 4)), "partial": lambda: functools.partial(scaled, by=2), "object": Callee,
    "partial of a partial": lambda: functools.partial(functools.partial(scaled), by=2), "builtin": lambda: torch.sin,
    "partial of a module": lambda: functools.partial(nn.Linear(4, 4)), "method of an object": lambda: Callee().__call__,
    "method of a builtin": lambda: torch.ones(4).add, "bound method of a class": lambda: functools.partial(torch.add, alpha=2, other=1),
    "operator": lambda: torch.ops.aten.sin.default, "cached": lambda: functools.cache(lambda x: x + 1),
    "object with a module": lambda: Scale(nn.Parameter(torch.ones(4))),
}  # fmt: skip


@pytest.mark.parametrize("make", CALLABLES.values(), ids=CALLABLES)
def test_what_else_can_be_called(make):
    torch.manual_seed(0)
    target = make()
    compiled = framejit.compile(target)
    for rows in (3, 3, 5):
        x = torch.randn(rows, 4) if not hasattr(target, "__self__") else torch.randn(4)
        torch.testing.assert_close(compiled(x), target(x))
    assert compiled.framejit.compiles > 0 and compiled.framejit.explain() is not None
    assert framejit.explain(target)(x).captures
    around = framejit.compile(lambda x: compiled(x) + 1)
    torch.testing.assert_close(around(x), target(x) + 1)


def test_the_state_of_an_object_is_seen():
    target = Callee()
    compiled = framejit.compile(target)
    assert compiled(torch.ones(2), more=1).equal(torch.full((2,), 3.0))
    target.by = 5
    assert compiled(torch.ones(2), 1).equal(torch.full((2,), 6.0)) and target.calls == 2


@pytest.mark.parametrize("make", [
    lambda: torch.jit.script(nn.Linear(2, 2)), lambda: torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)),
    lambda: torch.jit.script(nn.functional.relu), lambda: torch.jit.script(nn.Linear(2, 2)).forward,
], ids=["script", "trace", "function", "method"])  # fmt: skip
def test_what_torchscript_compiled_is_refused_with_the_remedy(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        target = make()
    for compile_ in (framejit.compile, framejit.explain):
        with pytest.raises(TypeError, match="without torch.jit.script"):
            compile_(target)() if compile_ is framejit.explain else compile_(target)


def test_no_module_that_is_no_module():
    for wrong in (3, "text", nn.Linear, Callee().calls):
        with pytest.raises(TypeError, match="framejit.compile takes"):
            framejit.compile(wrong)


class NeverThere(nn.Module):
    """As gpytorch's models: a call that goes to forward by itself."""

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return x * 2


class Below(NeverThere):
    def __call__(self, x):
        return super().__call__(x) + 1


@pytest.mark.parametrize("cls", [NeverThere, Below])
def test_a_call_that_no_compiled_call_is_reached_from(cls):
    module = cls()
    with pytest.warns(
        FramejitWarning,
        match="NeverThere.__call__ does not call nn.Module.__call__.*Compile a function that calls it",
    ):
        compiled = framejit.compile(module)
    x = torch.ones(2)
    expected = cls()(x)
    assert compiled is module and compiled(x).equal(expected)
    assert (
        "compile a function that calls the module" in str(module.framejit.explain())
        and not module.framejit.compiles
    )
    as_told = framejit.compile(lambda *args: module(*args))
    assert as_told(x).equal(expected) and as_told.framejit.explain().ops > 0


@pytest.mark.parametrize(
    "make_copy",
    [copy.deepcopy, copy.copy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["deep", "copy", "pickle"],
)
def test_a_copy_says_that_it_is_not_compiled(make_copy):
    module = framejit.compile(nn.Linear(2, 2))
    module(torch.ones(1, 2))
    other = make_copy(module)
    if make_copy is copy.copy:  # shares what the module has, its answers as well
        assert other(torch.ones(1, 2)).equal(module(torch.ones(1, 2)))
        return
    assert not other.framejit.is_compiled and other.framejit.compiles == 0
    assert (
        "a copy of a compiled module is not compiled" in other.framejit.explain().skipped[0].reason
    )
    assert "Linear" in str(other.framejit.explain())
    framejit.compile(other)(torch.ones(1, 2))
    assert other.framejit.compiles == 1 == module.framejit.compiles


def test_what_is_switched_off_says_so(monkeypatch):
    for compiled in (
        framejit.compile(nn.Identity(), disable=True),
        framejit.compile(lambda x: x, disable=True),
    ):
        assert "switched off" in compiled.framejit.explain().skipped[0].reason and compiled(1) == 1
    with framejit.config.patch(disable=True):
        assert "FRAMEJIT_DISABLE" in str(framejit.compile(nn.Identity()).framejit.explain())


class Pair(__import__("typing").NamedTuple):
    first: int
    second: int = 2

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def make(cls, x):
        return cls(x, 5)

    @property
    def total(self):
        return self.first + self.second

    def scaled(self, x):
        return x * self.first


class Overriding(__import__("collections").namedtuple("Overriding", "first second")):  # noqa: PYI024
    offset = 5

    @property
    def first(self):
        return 100

    @staticmethod
    def double(x):
        return x * 2


def missing(pair):
    try:
        return pair.nothing
    except AttributeError as error:
        return str(error)


NAMED_TUPLES = {
    "static of an instance": lambda x, p, q: p.double(x) + Pair(1).double(x) + q.double(x), "static of the class": lambda x, p, q: Pair.double(x),
    "class method": lambda x, p, q: p.make(x).second + Pair.make(x).first + Pair(1).make(x).first,
    "property": lambda x, p, q: p.total + Pair(4).total, "method": lambda x, p, q: p.scaled(x) + Pair(4).scaled(x),
    "a field overridden": lambda x, p, q: x * q.first + q[0] + Overriding(1, 2).first, "class attribute": lambda x, p, q: x * q.offset,
    "no such attribute": lambda x, p, q: (missing(p), missing(Pair(1)), missing(q)), "replaced": lambda x, p, q: p._replace(first=x).first,
}  # fmt: skip


@pytest.mark.parametrize("call", NAMED_TUPLES.values(), ids=NAMED_TUPLES)
def test_named_tuples_with_methods(call):
    x, pair, other = torch.ones(2), Pair(3), Overriding(1, 2)
    expected = call(x, pair, other)
    handle = framejit.compile(call)
    for _ in range(2):
        found = handle(x, pair, other)
        assert found.equal(expected) if isinstance(expected, torch.Tensor) else found == expected
    assert not handle.framejit.explain().breaks
