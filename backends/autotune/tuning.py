"""Tunes one graph: builds the candidates, rejects wrong ones, measures the rest, and keeps the
fastest.

In: a captured graph and real inputs. Out: an equivalent callable, and a Decision.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor

from ...events import Reporter
from ...options import config
from ..cudagraphs import pool
from ..cudagraphs.graphed import RECURRED
from ..graph.example_inputs import private_examples
from ..graph.graph_structure import SHARED
from ..graph.random_draws import draws_random_numbers
from ..graph.random_states import RandomStates, random_states_kept
from ..graph.supported import device_types
from ..registry import SHIPPED, Backend, captured_graph_function, lookup
from .candidates import EAGER, IN_ANY_CASE, TUNING, Choice, records, static_bytes, without_recording
from .choose import choose
from .compare import MoreRuns, difference_in_any_precision
from .decisions import Decision, Decisions
from .held_reports import HeldReports
from .identity import Identity, identify_graph
from .isolation import run_isolated
from .measure import SLOW_WARM_UPS, WARM_UPS, Stopwatch, Timing, measure
from .plan import TuningPlan
from .progress import show_progress
from .repro import save_repro
from .trial import RunResult, Trial, coarsest_dtype

Callee = Callable[..., Any]
# their code is trusted: its first run is not isolated
TORCHS_OWN = ("aot_eager", "inductor", "torchscript", "onnxruntime", "cudagraphs")
ROOM = 1 << 28  # bytes that an isolated run may use in addition to twice what the graph allocates
# up to so many bytes of inputs are copied for a first run; beyond, only written inputs are
COPIES = 1 << 32
# Where recordings take so many bytes, those of losers are worth the time of a garbage collection.
MUCH_RECORDED = 1 << 29
GREEDY = 2.0  # factor on eager's peak device memory


@dataclass
class Candidate:
    """A backend for this graph; `call` is set once it is built."""

    backend: Backend
    notes: HeldReports
    call: Callee | None = None

    @property
    def name(self) -> str:
        return self.backend.name


class EagerRaises(Exception):
    """The graph raises on these inputs: there is nothing to compare with."""


class Tuning:
    """Built once for each graph; `decide` runs once for each scale of its sizes."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        examples: Sequence[Any],
        plan: TuningPlan,
        picked: Choice,
        report: Reporter,
    ) -> None:
        self.gm = gm
        self.examples = list(examples)
        self.plan = plan
        self.picked = picked
        self.report = report
        types = device_types(gm)
        self.device = torch.device("cuda" if "cuda" in types else next(iter(types), "cpu"))
        context = TracingContext.try_get()
        # the symbols of the capture
        self.fake_mode = context.fake_mode if context is not None else None
        self.random = draws_random_numbers(list(gm.graph.nodes))
        self.built: dict[str, Candidate] = {}
        self.budget_s = plan.tune_budget_s
        self.complete = False  # nothing may be built any more: the guards on sizes have been read
        self.struck: dict[str, str] = dict(picked.left_out)

    # building

    def build(self, backend: Backend) -> Candidate | None:
        """A candidate ready to be called; None, with the reason noted, where its backend fails."""
        if backend.name in self.built or self.complete:
            return self.built.get(backend.name)
        candidate = Candidate(backend, HeldReports(self.report))
        parameters = inspect.signature(backend.function).parameters
        extra: dict[str, Any] = {"report": candidate.notes} if "report" in parameters else {}
        if backend.name in TUNING and self.plan.mode.startswith("max-autotune"):
            extra["mode"] = self.plan.mode
        try:
            with tracing(TracingContext(self.fake_mode)), self.report.phase("backend"):
                call = captured_graph_function(backend)(
                    own_copy(self.gm), private_examples(backend, self.gm, self.examples), **extra
                )
            if not callable(call):
                raise TypeError(f"it returned a {type(call).__name__}, not a callable")
        except Exception as error:  # of a candidate, which is out: the program goes on
            self.struck[backend.name] = (
                f"does not compile: {type(error).__name__}: {first_line(error)}"
            )
            return None
        candidate.call = call
        self.built[backend.name] = candidate
        return candidate

    # deciding

    def decide(self, args: Sequence[Any], scale: int | None = None) -> Callee:
        """The callable for inputs like these. scale: of their sizes, if these are dynamic."""
        try:
            with self.report.phase("tuning"):
                return self._decide(args, scale)
        finally:
            if not self.varies:
                self.gm.meta.pop(SHARED, None)  # not needed any more

    def identity_for(self, args: Sequence[Any], scale: int | None) -> Identity:
        """The cache key of a decision on inputs like these."""
        names = [EAGER, *(backend.name for backend in self.picked.backends)]
        like = args if scale is None else self.examples
        return identify_graph(self.gm, like, self.plan.mode, names, self.device, scale)

    def is_decided(self, args: Sequence[Any]) -> bool:
        """Whether there is a decision on disk for inputs of these sizes."""
        key = self.identity_for(args, None).key
        return Decisions(config.cache_dir).find(key) is not None

    def _decide(self, args: Sequence[Any], scale: int | None) -> Callee:
        """The callable for inputs like these: by an earlier decision, else by trying all
        backends."""
        start = time.perf_counter()
        about = self.identity_for(args, scale)
        decisions = Decisions(config.cache_dir) if self.plan.remember else None
        known = decisions.find(about.key) if decisions is not None else None
        if known is not None:
            call = self.use_decision(known, start)
            if call is not None:
                return call
        with (
            show_progress(f"framejit: trying backends on {self.report.function}") as show,
            self.generators_restored(),
        ):
            try:
                timed = self.try_all(args, about, start, show)
            # on copies, which are leaves without a history, or as it will when the program calls it
            except EagerRaises as error:
                self.report(
                    f"not tried on other backends: on copies of its inputs it raises {error}"
                )
                return self.gm.forward
        return self.choose_and_store(timed, about, decisions, start)

    def use_decision(self, known: Decision, start: float) -> Callee | None:
        """The callable of an earlier decision; None where it is not available here."""
        if known.chosen == EAGER:
            self.report_decision(known, "remembered", start)
            return self.gm.forward
        tried = [backend.name for backend in self.picked.backends]
        possible = {*tried, *map(without_recording, tried)}
        candidate = self.build(lookup(known.chosen)) if known.chosen in possible else None
        if candidate is None:
            return None
        self.report_decision(known, "remembered", start)
        return self.release(candidate)

    def choose_and_store(
        self, timed: dict[str, Timing], about: Identity, decisions: Decisions | None, start: float
    ) -> Callee:
        """Chooses the fastest, stores the decision, and drops the losers."""
        for name, one in timed.items():
            if one.failure:
                self.struck[name] = one.failure
        forced = [name for name in timed if self.plan.graphs_forced and records(name)]
        best = choose(timed, EAGER, forced, self.varies)
        times = sorted(
            ((name, one.seconds) for name, one in timed.items() if any(one.samples)),
            key=lambda pair: pair[1],
        )
        decision = Decision(
            about.key,
            about.graph,
            about.shapes,
            about.device,
            about.versions,
            about.mode,
            best,
            tuple(times),
            tuple(self.struck.items()),
            time.perf_counter() - start,
        )
        if decisions is not None:
            stands = decisions.keep(decision)
            if stands.chosen == EAGER or stands.chosen in self.built:
                decision, best = stands, stands.chosen
        self.report_decision(decision, "measured", start)
        call = self.gm.forward if best == EAGER else self.release(self.built[best])
        if not self.varies:
            self.drop_losers(best)
        return call

    @property
    def varies(self) -> bool:
        """Whether decisions on further shapes will follow."""
        return any(
            not isinstance(item, torch.Tensor) or has_symbols(item) for item in self.examples
        )

    @property
    def waits_for_inputs(self) -> bool:
        """Whether the first call decides, since the examples are no real tensors: those of a
        subgraph never are."""
        return self.varies or any(isinstance(item, FakeTensor) for item in self.examples)

    def drop_losers(self, best: str) -> None:
        recorded = any(records(name) for name in self.built if name != best)
        self.built = {name: one for name, one in self.built.items() if name == best}
        if recorded and self.device.type == "cuda":
            if pool.recorded_bytes() >= MUCH_RECORDED:
                gc.collect()  # a loser is reachable from its graph, and that from itself
            torch.cuda.empty_cache()  # recordings of losers hold memory

    def release(self, candidate: Candidate) -> Callee:
        candidate.notes.release(self.report)
        assert candidate.call is not None
        return candidate.call

    def report_decision(self, decision: Decision, why: str, start: float) -> None:
        self.report.chosen(
            decision.chosen, why, decision.timings, decision.struck, time.perf_counter() - start
        )

    # trying

    def try_all(
        self, args: Sequence[Any], about: Identity, start: float, show: Callable[[str], None]
    ) -> dict[str, Timing]:
        """Runs and measures the candidates; rejected ones go to `struck`."""
        trial = Trial(self.gm, args)
        try:
            good = self.right_candidates(trial, args, about, start, show)
            show("measuring " + ", ".join([EAGER, *(candidate.name for candidate in good)]))
            left = self.budget_s - (time.perf_counter() - start)
            return self.measure(good, trial, max(left, 0.25 * self.budget_s))
        finally:
            trial.forget()

    def right_candidates(
        self,
        trial: Trial,
        args: Sequence[Any],
        about: Identity,
        start: float,
        show: Callable[[str], None],
    ) -> list[Candidate]:
        """The candidates whose first run was right."""
        few = trial.bytes() <= COPIES
        wanted, eager_peak = self.run_eager(
            lambda: trial.first_run(self.gm.forward, trial.copies() if few else trial.inputs())
        )
        good: list[Candidate] = []
        for backend in self.picked.backends:
            name = backend.name
            if time.perf_counter() - start > self.budget_s and self.costs_time(name):
                over = f"not tried: the {self.budget_s:g} s of tune_budget_s were over"
                self.struck[name] = over
                continue
            show(f"compiling for {name}")
            if any(candidate.name == name for candidate in good):
                continue  # it is the code that could not be recorded
            candidate = self.build_and_check(backend, trial, wanted, eager_peak, few)
            if candidate is not None:
                refused = candidate.notes.refusal()
                kept = self.go_on_without_recording(candidate) if refused else candidate
                good += [kept] if kept is not None else []
            elif name in self.struck:
                reason = self.struck[name]
                path = save_repro(config.cache_dir, about.key, self.gm, args, name, reason)
                self.struck[name] += f" (repro: {path})" if path else ""
        return good

    def costs_time(self, name: str) -> bool:
        """Whether a backend is compiled only while there is time left."""
        return name not in self.built and name not in IN_ANY_CASE

    def run_eager(self, run: Callable[[], RunResult]) -> tuple[RunResult, int]:
        """Eager's run. Raises EagerRaises where the program's own operators raise; grad mode is
        restored."""
        grad = torch.is_grad_enabled()
        try:
            return self.run_with_peak_memory(run)
        except Exception as error:
            torch._C._set_grad_enabled(grad)
            raise EagerRaises(f"{type(error).__name__}: {first_line(error)}") from error

    def build_and_check(
        self, backend: Backend, trial: Trial, wanted: RunResult, eager_peak: int, few: bool
    ) -> Candidate | None:
        """A candidate whose first run was right; None where it is rejected."""
        ours = backend.name in SHIPPED
        apart = self.plan.isolate and self.device.type == "cpu" and backend.name not in TORCHS_OWN
        # what we ship may compile here, only its code runs elsewhere first
        if apart and ours and self.build(backend) is None:
            return None

        def work() -> str:
            candidate = self.build(backend)
            if candidate is None:
                return self.struck[backend.name]
            return self.first_run(candidate, trial, wanted, eager_peak, few)

        if apart:
            room = ROOM + 2 * sum(map(static_bytes, self.gm.graph.nodes)) + 4 * trial.bytes()
            reason = run_isolated(work, self.plan.trial_limit_s, room)
        else:
            reason = work()
        if reason:
            self.struck[backend.name] = reason
            self.built.pop(backend.name, None)
            return None
        return self.build(backend)

    def first_run(
        self, candidate: Candidate, trial: Trial, wanted: RunResult, eager_peak: int, few: bool
    ) -> str:
        """What is wrong with a candidate's results or memory use; "" for nothing."""
        call = candidate.call
        assert call is not None
        recorded = records(candidate.name)  # depends on the addresses of the inputs
        copied = few and not recorded

        def run(function: Callee, given: list[Any] | None = None) -> tuple[RunResult, int]:
            inputs = given or (trial.copies() if copied else trial.inputs())
            return self.run_with_peak_memory(lambda: trial.first_run(function, inputs))

        def run_both_again() -> tuple[RunResult, RunResult]:
            return run(call)[0], run(self.gm.forward)[0]

        def run_nudged(roundings: int) -> RunResult | None:
            return run(self.gm.forward, trial.nudged_inputs(roundings))[0] if few else None

        try:
            got, peak_here = run(call)
            if self.device.type == "cuda" and peak_here > GREEDY * eager_peak + ROOM:
                return (
                    f"takes {peak_here / 1e6:.0f} MB of device memory, "
                    f"eager {eager_peak / 1e6:.0f} MB"
                )
            if few and recorded:  # other memory is copied than in eager's run
                got, wanted = replace(got, between=[]), replace(wanted, between=[])
            reason = difference_in_any_precision(
                got,
                wanted,
                MoreRuns(
                    run_both_again,
                    lambda: self.run_in_float64(trial),
                    run_nudged,
                    lambda: coarsest_dtype(self.gm),
                ),
            )
        except Exception as error:  # of a candidate, which is out: the program goes on
            return f"fails: {type(error).__name__}: {first_line(error)}"
        return f"is wrong: {reason}" if reason else ""

    def run_in_float64(self, trial: Trial) -> RunResult | None:
        """Eager's run in double precision, if the graph allows it. (Other dtypes draw other random
        numbers.)"""
        if self.random:
            return None
        try:
            return trial.run(self.gm.forward, trial.in_float64())
        # the graph fixes its precision, so nothing is more exact than eager
        except Exception:
            return None

    def run_with_peak_memory(self, run: Callable[[], RunResult]) -> tuple[RunResult, int]:
        """A run with eager's random numbers, and its peak of additional device memory."""
        states, before = RandomStates([self.device]), 0
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
        try:
            ran = run()
        finally:
            if self.random:
                states.restore()
        after = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else 0
        return ran, after - before

    def measure(self, good: list[Candidate], trial: Trial, budget_s: float) -> dict[str, Timing]:
        """Times eager and the good candidates."""
        inputs = trial.inputs()
        calls: dict[str, Callee] = {EAGER: self.gm.forward}
        calls |= {
            candidate.name: candidate.call for candidate in good if candidate.call is not None
        }
        if len(calls) == 1:
            return {EAGER: Timing(samples=[0.0])}
        wait = (
            (lambda: torch.cuda.synchronize(self.device))
            if self.device.type == "cuda"
            else (lambda: None)
        )
        reset = (lambda: trial.reset_counters(inputs)) if trial.counters() else None

        def bound(call: Callee) -> Callable[[], object]:
            return lambda: trial.run(call, inputs)

        timed = measure(
            {name: bound(call) for name, call in calls.items()},
            Stopwatch(wait, reset),
            budget_s,
            WARM_UPS if any(map(records, calls)) else SLOW_WARM_UPS,
            WARM_UPS + RECURRED if self.varies else WARM_UPS,
        )
        for candidate in good:
            refusal = candidate.notes.refusal()
            if not refusal or not records(candidate.name):
                continue
            ran = timed[candidate.name]
            plain = self.go_on_without_recording(candidate)
            if plain is not None:
                timed[plain.name] = Timing(ran.samples, ran.repeat)
            ran.failure = refusal
        return timed

    def go_on_without_recording(self, candidate: Candidate) -> Candidate | None:
        """A candidate that could not be recorded becomes the candidate of the backend below it.
        None where that one was built itself, or is eager."""
        self.struck[candidate.name] = candidate.notes.refusal()
        plain = without_recording(candidate.name)
        if not plain or plain in self.built:
            return None
        self.struck.pop(plain, None)
        self.built[plain] = Candidate(lookup(plain), candidate.notes, candidate.call)
        return self.built[plain]

    def generators_restored(self) -> Any:
        """Restores the generators; a graph tuned in the background draws nothing."""
        return nullcontext() if self.plan.background else random_states_kept([self.device])


def own_copy(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph that a backend may change; it shares what backends compute of it."""
    graph = torch.fx.Graph()
    output = graph.graph_copy(gm.graph, {})
    graph.output(output)
    made = torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
    made.meta[SHARED] = gm.meta.setdefault(SHARED, {})
    return made


def has_symbols(item: Any) -> bool:
    """Whether a tensor has dynamic sizes."""
    return isinstance(item, torch.Tensor) and not all(isinstance(size, int) for size in item.shape)


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
