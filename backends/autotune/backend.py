"""The backend `autotune`, framejit's default: each graph runs on the fastest of the backends that are right on it."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...errors import RequirementError
from ...events import UNREPORTED, Reporter
from ..fitness import untried
from ..registry import register_backend
from .background import in_background, may_wait
from .candidates import EAGER, choice, records, tiny
from .identity import size_class
from .plan import Plan, option_names
from .tuning import Tuning

NO_DEVICE = "nothing of the graph is on a CUDA device"
MOST_CLASSES = 8  # of shapes that a graph is tuned for


@register_backend("autotune", options=option_names)
def autotune(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, mode: str = "default", options: dict[str, Any] | None = None,
    report: Reporter = UNREPORTED,
) -> Callable[..., Any]:  # fmt: skip
    """Tries the backends that are for this graph on its real inputs and keeps the fastest that is right, eager among them.

    mode: which are tried, see candidates.py. options: see Plan. Raises RequirementError for a graph that cannot be recorded
    where that is required.
    """
    plan = Plan.made(mode, options)
    picked = choice(gm, plan)
    if plan.cudagraphs == "require" and not any(records(backend.name) for backend in picked.backends):
        reasons = [reason for name, reason in picked.left_out if records(name)]
        raise RequirementError(f"CUDA graphs are required, but this cannot be recorded: {reasons[0] if reasons else NO_DEVICE}")
    if not picked.backends:
        return gm.forward
    reason = untried(gm)
    if reason or (plan.candidates is None and not plan.graphs_forced and tiny(gm)):
        report.chosen(EAGER, f"never tried: {reason}" if reason else "too small to be worth compiling", (), (), 0.0)
        return gm.forward
    tuning = Tuning(gm, example_inputs, plan, picked, report)
    if tuning.varies:
        return ByShape(tuning)
    if plan.background and may_wait(tuning):
        return in_background(tuning, example_inputs)
    return tuning.decide(example_inputs)


class ByShape:
    """Decides at the first call, and again when sizes are of another class."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        for backend in tuning.picked.backends:
            tuning.build(backend)  # now, while guards on sizes can still be added
        self.vary = [
            (index, [dim for dim, size in enumerate(item.shape) if not isinstance(size, int)])
            for index, item in enumerate(tuning.examples)
            if isinstance(item, torch.Tensor)
        ]
        self.numbers = [index for index, item in enumerate(tuning.examples) if not isinstance(item, torch.Tensor)]
        self.calls: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self.last: Callable[..., Any] = tuning.gm.forward

    def __call__(self, *args: Any) -> Any:
        kind = self.kind(args)
        call = self.calls.get(kind)
        if call is None:
            call = self.last
            if len(self.calls) < MOST_CLASSES:
                call = self.calls[kind] = self.last = self.tuning.decide(args)
        return call(*args)

    def kind(self, args: Sequence[Any]) -> tuple[Any, ...]:
        sizes = [size_class(args[index].shape[dim]) for index, dims in self.vary for dim in dims]
        return (*sizes, *(size_class(args[index]) for index in self.numbers if isinstance(args[index], int)))
