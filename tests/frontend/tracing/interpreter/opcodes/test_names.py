"""Global variables by their dictionary: `globals()`, `vars(module)` and names are one and the
same."""

from __future__ import annotations

import sys
import types

import pytest

from ....semantics.harness import check, vec

G = 0
E = 5
MODULE = types.ModuleType("MODULE")
MODULE.v = 3


def stored_by_dictionary(x, n):
    global G
    globals()["G"] = n % 3
    G += 1
    return x + G


def stored_by_name(x, n):
    global G, E
    space = globals()
    G = n * 2
    del E
    gone = "E" in space, space.get("E", 7)
    held = space["G"]
    space["G"] += 1
    E = space["G"] + 1  # noqa: F841 - it is read by its key
    return x * G, held, gone, space.pop("E"), space.get("E")


def updated(x, n):
    space = globals()
    space.update(G=n, NEW=n + 1)
    return x * G + NEW, list(space)[-1:], len(space) > 4, list(space.items())[-1:], {**space}["G"]  # noqa: F821


def read_in_a_function(x, n):
    space = globals()
    space["G"] = n
    return x * held_by_a_function(), space.setdefault("G", 5)


def held_by_a_function():
    return G


def of_this_module(x, n):
    global G
    G = n
    space = sys.modules[__name__].__dict__
    space["G"] += 1
    return x * G, space["G"]


def of_a_module(x, n):
    space = vars(MODULE)
    space["v"] = n
    MODULE.v += 1
    space.setdefault("w", 3)
    return x * space["v"], MODULE.w, space.pop("w"), hasattr(MODULE, "w")


def in_a_loop(x, n):
    space, seen = globals(), []
    space["G"] = n
    for step in range(3):
        G_now = space["G"]
        space["G"] = G_now + step
        seen.append(x * G_now)
    return seen, G


CALLS = (
    stored_by_dictionary,
    stored_by_name,
    updated,
    read_in_a_function,
    of_this_module,
    in_a_loop,
)


@pytest.mark.parametrize("fn", CALLS, ids=lambda fn: fn.__name__)
def test_names_and_items_of_globals_are_the_same_variables(fn):
    # the tensor operation of one comes behind so many breaks that the rest is left to Python
    many = fn is stored_by_name
    check(fn, vec(3), 2, globals=("G", "E", "NEW"), breaks=None, graphs=None, skipped=many)


def test_attributes_and_items_of_a_module_are_the_same_variables():
    check(of_a_module, vec(3), 2, breaks=None, graphs=None)
    assert MODULE.v == 3
