"""Generators that the frame is given before they were started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import framejit
import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from ...semantics.harness import strict_compile, vec

MODEL = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))


def add_all(x, items):
    for item in items:
        x = x + item.sum()
    return x


def add_two(x, items):
    return x + next(items).sum() * 2 + next(items).sum()


def add_pairs(x, items):
    return sum((a.sum() + b.sum() for a, b in zip(items, MODEL.parameters(), strict=False)), x)


def stop_at_the_second(x, items):
    for number, item in enumerate(items):
        x = x + item.sum()
        if number:
            break
    return x


def keep_it(x, items):
    return x + next(items).sum(), items


def break_between(x, items):
    y = x + next(items).sum()
    framejit.graph_break()
    return y + next(items).sum()


def close_it(x, items):
    x = x + next(items).sum()
    items.close()
    return x


def close_before_the_start(x, items):
    items.close()
    framejit.graph_break()
    return add_all(x, items)


def add_what_a_handler_sees(x, items):
    try:
        return add_all(x, items)
    except ValueError as error:
        return x * len(str(error))


def parameters(log: list[Any]) -> Iterator[Any]:
    return MODEL.parameters()


def expression(log: list[Any]) -> Iterator[Any]:
    return (item * 2 for item in [vec(1), vec(2), vec(3)])


def tensors(log: list[Any]) -> Iterator[Any]:
    x = vec(1)
    while x.shape[0] < 5:
        yield x
        x = torch.cat([x, vec(1)])


def one_that_appends(log: list[Any]) -> Iterator[Any]:
    for number in range(3):
        log.append(number)
        yield vec(number + 1)


def one_that_closes(log: list[Any]) -> Iterator[Any]:
    try:
        yield vec(1)
        yield vec(2)
    finally:
        log.append("closed")


def one_in_a_mode(log: list[Any]) -> Iterator[Any]:
    with torch.no_grad():
        yield from MODEL.parameters()


def one_that_raises(log: list[Any]) -> Iterator[Any]:
    yield vec(2)
    raise ValueError("no more")


def outcome(function: Any, make: Any) -> tuple[str, ...]:
    log: list[Any] = []
    items = make(log)
    try:
        made = function(vec(3), items)
    except ValueError as error:
        made = error
    seen = str(made[0] if isinstance(made, tuple) else made), str(log)
    try:
        rest = [len(item) for item in items]
    except ValueError as error:
        rest = [error]
    return (*seen, str(log), str(rest), str(torch.is_grad_enabled()))


@pytest.mark.parametrize(
    "make",
    [parameters, expression, tensors, one_that_appends, one_that_closes, one_in_a_mode,
     one_that_raises],
    ids=lambda make: make.__name__,
)  # fmt: skip
@pytest.mark.parametrize(
    "function",
    [add_all, add_two, add_pairs, stop_at_the_second, keep_it, break_between, close_it,
     close_before_the_start, add_what_a_handler_sees],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_the_same_happens_and_is_left_as_in_eager(function, make):
    handle = strict_compile(function, backend="eager")
    for _ in range(3):
        assert outcome(handle, make) == outcome(function, make)
        torch.set_grad_enabled(True)


def test_its_code_and_arguments_are_guarded():
    handle = strict_compile(add_all, backend="eager", fullgraph=True)
    given = [
        lambda: MODEL.parameters(),
        lambda: MODEL[0].parameters(),
        lambda: MODEL.buffers(),
        lambda: expression([]),
        lambda: iter([vec(1)]),
    ]
    for make in given * 2:
        assert torch.equal(handle(vec(3), make()), add_all(vec(3), make()))
    assert handle.framejit.compiles == 5


def test_an_averaged_model_is_compiled_once_for_the_first_step_and_once_for_others():
    averaged, expected = AveragedModel(MODEL), AveragedModel(MODEL)
    handle = strict_compile(lambda model: model.update_parameters(MODEL), backend="eager")
    for _ in range(4):
        with torch.no_grad():
            MODEL[0].weight.add_(1)
        handle(averaged)
        expected.update_parameters(MODEL)
        for one, other in zip(averaged.parameters(), expected.parameters(), strict=True):
            assert torch.equal(one, other)
    assert handle.framejit.compiles == 5  # three parts; two of them have another first step
