"""The backend `autotune`, framejit's default: runs each graph on the fastest backend whose results
are right."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
import torch.fx

from ...errors import RequirementError
from ...events import UNREPORTED, Reporter
from ...options import config
from ...tier import Tier
from ..graph.collectives import is_on_distributed_tensors
from ..graph.fake_values import fake_of
from ..graph.supported import reason_not_to_try
from ..graph.wrappers import has_wrappers
from ..registry import import_shipped, lookup, register_backend
from ..subgraphs.host_numbers import compile_by_device
from .background import in_background, may_wait
from .candidates import EAGER, Choice, choice, is_tiny, records
from .decisions import Decisions
from .identity import Identity, scale
from .patience import WAITING, WaitingGraph, forecast, slowness
from .plan import TuningPlan, option_names
from .tuning import Tuning, has_symbols

NO_DEVICE = "nothing of the graph is on a CUDA device"
MOST_SCALES = 4  # classes of sizes that one graph is tuned for


@register_backend("autotune", options=option_names, attention_kernels=True)
def autotune(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str = "default",
    options: dict[str, Any] | None = None,
    report: Reporter = UNREPORTED,
) -> Callable[..., Any]:
    """Tries the suitable backends on the graph's real inputs and keeps the fastest whose results
    are right; eager is one of them. mode: which are tried, see candidates.py. options: see
    TuningPlan. Raises RequirementError for a graph that cannot be recorded where that is
    required."""
    plan = TuningPlan.from_arguments(mode, options)
    tune = partial(autotune, mode=mode, options={**(options or {}), "patience": 0}, report=report)
    if any(map(is_on_distributed_tensors, gm.graph.nodes)):
        return compile_by_rule(gm, example_inputs, plan, report)
    if has_wrappers(gm):
        return tune_inner_graphs(gm, example_inputs, plan, report, tune)
    picked = choice(gm, plan)
    if plan.cudagraphs == "require":
        require_recording(picked)
    if not picked.backends:
        return gm.forward
    reason = reason_for_eager(gm, plan)
    if reason:
        report.chosen(EAGER, reason, (), (), 0.0)
        return gm.forward
    waiting = wait_for_calls(gm, plan, report)
    if waiting is not None and not remembers(gm, example_inputs, plan, picked, report):
        return waiting()
    parts = compile_by_device(gm, example_inputs, tune)
    if parts is not None:
        return parts
    load_for_trials()
    # compilers get some of these on separate memory
    inputs = gm.meta.pop("inputs", example_inputs)
    tuning = Tuning(gm, example_inputs, plan, picked, report)
    if tuning.waits_for_inputs:
        return ByShape(tuning)
    if plan.background and may_wait(tuning):
        return in_background(tuning, inputs)
    return tuning.decide(inputs)


def reason_for_eager(gm: torch.fx.GraphModule, plan: TuningPlan) -> str:
    """Why nothing is tried on a graph; "" if something may be."""
    reason = reason_not_to_try(gm)
    if reason:
        return f"never tried: {reason}"
    fixed = plan.candidates is not None or plan.graphs_forced
    return "" if fixed or not is_tiny(gm) else "too small to be worth compiling"


@cache
def load_for_trials() -> None:
    """Imports framejit's compiler while no thread of a trial runs: see permanent_objects."""
    import_shipped("native", "native.backend")


def compile_by_rule(
    gm: torch.fx.GraphModule, example_inputs: list[Any], plan: TuningPlan, report: Reporter
) -> Callable[..., Any]:
    """Compiles a graph on distributed tensors with `native`, without trials: their collectives
    would wait for processes that try nothing."""
    waiting = wait_for_calls(gm, plan, report)
    if waiting is not None:
        return waiting()
    native = lookup("native")
    report.chosen(native.name, "by rule, as trials would communicate", (), (), 0.0)
    compiled: Callable[..., Any] = native.function(gm, example_inputs, report=report)
    return compiled


def require_recording(picked: Choice) -> None:
    """Raises RequirementError where no candidate is recorded as a CUDA graph."""
    if not any(records(backend.name) for backend in picked.backends):
        reasons = [reason for name, reason in picked.left_out if records(name)]
        raise RequirementError(
            "CUDA graphs are required, but this cannot be recorded: "
            f"{reasons[0] if reasons else NO_DEVICE}"
        )


def wait_for_calls(
    gm: torch.fx.GraphModule, plan: TuningPlan, report: Reporter
) -> Callable[[], WaitingGraph] | None:
    """A function that lets a graph run as captured until trying backends on it is due; None where
    that is at its first call."""
    tier = report.tier
    if not plan.waits or tier is None or tier.hot:
        return None
    expected = forecast(gm)
    due_s = expected.due_s(plan.patience) * slowness(gm, report.clock.seconds)
    if due_s <= 0:
        return None

    def wait() -> WaitingGraph:
        report.chosen(EAGER, f"{WAITING} {due_s:.2g} s in this graph", (), (), 0.0)
        gain = expected.saved / expected.share
        return WaitingGraph(gm.forward, due_s * expected.share, tier, expected.device_s, gain)

    return wait


