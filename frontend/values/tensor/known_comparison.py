"""Comparisons of a random number with a bound that it cannot pass: `torch.rand([]) < 0.0`, as
models write to skip layers with a probability that is 0."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

# Comparisons of a number of torch.rand, which is at least 0, with a bound up to 0; beside them
# where the bound comes first.
ANSWERS: dict[Callable[..., Any], bool] = {operator.lt: False, operator.ge: True}
MIRRORED: dict[Callable[..., Any], bool] = {operator.gt: False, operator.le: True}


def known_answer(comparison: torch.fx.Node) -> bool | None:
    """What a comparison gives in every call; None where that depends on values. Neither the
    comparison nor the random number may have other uses, which could write into them."""
    for answers, draw_first in ((ANSWERS, True), (MIRRORED, False)):
        if comparison.target in answers and not comparison.kwargs and not comparison.users:
            draw, bound = comparison.args if draw_first else reversed(comparison.args)
            if is_draw_of_one_user(draw) and isinstance(bound, int | float) and bound <= 0:
                return answers[comparison.target]
    return None


def is_draw_of_one_user(node: Any) -> bool:
    """Whether an argument is a tensor that torch.rand makes, and that one node takes."""
    if not isinstance(node, torch.fx.Node) or node.target is not torch.rand:
        return False
    return len(node.users) == 1 and "out" not in node.kwargs
