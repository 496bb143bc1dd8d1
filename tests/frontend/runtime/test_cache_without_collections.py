"""Without the garbage collector, objects that a program passes to compiled code die with their
last reference in the program."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import weakref

import framejit
import pytest
import torch

layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


class Holder:
    pass


def one_graph(x, holder):
    return x.sin() + 1


def a_break(x, holder):
    y = x + 1
    framejit.graph_break()
    return y * 2


def symbols(x, holder):
    return x * x.shape[0] + x.numel() / 7


def a_module(x, holder):
    return layers(x).sum()


def stores(x, holder):
    holder.value = x * 2
    holder.values = [x, x + 1]
    return holder.value


def a_branch(x, holder):
    return x + 1 if x.sum() > 0 else x - 1


def a_list(x, holder):
    return [part * 2 for part in x.split(1)]


def a_generator(x, holder):
    return sum(x + number for number in range(3))


def an_exception_caught(x, holder):
    try:
        raise ValueError(x)
    except ValueError as error:
        return error.args[0] + 1


def an_error_of_an_operator(x, holder):
    try:
        return x.view(7, 13)
    except RuntimeError:
        return x


def an_error_named(x, holder):
    try:
        return x.view(7, 13)
    except RuntimeError as error:
        return str(error), x + 1


def an_error_that_leaves(x, holder):
    return x.view(7, 13)


def no_such_name(x, holder):
    return undefined(x)  # noqa: F821


def in_place(x, holder):
    y = x.detach().clone()
    y.add_(1)
    return y


def numbers(x, holder):
    return torch.tensor(x.tolist()) + x


def an_iterator(x, holder):
    found = iter([x, x + 1])
    framejit.graph_break()
    return next(found)


def iterators(x, holder):
    chained = itertools.chain(map(lambda t: t + 1, [x]), [x])
    framejit.graph_break()
    return list(chained)


def a_manager(x, holder):
    with contextlib.suppress(ValueError):
        int(f"a{x.shape[0]}")
    return x + 1


def an_instance(x, holder):
    made = Holder()
    made.value = x
    framejit.graph_break()
    return made.value


def a_closure(x, holder):
    def inner():
        return x * 2

    framejit.graph_break()
    return inner()


def evaluated(x, holder):
    return eval("x + 1")


def a_size_of_values(x, holder):
    return torch.nonzero(x)


def its_frame(x, holder):
    return sys._getframe().f_locals["x"] + 1


PROGRAMS = (
    one_graph, a_break, symbols, a_module, stores, a_branch, a_list, a_generator, an_exception_caught, an_error_of_an_operator,
    an_error_named, an_error_that_leaves, no_such_name, in_place, numbers, an_iterator, iterators, a_manager, an_instance, a_closure,
    evaluated, a_size_of_values, its_frame,
)  # fmt: skip


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def call(handle, rows, grad):
    """Calls with new objects, and returns weak references to them."""
    x, holder = torch.randn(rows, 3, requires_grad=grad), Holder()
    with contextlib.suppress(RuntimeError, NameError):
        handle(x, holder)
    return weakref.ref(x), weakref.ref(holder)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_inputs_die_at_once(program, dynamic, grad, backend, no_collector):
    handle = framejit.compile(program, backend=backend, dynamic=dynamic)
    for rows in (4, 5, 6):
        assert [reference() for reference in call(handle, rows, grad)] == [None, None]


def test_a_backend_that_fails(no_collector):
    def broken(graph, inputs):
        raise RuntimeError("no such kernel")

    with (
        framejit.config.patch(strict=False),
        pytest.warns(framejit.errors.FramejitWarning, match="no such kernel"),
    ):
        handle = framejit.compile(one_graph, backend=broken)
        found = call(handle, 4, False)
    assert [reference() for reference in found] == [None, None]


def test_the_first_call_of_a_process(torch_server, tmp_path):
    program = (
        "import gc; gc.disable(); import torch, framejit, weakref\n"
        "handle = framejit.compile(lambda x: x.sin() + x.shape[0], backend='eager', dynamic=True)\n"
        "def call():\n    x = torch.randn(4, 3)\n    handle(x)\n    return weakref.ref(x)\n"
        "print(call()())"
    )
    done = torch_server.run(program, tmp_path)
    assert done.stdout.strip() == "None", done.stdout + done.stderr
