"""Compiled code is freed with its handle; handles of one function are independent; guards keep
nothing alive."""

from __future__ import annotations

import gc
import weakref

import framejit
import pytest
import torch
from framejit.guards.native import watching

X = torch.ones(3)


def alive(references):
    gc.collect()
    gc.collect()  # graphs are cycles of their own, let go of when the first round has taken the code
    return [reference() for reference in references if reference() is not None]


def test_dropping_a_handle_frees_graphs_code_and_programs():
    graphs = []

    def backend(gm, inputs):
        graphs.append(weakref.ref(gm))
        return gm.forward

    def f(x):
        y = x.sin()
        print("", end="")
        return y + 1

    handle = framejit.compile(f, backend=backend)
    handle(X)
    handle(X.double())
    entries = [entry for site in handle.framejit.cache.sites() for entry in site.entries]
    references = [*graphs, weakref.ref(handle), weakref.ref(handle.framejit.cache)]
    references += [weakref.ref(entry.code) for entry in entries if entry.code is not None]
    assert len(graphs) >= 3 and all(reference() is not None for reference in references)
    del handle, entries
    assert alive(references) == []


def test_two_handles_of_one_function_are_independent():
    def f(x, n):
        return x * n

    first, second = framejit.compile(f), framejit.compile(f)
    first(X, 1)
    assert (first.framejit.compiles, second.framejit.compiles) == (1, 0)
    second(X, 1)
    second(X.double(), 1)
    second.framejit.reset()
    entry = first.framejit.cache.root.entries[0]
    hits = entry.hits
    first(X, 1)
    assert entry.hits == hits + 1 and first.framejit.compiles == 1
    gone = weakref.ref(second)
    del second
    assert alive([gone]) == []
    assert torch.equal(first(X, 1), X)


@pytest.mark.parametrize("way", [None, "versions", "values"])
def test_a_module_that_was_passed_in_is_not_kept(way):
    watching.force(way)
    try:
        handle = framejit.compile(lambda module, x: module(x))
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
        for _ in range(3):
            handle(model, X)
        references = [
            weakref.ref(model),
            *map(weakref.ref, model.modules()),
            *map(weakref.ref, model.parameters()),
        ]
        del model
        assert alive(references) == []
        for _ in range(3):  # others, some of them at the addresses of those that are gone
            model = torch.nn.Sequential(
                torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3)
            )
            assert torch.equal(handle(model, X), model(X))
    finally:
        watching.force(None)


def test_a_parameter_that_was_replaced_is_not_kept():
    model = torch.nn.Linear(3, 3)
    framejit.compile(model)
    model(X)
    model(X)
    gone = weakref.ref(model.weight)
    model.weight = torch.nn.Parameter(torch.zeros(3, 3))
    assert alive([gone]) == []
    assert torch.equal(model(X), torch.nn.functional.linear(X, model.weight, model.bias))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_can_be_swapped(backend):
    """torch.utils.swap_tensors takes no tensor that a weak reference leads to."""
    module = framejit.compile(torch.nn.Linear(3, 2), backend=backend)
    module(X)
    before = module.weight
    torch.utils.swap_tensors(module.weight, torch.nn.Parameter(torch.full((2, 3), 2.0)))
    assert module.weight is before
    assert torch.equal(module(X), torch.full((2,), 6.0) + module.bias)
    with torch.no_grad():
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            module.double()
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        assert module(X.double()).dtype is torch.double


class Thing:
    pass


def told(thing):
    print("", end="")
    return thing is None


@pytest.mark.parametrize("inside", [False, True])
def test_what_lives_across_a_break_dies_with_the_call_that_compiled(inside):
    """Not when the garbage collector comes by: a capture must not hold the program's objects in a
    cycle."""
    seen = []

    def f(x):
        thing = Thing()
        print("", end="")
        seen.append(weakref.ref(thing))
        if inside:
            told(thing)
        else:
            print("", thing is None, end="")
        return x + 1

    compiled = framejit.compile(f, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            compiled(X)
        assert [reference() for reference in seen] == [None, None]
    finally:
        gc.enable()
