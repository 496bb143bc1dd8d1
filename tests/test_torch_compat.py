"""Each probe of torch_compat.py, for both answers that torches give."""

from __future__ import annotations

import functools

import framejit
import pytest
import torch
from framejit.backends import registry
from framejit.frontend.values import models as model_files
from framejit.frontend.values import registry as value_registry
from framejit.frontend.values.containers.sequence import TupleValue
from framejit.torch_compat import (
    AUTOGRAD_FUNCTION,
    FUNCTION_APPLY,
    SWITCHED_OFF,
    backend_feature,
    probe_function_apply,
)


class InPython:
    """torch.autograd.Function as it is up to 2.14."""

    @classmethod
    def apply(cls, *args):
        return args


class InC:
    """As it is from 2.15 on: a method of classes that is written in C."""

    apply = dict.__dict__["fromkeys"]


def test_what_apply_is_before_it_is_bound():
    assert probe_function_apply(InPython) is InPython.apply.__func__
    assert probe_function_apply(InC) is dict.__dict__["fromkeys"]
    model_files.ensure_models()
    assert value_registry.model_of(FUNCTION_APPLY) is not None


class Ordered(dict):
    pass


from_keys = Ordered.fromkeys
by_name = dict.fromkeys


@pytest.fixture
def modelled_in_c(monkeypatch):
    """A class method written in C that is known: its model tells the class and the argument."""
    known = value_registry._models.handlers
    monkeypatch.setitem(
        known, dict.__dict__["fromkeys"], lambda tx, cls, keys: TupleValue([cls, keys])
    )


@pytest.mark.parametrize(
    ("function", "cls"),
    [
        (lambda x: (Ordered.fromkeys("ab"), x + 1), Ordered),
        (lambda x: (dict.fromkeys("ab"), x + 1), dict),
        (lambda x: (from_keys("ab"), x + 1), Ordered),
        (lambda x: (by_name("ab"), x + 1), dict),
    ],
    ids=["attribute", "of a builtin", "bound before", "of a builtin, bound before"],
)
def test_a_known_class_method_in_c_is_called_with_its_class(modelled_in_c, function, cls):
    handle = framejit.compile(function, fullgraph=True)
    (found, keys), y = handle(torch.ones(2))
    assert found is cls and keys == "ab" and y.tolist() == [2, 2]


def test_a_bound_class_method_is_guarded(modelled_in_c, monkeypatch):
    handle = framejit.compile(lambda x: (from_keys("ab")[0], x + 1))
    assert handle(torch.ones(2))[0] is Ordered
    monkeypatch.setitem(globals(), "from_keys", dict.fromkeys)
    assert handle(torch.ones(2))[0] is dict