def tune_inner_graphs(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    plan: TuningPlan,
    report: Reporter,
    tune: Callable[..., Any],
) -> Callable[..., Any]:
    """Tunes the graphs of inner tensors behind a graph on wrapper subclasses, each by itself."""
    reason = reason_not_to_try(gm)
    if reason:
        report.chosen(EAGER, f"never tried: {reason}", (), (), 0.0)
        return gm.forward
    waiting = wait_for_calls(gm, plan, report)
    if waiting is not None:
        return waiting()
    # loading aot_autograd takes a second or more
    module = importlib.import_module("..autograd.inner_graphs", __package__)
    tuned: Callable[..., Any] = module.compile_inner_graphs(gm, example_inputs, tune)
    return tuned


def remembers(
    gm: torch.fx.GraphModule,
    examples: Sequence[Any],
    plan: TuningPlan,
    picked: Choice,
    report: Reporter,
) -> bool:
    """Whether a decision on this graph is on disk, so that nothing has to be tried."""
    tuning = Tuning(gm, examples, plan, picked, report)
    return plan.remember and not tuning.waits_for_inputs and tuning.is_decided(examples)


class ByScale:
    """A callable for each scale of a call's sizes. tensors, numbers: positions of the arguments
    that the scale follows from."""

    def __init__(self, tensors: list[int], numbers: list[int]) -> None:
        self.tensors, self.numbers = tensors, numbers
        self.calls: dict[int, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        size = scale_of(args, self.tensors, self.numbers)
        call = self.calls.get(size)
        if call is None:
            known = list(self.calls.values())
            settled = len(known) > 1 and all(call == known[0] for call in known)
            call = self.calls[size] = known[0] if settled else self.decide(size, args)
        return call(*args)

    def decide(self, size: int, args: Sequence[Any]) -> Callable[..., Any]:
        """The callable for sizes of this scale."""
        raise NotImplementedError


class ByShape(ByScale):
    """Decides at the first call; where sizes vary, again for sizes of another scale, until two
    decisions are equal."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        for backend in tuning.picked.backends:
            tuning.build(backend)  # built now, while guards on sizes can still be added
        tuning.complete = True
        tensors = [
            index
            for index, item in enumerate(tuning.examples)
            if isinstance(item, torch.Tensor) and has_symbols(item)
        ]
        numbers = []  # where sizes follow from numbers only
        if not tensors and any(has_symbols(fake_of(node)) for node in tuning.gm.graph.nodes):
            numbers = [
                index
                for index, item in enumerate(tuning.examples)
                if isinstance(item, (int, torch.SymInt))
            ]
        super().__init__(tensors, numbers)

    def decide(self, size: int, args: Sequence[Any]) -> Callable[..., Any]:
        """Each decision may take half as long as the one before."""
        if len(self.calls) >= MOST_SCALES:
            return self.calls[min(self.calls, key=lambda other: abs(other - size))]
        self.tuning.budget_s = self.tuning.plan.tune_budget_s / 2 ** len(self.calls)
        return self.tuning.decide(args, size)

    def __reduce__(self) -> Any:
        """Pickles it as a callable that uses in a later process what was decided in this one."""
        tuning, tier = self.tuning, self.tuning.report.tier
        if not tuning.plan.remember or tier is None:
            raise pickle.PicklingError("decisions that are not remembered on disk")
        calls = {name: one.call for name, one in tuning.built.items()}
        about = tuning.identity_for(tuning.examples, None)
        return RememberedByShape, (
            tuning.gm.forward,
            calls,
            about,
            tier,
            self.tensors,
            self.numbers,
        )


class RememberedByShape(ByScale):
    """Runs what an earlier process has decided for sizes of this scale. Where there is no such
    decision, this call runs as captured, and the next one is compiled anew."""

    def __init__(
        self,
        forward: Callable[..., Any],
        candidates: dict[str, Callable[..., Any]],
        about: Identity,
        tier: Tier,
        tensors: list[int],
        numbers: list[int],
    ) -> None:
        """candidates: by backend. about: the graph's identity without a scale."""
        super().__init__(tensors, numbers)
        self.made_of = forward, candidates, about, tier, tensors, numbers

    def decide(self, size: int, args: Sequence[Any]) -> Callable[..., Any]:
        forward, candidates, about, tier, _, _ = self.made_of
        decision = Decisions(config.cache_dir).find(about.at_scale(size).key)
        if decision is not None and decision.chosen in candidates:
            return candidates[decision.chosen]
        if decision is None or decision.chosen != EAGER:
            tier.promote()
        return forward

    def __reduce__(self) -> Any:
        return RememberedByShape, self.made_of


def scale_of(args: Sequence[Any], tensors: Sequence[int], numbers: Sequence[int]) -> int:
    """The scale of the sizes of a call."""
    elements = 0
    for index in tensors:
        elements += args[index].numel()
    for index in numbers:
        elements += abs(args[index])
    return scale(elements)
