"""Wrapper classes with a `__torch_function__` of their own: it is interpreted, and one graph does
what it would do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from framejit import events
from torch.testing._internal.two_tensor import TwoTensor

from ...semantics.harness import capture_events, vec
from .test_wrapper_subclass import BACKENDS, check, compiled
from .wrappers import Tagged, pair


class ByDefault(Tagged):
    """Passes each operator on by torch's own `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})


class Table(Tagged):
    """Replaces some operators, and passes the others on below `__torch_function__`."""

    @property
    def double(self):
        return self.factor * 2

    def scaled(self):
        return self.inner * self.factor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.gelu:
            return F.relu(args[0]) + 1
        if func is F.linear:
            return args[0] @ args[1].scaled().t()
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs or {})


class Printing(Table):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.sin:
            print("sin")
        return super().__torch_function__(func, types, args, kwargs)


class Named(torch.Tensor):
    """A plain tensor with methods."""


def table(*shape, grad=False):
    return Table(vec(*shape, grad=grad), 3)


def by_default(x):
    return x.sin() + 1, x @ x, (x * 2).sum(0), x.shape, F.relu(x)


def replaced(x):
    return F.gelu(x), F.linear(torch.ones(2, 4), x), x.exp()


def methods_of_torch(x):
    return (
        x.unflatten(1, (2, 2)),
        torch.Tensor.unflatten(x, 0, (2, 2)),
        x.split(2),
        x.norm(),
        x.size(0),
        len(x),
        x.requires_grad,
        2 - x,
        x[1:] > 0,
        torch.where(x > 0, x, -x),
        x.max(0).values,
    )


def members(x):
    made = x + 1
    return (
        x.inner * 2,
        made.inner,
        made.factor,
        made.double,
        x.scaled(),
        made.scaled(),
        isinstance(made, Table),
        type(x) is type(made),
        hasattr(made, "nope"),
        made,
        [x],
    )


def constructed(x):
    made = Table(x.inner.sin(), 5)
    return made, F.gelu(made), made.double


def in_place(x):
    y = x * 1
    y.add_(1)
    y *= 2
    x.sub_(1)
    return y


PROGRAMS = (replaced, methods_of_torch, members, constructed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_torchs_own_method_called_by_super(backend):
    check(by_default, lambda: (ByDefault(vec(4, 4), 2),), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_are_one_graph(program, backend):
    check(program, lambda: (table(4, 4),), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", (replaced, in_place), ids=lambda program: program.__name__)
def test_gradients_and_writes(program, backend):
    grad = program is replaced
    check(program, lambda: (table(4, 4, grad=grad),), backend, backward=True)


def test_wrappers_inside_and_beside():
    def program(x, t):
        return F.gelu(x).inner.b, t.sin(), x.inner.a * 2

    check(program, lambda: (Table(pair(4, 4), 3), pair(4, 4)))
    check(lambda x, t: (F.gelu(x), t + 1), lambda: (table(4), vec(4).as_subclass(Named)))


def test_sizes_that_vary_compile_twice():
    handle = compiled(lambda x: F.gelu(x) + x.scaled(), "native")
    for rows in (3, 4, 5, 6):
        assert torch.equal(
            handle(table(rows, 2)).inner, (F.gelu(table(rows, 2)).inner + 3 * table(rows, 2).inner)
        )
    assert handle.framejit.compiles == 2


def test_a_break_inside(capsys):
    def program(x):
        return F.gelu(x.sin() * 2)

    wanted = program(Printing(vec(4), 3))
    handle = compiled(program)
    for _ in range(2):
        assert torch.equal(handle(Printing(vec(4), 3)).inner, wanted.inner)
    assert capsys.readouterr().out == "sin\n" * 3
    assert len(handle.framejit.explain().breaks) == 1


def test_torch_calls_it_again_after_a_capture():
    handle = compiled(lambda x: F.gelu(x))
    handle(table(3))
    assert torch._C._is_torch_function_enabled()
    assert torch.equal(F.gelu(table(3)).inner, handle(table(3)).inner)


def test_an_edited_method_compiles_again(monkeypatch):
    handle = compiled(lambda x: F.gelu(x))
    before = handle(table(3))
    original = Table.__torch_function__.__func__

    def twice(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return original(cls, func, types, args, kwargs) * 2

    monkeypatch.setattr(Table, "__torch_function__", classmethod(twice))
    assert not torch.equal(handle(table(3)).inner, before.inner)
    assert torch.equal(handle(table(3)).inner, F.gelu(table(3)).inner)


def test_its_code_stays_in_python_behind_a_break():
    """torch calls it there."""

    def program(x):
        x.note = 3
        return F.gelu(x)

    handle = compiled(program)
    made = capture_events(handle)
    assert torch.equal(handle(table(3)).inner, F.gelu(table(3)).inner)
    captured = {event.function for event in made if isinstance(event, events.Captured)}
    assert all("__torch_function__" not in name for name in captured), captured


def test_a_plain_result_that_would_become_an_instance_is_left_to_python():
    class Opened(Table):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            return func(*[arg.inner if isinstance(arg, cls) else arg for arg in args])

    handle = compiled(lambda x: torch.sin(x))
    with pytest.raises(RuntimeError):
        torch.sin(Opened(vec(3), 2)) + 1
    with pytest.raises(RuntimeError):
        handle(Opened(vec(3), 2)) + 1


def test_beside_a_librarys_wrapper_there_is_a_break():
    rows = torch.nested.nested_tensor([vec(3, 2), vec(4, 2)], layout=torch.jagged)
    handle = compiled(lambda x, rows: (F.gelu(x), rows * 2))
    mine, other = handle(table(3), rows)
    assert torch.equal(mine.inner, F.gelu(table(3)).inner)
    assert torch.equal(other.values(), (rows * 2).values())
    assert isinstance(mine, Table) and not isinstance(mine, TwoTensor)