class Tripled(torch.autograd.Function):
    """Its gradient is not what torch would find."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


class Boxed(Tripled):
    boxed_grads_call = True

    @staticmethod
    def backward(ctx, grads):
        return grads[0] * 7 if isinstance(grads, list) else grads * 7


class Cleared(Tripled):
    clear_saved_tensors_on_access = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x


tripled = Tripled.apply


def gradient(function):
    x = torch.arange(3.0, requires_grad=True)
    function(x).backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    ("function", "breaks"),
    [
        (lambda x: Tripled.apply(x).sum(), 0), (lambda x: tripled(x).sum(), 0),
        (lambda x: Boxed.apply(x).sum(), 1), (lambda x: Cleared.apply(x).sum(), 1),
    ],
    ids=["attribute", "bound before", "gradients in a list", "tensors that are read once"],
)  # fmt: skip
def test_functions_with_gradients_of_their_own(function, breaks):
    handle = framejit.compile(function)
    assert gradient(handle) == gradient(function) == gradient(handle)
    assert len(handle.framejit.explain().breaks) >= breaks and bool(
        handle.framejit.explain().breaks
    ) is bool(breaks)


def test_functions_that_are_switched_off_break(monkeypatch):
    monkeypatch.setitem(SWITCHED_OFF, AUTOGRAD_FUNCTION, "a reason")
    handle = framejit.compile(lambda x: Tripled.apply(x).sum())
    assert gradient(handle) == gradient(lambda x: Tripled.apply(x).sum())
    assert "a reason" in handle.framejit.explain().breaks[0].reason


def test_a_backend_that_is_switched_off_says_so_and_its_graphs_run_as_captured(monkeypatch):
    monkeypatch.setitem(SWITCHED_OFF, backend_feature("aot_eager"), "a reason")
    assert "a reason" in registry.info("aot_eager").reason and not registry.info("aot_eager").usable
    with pytest.warns(UserWarning, match="a reason"):
        assert framejit.compile(lambda x: x.sin() + 1, backend="aot_eager")(
            torch.zeros(2)
        ).tolist() == [1, 1]
    assert registry.info("eager").usable
    monkeypatch.setitem(SWITCHED_OFF, backend_feature("cudagraphs"), "another reason")
    assert "another reason" in registry.lookup("native+cudagraphs").missing()


def test_a_file_of_models_that_cannot_be_imported_registers_nothing(monkeypatch):
    def fails(name):
        value_registry.models(fails)(lambda tx: None)
        raise AttributeError("torch.gone")

    monkeypatch.setattr(model_files.importlib, "import_module", fails)
    before = value_registry.keys_so_far()
    model_files.register_file("checkpoint")
    assert value_registry.keys_so_far() == before
    assert "torch.gone" in SWITCHED_OFF.pop("what torch.checkpoint does")
    with pytest.raises(AttributeError):
        model_files.register_file("builtins")
    value_registry.forget_since(before)


def as_in_2_15(func, name):
    """What torch.utils._contextlib does from 2.15 on with the function that a decorator returns."""
    func.__code__ = func.__code__.replace(co_name=name, co_qualname=name)


def as_before(func, name):
    """Nothing was done before."""


as_in_2_15.__module__, as_in_2_15.__qualname__ = "torch.utils._contextlib", "_set_stack_frame_name"


def decorate(function, set_name):
    @functools.wraps(function)
    def decorated(*args):
        with torch.no_grad():
            return function(*args)

    set_name(decorated, "no_grad")
    return decorated


@pytest.mark.parametrize("set_name", [as_in_2_15, as_before])
def test_a_function_that_is_decorated_inside_is_captured_once(set_name):
    def f(x):
        inner = decorate(torch.sin, set_name)
        print("a break")
        return inner(x), inner.__code__.co_name, inner.__name__

    handle = framejit.compile(f)
    for _ in range(3):
        (y, *names), (expected, *expected_names) = handle(torch.ones(3)), f(torch.ones(3))
        assert y.equal(expected) and names == expected_names
    assert handle.framejit.compiles == 2


def with_a_helper(valid, error_message):
    """How torch.distributions asks from 2.15 on whether arguments are valid."""
    return bool(torch._is_all_true(valid))


with_a_helper.__module__, with_a_helper.__qualname__ = (
    "torch.distributions.distribution",
    "_all_true_or_runtime_assert",
)


def without_one(valid, error_message):
    """How it asked before."""
    return torch._is_all_true(valid)


@pytest.mark.parametrize("is_valid", [with_a_helper, without_one])
def test_a_check_of_arguments_is_an_expectation(is_valid):
    def f(x):
        if not is_valid(x > 0, "positive"):
            raise ValueError(f"not positive: {x}")
        return x.log()

    handle = framejit.compile(f, fullgraph=True)
    assert handle(torch.ones(3)).tolist() == [0, 0, 0] and handle.framejit.compiles == 1
    with pytest.raises(ValueError, match="not positive"):
        framejit.compile(f)(-torch.ones(3))


def test_torchs_own_decorators_are_captured_where_they_are_applied():
    handle = framejit.compile(lambda x: torch.no_grad()(lambda y: y.sin())(x), fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        assert handle(x).equal(x.sin()) and not handle(x).requires_grad
    assert handle.framejit.compiles == 1
