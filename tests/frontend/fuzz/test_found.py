"""What the generated programs and a look at the code found: each once gave a wrong value or a lost effect."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framejit
import pytest
import torch


def same_as_eager(function: Callable[..., Any], *makers: Callable[[], tuple[Any, ...]]) -> None:
    """Calls on fresh arguments, one call a maker, eager against one handle; results and arguments must agree."""
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
    same_as_eager(branch_then_branch, *(lambda s=s, b=b: (ones() * s, b) for s in (1, -1) for b in (True, False)))
