"""Verified calls: the first calls of a compiled graph are compared with torch's own operators, on
copies of the inputs.

The rules are the autotuner's (compare.py): values with float64 as the reference, written inputs,
strides, shared memory, and in training the gradients. A graph that differs is disabled, and a
script that reproduces it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...errors import Rerun, warn_user
from ...events import Reporter
from ...options import config
from ..graph.eager_fallback import PASSED_ON
from ..graph.memory import memory_of
from ..graph.memory_copies import is_laid_out, stretches
from ..graph.random_states import RandomStates
from ..graph.supported import reason_not_to_try
from ..native.toolchain.artifact_cache import content_key
from ..registry import GRAPHED, SHIPPED, name_of
from .compare import MoreRuns, difference_in_any_precision
from .repro import save_repro
from .trial import RunResult, Trial, coarsest_dtype

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
# backends that draw other random numbers than eager
OWN_NUMBERS = ("inductor", "inductor+cudagraphs")
STEERING = (*PASSED_ON, Rerun)


def verify(
    compiled: Callable[..., Any],
    gm: torch.fx.GraphModule,
    calls: int,
    backend: str | Callable[..., Any],
    report: Reporter,
) -> Callable[..., Any]:
    """Wrap `compiled`, made of `gm` by `backend`, so that its first `calls` calls are compared with
    eager.

    A graph that must not run twice (it talks to other processes, or calls an unknown function) is
    returned as it is.
    """
    reason = reason_not_to_try(gm)
    if reason:
        report(f"not verified: {reason}")
        return compiled
    return VerifiedGraph(compiled, gm, calls, backend, report)


class VerifiedGraph:
    """A compiled graph that is compared with eager while `left` calls are to be verified."""

    def __init__(
        self,
        compiled: Callable[..., Any],
        gm: torch.fx.GraphModule,
        calls: int,
        backend: str | Callable[..., Any],
        report: Reporter,
    ) -> None:
        self.gm, self.backend, self.report = gm, backend, report
        self.run = compiled
        self.left = calls

    def __call__(self, *args: Any) -> Any:
        if self.left > 0 and can_be_copied(args):
            self.left -= 1
            return self.compare_call(args)
        return self.run(*args)

    def compare_call(self, args: tuple[Any, ...]) -> Any:
        """Runs one call by eager on copies, then for real. Returns eager's results where the two
        differ."""
        trial = Trial(self.gm, args)
        before = RandomStates(args)
        try:
            wanted = trial.first_run(self.gm.forward, trial.copies())
        except Exception as error:
            # the program's own error, which whoever called the graph handles, or one that only
            # copies raise: they are leaves
            self.report(f"not verified: on copies of its inputs it raises {type(error).__name__}")
            before.restore()
            return self.run(*args)
        originals, has_drawn = trial.copies(), before.have_moved()

        if has_drawn and not self.draws_like_eager:
            self.left = 0
            self.report(
                f"not verified: it draws random numbers, and backend '{name_of(self.backend)}' "
                "draws others than eager"
            )
            before.restore()
            return self.run(*args)

        more = self.more_runs(originals, before, has_drawn)
        reason = ""
        if trial.training:
            before.restore()
            reason = self.compare_training(trial, wanted, more)
        if not reason:
            before.restore()
            results, reason = self.compare_results(args, trial, wanted, more)
            if not reason:
                return results
            restore(args, originals)
        self.disable(reason, args)
        before.restore()
        return self.run(*args)

    def more_runs(
        self, originals: Sequence[Any], before: RandomStates, has_drawn: bool
    ) -> MoreRuns:
        """Further runs from copies of the inputs as they were, and from the same random states."""
        trial = Trial(self.gm, originals)

        def run(call: Callable[..., Any], given: Sequence[Any]) -> RunResult:
            before.restore()
            return trial.first_run(call, given)

        def run_both() -> tuple[RunResult, RunResult]:
            return run(self.run, trial.copies()), run(self.gm.forward, trial.copies())

        def run_in_float64() -> RunResult | None:
            before.restore()
            try:
                return None if has_drawn else trial.run(self.gm.forward, trial.in_float64())
            except Exception:  # operators of the graph that float64 does not have
                return None

        def run_nudged(roundings: int) -> RunResult:
            return run(self.gm.forward, trial.nudged_inputs(roundings))

        return MoreRuns(run_both, run_in_float64, run_nudged, lambda: coarsest_dtype(self.gm))

    def compare_training(self, trial: Trial, wanted: RunResult, more: MoreRuns) -> str:
        """Say what is wrong with a forward and backward pass of the compiled graph on copies, "" if
        nothing."""
        try:
            got = trial.first_run(self.run, trial.copies())
        except STEERING:
            raise
        except Exception as error:
            return f"raises {type(error).__name__} where eager does not: {error}"
        return difference_in_any_precision(got, wanted, more)

    def compare_results(
        self, args: tuple[Any, ...], trial: Trial, wanted: RunResult, more: MoreRuns
    ) -> tuple[Any, str]:
        """Run the compiled graph for real. Return its results and what is wrong with them, "" if
        nothing."""
        try:
            results = self.run(*args)
        except STEERING:
            raise
        except Exception as error:
            return None, f"raises {type(error).__name__} where eager does not: {error}"
        got = RunResult(results, [], list(args), trial.memory_between_inputs())

        reason = difference_in_any_precision(
            got.without_gradients(), wanted.without_gradients(), more.without_gradients()
        )
        return results, reason

    @property
    def draws_like_eager(self) -> bool:
        """Whether the backend draws eager's random numbers in a graph that draws some; unknown for
        foreign backends."""
        return (
            isinstance(self.backend, str)
            and self.backend.removesuffix(GRAPHED) in SHIPPED
            and self.backend not in OWN_NUMBERS
        )

    def disable(self, reason: str, args: Sequence[Any]) -> None:
        """Let torch's operators run the graph from now on; warn once and leave a script that shows
        the fault."""
        name = name_of(self.backend)
        shapes = [str(tuple(arg.shape)) for arg in args if isinstance(arg, torch.Tensor)]
        key = content_key(self.gm.graph.python_code("self").src, *shapes)[:16]
        path = save_repro(config.cache_dir, key, self.gm, args, self.backend, reason)
        self.run, self.left = self.gm.forward, 0
        self.report.wrong(name, reason, str(path) if path else "")
        where = f". To reproduce it, run {path}" if path else ""
        warn_user(
            f"backend '{name}' computes a graph of {self.report.function} wrongly: {reason}. "
            f"torch's own operators run this graph from now on{where}",
            stacklevel=4,
        )


def can_be_copied(args: Sequence[Any]) -> bool:
    """Whether all inputs can be copied for a verified call: they are plain tensors, outside of
    torch.func."""
    if torch._C._functorch.maybe_current_level() is not None:
        return False
    return all(
        type(arg) in PLAIN_TENSORS and arg.layout is torch.strided
        for arg in args
        if isinstance(arg, torch.Tensor)
    )


def restore(args: Sequence[Any], originals: Sequence[Any]) -> None:
    """Put back what the inputs' memory held, between them too, where a run has changed it."""
    homes = stretches(args)
    with torch.no_grad():
        for arg, original in zip(args, originals, strict=True):
            if not isinstance(arg, torch.Tensor):
                continue
            if is_laid_out(arg) and (home := homes[memory_of(arg)]).is_copy(original):
                home.write_back(original.untyped_storage())
            elif not torch.equal(arg, original):
                arg.detach().copy_(original)
