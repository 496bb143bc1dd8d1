"""The names that messages give to what sites compile."""

from __future__ import annotations

import functools

import framejit
import torch
from framejit.events import CompileStarted


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


class Model:
    @decorated
    def forward(self, x):
        print(end="")
        return x * 2


def test_a_decorated_function_has_its_own_name():
    found = []
    with framejit.config.patch(sinks=(found.append,)):
        handle = framejit.compile(Model.forward, backend="eager")
        handle(Model(), torch.ones(2))
    started = [event.function for event in found if isinstance(event, CompileStarted)]
    assert started == ["Model.forward"] * 2  # the second: the code after the break
    assert "Model.forward" in str(handle.framejit.explain().captures)
