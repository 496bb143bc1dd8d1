"""Cases that the generated programs and reviews found: each once gave a wrong value or lost an
effect."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import framejit
import pytest
import torch


def same_as_eager(function: Callable[..., Any], *makers: Callable[[], tuple[Any, ...]]) -> None:
    """Calls on fresh arguments, one call a maker, eager against one handle; results and arguments
    must agree."""
    handle = framejit.compile(function)
    for maker in makers:
        outcomes = []
        for callee in (function, handle):
            arguments = maker()
            try:
                result = callee(*arguments)
            except framejit.errors.FramejitError:
                raise
            except Exception as error:
                result = (type(error), str(error))
            outcomes.append((plain(result), plain(arguments)))
        assert outcomes[0] == outcomes[1]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return plain(vars(value)) if isinstance(value, Thing) else None if callable(value) else value


class Thing:
    kind = 1

    def __init__(self, n: int) -> None:
        self.n = n


def ones() -> torch.Tensor:
    return torch.ones(2)


def twice(thing: Any) -> tuple[Any, Any, torch.Tensor]:
    return thing, thing, ones()


# branches


def branch_then_branch(x, b):
    if x.sum() > 0:
        if b:
            return 1
        return 2
    return 3


def test_branch_on_a_tensor_then_on_a_local():
    same_as_eager(
        branch_then_branch,
        *(lambda s=s, b=b: (ones() * s, b) for s in (1, -1) for b in (True, False)),
    )


# which object it is


def grow_one(a, b, x):
    a.append(1)
    return x * len(b)


def set_one(a, b, x):
    a["k"] = 1
    return x * len(b)


def change_one(a, b, x):
    a.n = 5
    return x * b.n


def is_one(a, b, x):
    return x * (2 if a is b else 3)


def equals_one(a, b, x):
    return x * (2 if a == b else 3)


def is_in(a, b, x):
    return x * (2 if a in [b] else 3)


@pytest.mark.parametrize(("function", "make"), [
    (grow_one, list), (set_one, dict), (change_one, lambda: Thing(1)), (is_one, list), (is_one, lambda: Thing(1)), (is_one, ones),
    (equals_one, lambda: Thing(1)), (is_in, lambda: Thing(1)),
])  # fmt: skip
def test_two_arguments_that_become_one(function, make):
    apart = lambda: (make(), make(), ones())  # noqa: E731
    same_as_eager(function, apart, lambda: twice(make()), apart)


def adder(n):
    def add(x):
        return x + n

    return add


def both(f, g, x):
    return f(x) * 10 + g(x)


def test_one_closure_that_becomes_two():
    same_as_eager(
        both,
        lambda: twice(adder(1)),
        lambda: (adder(1), adder(2), ones()),
        lambda: (adder(3), adder(2), ones()),
    )


def counter():
    n = 0

    def increase():
        nonlocal n
        n += 1

    return increase, lambda: n


def count(increase, get, x):
    increase()
    return x * get()


def test_cells_that_are_shared_or_not():
    shared = lambda: (*counter(), ones())  # noqa: E731
    apart = lambda: (counter()[0], counter()[1], ones())  # noqa: E731
    same_as_eager(count, shared, apart)
    same_as_eager(count, apart, shared)


# iterators


def exhausted(x):
    items = [1, 2]
    walk = iter(items)
    list(walk)
    items.append(3)
    return x * next(walk, 7)


def exhausted_over_break(x):
    items = [1, 2]
    walk = iter(items)
    list(walk)
    framejit.graph_break()
    items.append(3)
    return x * next(walk, 7)


@pytest.mark.parametrize("function", [exhausted, exhausted_over_break])
def test_an_iterator_stays_exhausted(function):
    same_as_eager(function, lambda: (ones(),))


def rebind(x, y):
    y = y.clone()

    def get():
        return y

    return x, get()


def test_an_argument_in_a_cell_that_is_bound_anew():
    x = ones()
    compiled = framejit.compile(rebind)
    assert compiled(x, x)[0] is x and compiled(x, x)[1] is not x
    assert compiled(ones(), x)[0] is not x


def countdown():
    yield 1
    return 7


def after_the_end(x, walk):
    try:
        next(walk)
        next(walk)
    except StopIteration as stop:
        return x * stop.value


def test_the_value_of_a_generator_that_existed_before():
    assert framejit.compile(after_the_end)(ones(), countdown()).tolist() == [7, 7]


def same_tuple_after_a_break(x, items):
    other = items
    framejit.graph_break()
    return x * (2 if other is items else 3)


def compare_tuples(x, items, other):
    return x * (2 if other is items else 3)


def test_which_tuple_it_is():
    same_as_eager(
        same_tuple_after_a_break, lambda: (ones(), (1, 2)), lambda: (ones(), ([], ones()))
    )
    one, two = (tuple([1, []]) for _ in range(2))
    same_as_eager(
        compare_tuples,
        lambda: (ones(), one, one),
        lambda: (ones(), one, two),
        lambda: (ones(), two, two),
    )


def keyword_self(x):
    return x * len("{self}".format(self="abc")) * len(dict({}, self=1))


def test_a_keyword_named_self():
    same_as_eager(keyword_self, lambda: (ones(),))


class Scaler:
    def __init__(self, n):
        self.n = n


def varying_default(x, y, scaler):
    def inner(arg, scale=scaler.n):
        framejit.graph_break()
        return y - (lambda t, k=scaler.n: t * k)(x) + arg * scale

    for _ in range(2):
        scaler.n += 1
        y = y * inner(y + 0.5)
    return y


def test_a_number_that_varies_and_breaks_in_a_callee_of_a_loop():
    scaler, twin = Scaler(0), Scaler(0)
    compiled = framejit.compile(varying_default)
    for _ in range(4):
        assert (
            compiled(ones(), ones(), scaler).tolist()
            == varying_default(ones(), ones(), twin).tolist()
        )


def walk_a_deque(x, items):
    held = collections.deque(items)
    for item in held:
        x = x * item
        framejit.graph_break()
    for item in reversed(held):
        x = x - item
        framejit.graph_break()
    return x


def test_a_break_in_a_loop_over_a_deque():
    same_as_eager(walk_a_deque, lambda: (ones(), [1, 2, 3]))


def test_writes_that_torch_refuses_for_where_they_lie_in_memory():
    def into_itself(x, log):
        x.mul_(2)
        log.append(1)
        x.sum(0, keepdim=True).expand(2, 3).add_(x)
        return x

    def into_a_part(x, log):
        x.mul_(2)
        log.append(1)
        x[1:].add_(x[:-1])
        return x

    def stored(x, log):
        x.mul_(2)
        log.append(1)
        x[1:] = x[:-1]
        return x

    def fine(x, log):
        x[0] = x[1]
        x[:, 0].add_(x[:, 1])
        x[0].add_(x[1])
        x.add_(x)
        x.sum(0, keepdim=True).expand(3, 3).fill_(1)
        return x

    for function in (into_itself, into_a_part, stored, fine):
        same_as_eager(
            function,
            lambda: (
                (torch.arange(9.0).reshape(3, 3), [])
                if function is not into_itself
                else (torch.ones(2, 3), [])
            ),
        )  # noqa: B023


def test_handlers_behind_a_break_ask_for_the_class_of_the_exception():
    class Items(Thing):
        def __init__(self, error):
            self.error = error

        def __getitem__(self, index):
            raise self.error

    def first(x, items):
        iterator = iter(items)
        try:
            return next(iterator)
        except StopIteration:
            return x + 1

    x = torch.ones(2)
    same_as_eager(
        first, lambda: (x, []), lambda: (x, Items(IndexError)), lambda: (x, Items(ValueError))
    )


def test_what_is_callable():
    def f(x, thing):
        return [
            callable(c) for c in (None, 1, thing, int, len, f, x, x.sin, "a", [], Exception())
        ], x + 1

    same_as_eager(f, lambda: (torch.ones(2), Thing(1)))
