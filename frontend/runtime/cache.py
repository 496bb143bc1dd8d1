"""Cache: everything one compiled handle has made, and how a call that no entry serves is compiled.
Dropped with the handle."""

from __future__ import annotations

import functools
import sys
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from ...errors import GraphBreak, GraphBreakError, InternalError, PostponedCompile
from ...events import (
    Balance,
    Chosen,
    CompileStarted,
    Event,
    Miss,
    Sink,
    Skipped,
    Working,
    new_number,
)
from ...garbage_collection import import_permanently
from ...guards.failure import Failure
from ...guards.program import GuardProgram
from ...options import Options
from ...tier import Tier
from ..pycode.resume import make_resume_function
from ..values.disabled import is_disabled
from ..values.objects.sharded_module import is_sharded_forward
from . import dynamo_switch  # noqa: F401 - it registers
from ._hook import UNBOUND, Entry, Handle, Site, disable_call
from .active_modes import OperationWatcher, operation_watcher
from .call_comparison import CallComparison
from .compile_failures import raise_or_report
from .compile_lock import CompileLock
from .compile_unit import CompileUnit
from .entry_parts import EntryParts
from .frames import GENERATORS, stays_in_python, why_never_compiled, worth_compiling
from .idle_frame import NO_WORK
from .observer import Observer
from .probe import Probe, guard_costs
from .recompile_limits import RecompileDecision
from .recompile_policy import RecompilePolicy
from .savings import Savings
from .sites import HandleSites, valid_entry
from .stored.store import EntryStore, may_store
from .unserved_call import UnservedCall
from .weak_method import weak_method

live_caches: weakref.WeakSet[Cache] = weakref.WeakSet()  # of all handles


class Cache:
    """The Python side of a handle. Entries belong to (handle, code object), so two handles never
    meet.

    Its parts: `sites` (where entries are stored), `lock` (one compile at a time), `policy` (whether
    to compile again), `savings` (what entries have saved).
    """

    def __init__(self, function: types.FunctionType, options: Options) -> None:
        self.options = options
        self.sinks: list[Sink] = list(options.sinks)
        self.probe: Probe | None = options.probe
        self.compiles = 0
        self.lock = CompileLock(options.wait_for_compile)
        self.policy = RecompilePolicy(options, weak_method(self, "send"))
        self.savings = Savings()
        self._watchers: set[tuple[types.CodeType, OperationWatcher]] = set()  # already reported
        self._work: list[futures.Future[None]] = []  # in the background
        self._sites = HandleSites(function, weak_method(self, "on_miss"))
        self.store = (
            EntryStore(options, self._sites, weak_method(self, "send"))
            if may_store(options)
            else None
        )
        self.root = self._sites.root
        self.root.skip = stays_uncompiled(function, options)
        self.handle = self._sites.handle = Handle(function, self.root, self.on_frame)
        live_caches.add(self)
        self._start_comparison()

    def sites(self) -> list[Site]:
        """All sites of this handle: of its function, of the code after breaks, and of frames that
        the hook met."""
        return list(self._sites)

    @property
    def calls(self) -> int:
        """How often the function has been called, compiled or not."""
        return self._sites.calls

    @property
    def misses(self) -> deque[Miss]:
        """The latest calls that no entry served."""
        return self.policy.misses

    # called by the hook

    def on_frame(
        self, handle: Handle, code: types.CodeType, function: types.FunctionType
    ) -> Site | None:
        """The site of a code object met while the hook is on; None to leave its frames alone."""
        caller = sys._getframe(1)
        if (
            stays_in_python(code)
            or worth_compiling(code, function, caller.f_code)
            or is_sharded_forward(code, caller)
        ):
            return self._sites.new(code, None)
        return None

    def on_miss(
        self, site: Site, function: types.FunctionType, slots: tuple[Any, ...]
    ) -> Entry | None:
        """Compiles for a call that no entry serves; None runs it in eager."""
        if is_traced() or any(slot is UNBOUND for slot in slots):
            return None
        unit: CompileUnit = site.data
        if site is self.root:
            refuse_generator(unit)
        elif not unit.may_capture():
            return self._leave_idle(unit)
        left = self._entry_left_to_python(unit)
        if left is not None:
            return left
        call = UnservedCall(site, function, slots, self.calls)
        if self.probe is None and self.policy.must_wait(call):
            return eager_once()
        if not self.lock.acquire(site):
            return eager_once()  # what this call calls is part of what is being compiled
        try:
            with nullcontext() if self.probe is None else self.probe.pause_clock():
                return self._serve(call, self.probe)
        except RecursionError:
            raise
        except BaseException as error:
            if not unit.frames:
                raise
            # the frame is entered again where it was, so that the program's handlers see the error
            return Entry(function=make_resume_function(unit.frames, error), once=True)
        finally:
            self.lock.release(site)

    def _leave_idle(self, unit: CompileUnit) -> Entry | None:
        """Leaves a call to Python whose unit had no tensor work so far: a whole frame as it is, the
        code after a break with everything that it calls."""
        if not unit.frames:
            return None
        if unit.idle.reports_now():
            self.send(Skipped(unit.name, unit.where, NO_WORK))
        return eager_once()

    def _entry_left_to_python(self, unit: CompileUnit) -> Entry | None:
        """An entry that runs the original code, where nothing may be captured; None elsewhere."""
        watcher = operation_watcher()
        if watcher is not None:
            self._report_watcher(watcher, unit)
            return Entry(needs_hook=not watcher.below)
        code = unit.decoded.code
        return Entry(code=code) if stays_in_python(code) else None  # the hook is off in it

    def _report_watcher(self, watcher: OperationWatcher, unit: CompileUnit) -> None:
        """Reports a watcher once for each code object."""
        if (unit.decoded.code, watcher) not in self._watchers:
            self._watchers.add((unit.decoded.code, watcher))
            self.send(Skipped(unit.name, unit.where, watcher.sentence))

    def _serve(self, call: UnservedCall, probe: Probe | None) -> Entry | None:
        """An entry for a call that none serves, in the site's list; None runs it in eager."""
        site, unit, policy = call.site, call.unit, self.policy
        observer = Observer(
            unit.name, unit.start, weak_method(self, "send"), probe, bool(unit.frames)
        )
        with observer.clock.phase("guards"):
            # of another thread, made since this looked
            entry = valid_entry(site, call.function, call.slots)
            if entry is not None:
                return entry
            entry = self._find_stored(call)
            if entry is not None:
                return entry
            misses = policy.report_misses(call)
            decision = policy.decide(call, misses)
            if decision is RecompileDecision.LATER:
                return eager_once()
            if decision is not RecompileDecision.COMPILE:
                return None
        if not self._can_load_compiler(unit, observer):
            return None
        started = time.monotonic()
        try:
            entry = self._compile(call, observer)
        except PostponedCompile as postponed:
            skipped = Skipped(unit.name, unit.where, str(postponed))
            self.send(skipped)
            if self.store is not None and postponed.guard is not None:
                program = GuardProgram.build([postponed.guard])
                self.store.save(call, EntryParts(program, None, False, once=True), [skipped])
            return eager_once()
        finally:
            observer.send_times()
            policy.account.charge(misses.entries, call.calls, time.monotonic() - started)
            policy.warn_of_compiling(self.handle.function.__qualname__, self.balance)
        if entry is not None:
            site.add(entry)  # before another thread may look whether there is one
        return entry

    def _find_stored(self, call: UnservedCall) -> Entry | None:
        """An entry of an earlier process for a call that none serves, in the site's list."""
        if self.store is None:
            return None
        call.unit.tier.begin(self._forget_entries_of(call.unit))
        found = self.store.find(call)
        if found is None:
            return None
        number = new_number()
        for record in found.records:
            self.send(record if isinstance(record, Skipped) else replace(record, number=number))
        if not found.entry.once:
            self.savings.add_entry(found.entry, number)
            call.unit.idle.found_work()
            call.site.add(found.entry)
        return found.entry

    def _compile(self, call: UnservedCall, observer: Observer) -> Entry | None:
        """A new entry. None after a failure; calls of the site run in eager then, unless this one
        was only too deep in the stack."""
        unit = call.unit
        try:
            entry = self._run_compilation(call, observer)
            with observer.clock.phase("guards"):
                failure = guard_failure(entry, call)
            if failure is not None:
                # torch may change what the program reads: pytree's registry, by the import of
                # TorchDynamo; the number of handles of hooks, by tracing a backward pass
                if failure.guard is not None:
                    unit.variation.expect_many(failure.guard.source)
                entry = self._run_compilation(call, observer)
                with observer.clock.phase("guards"):
                    check_guards_hold(entry, call)
            if observer.probe is not None:
                with observer.clock.phase("measuring"):
                    costs = guard_costs(entry.data, call.slots, call.function)
                    observer.probe.checks[observer.number] = costs
            return entry
        except RecursionError:
            self._skip_deep_call(unit)
            return None
        except PostponedCompile:
            raise
        except Exception as error:
            raise_or_report(unit, error, self.options, self.send)
        call.site.skip = True
        return None

    def _can_load_compiler(self, unit: CompileUnit, observer: Observer) -> bool:
        """Loads what compiles, which is not charged to the handle's account."""
        try:
            with observer.clock.phase("imports"):
                load_compiler()
            return True
        except RecursionError:
            self._skip_deep_call(unit)
            return False

    def _skip_deep_call(self, unit: CompileUnit) -> None:
        reason = "this call is too deep in Python's stack to be compiled"
        self.send(Skipped(unit.name, unit.where, reason))

    def _run_compilation(self, call: UnservedCall, observer: Observer) -> Entry:
        """Compiles a unit for a call, stores the entry on disk, and notes for the unit whether it
        had tensor work."""
        site, unit = call.site, call.unit
        self.compiles += 1
        if self.handle.comparison is None:
            self._start_comparison()
        self.send(CompileStarted(unit.name, observer.where))
        compiler = load_compiler()
        rest = functools.partial(
            compiler.make_continuations,
            site=site,
            function=call.function,
            sites=self._sites,
            fullgraph=self.options.fullgraph,
        )
        compilation = compiler.Compilation(
            unit,
            call.function,
            call.slots,
            self.options,
            observer,
            rest,
            self._forget_entries_of(unit),
        )
        started = time.monotonic()
        parts = compilation.run()
        entry = parts.make(call.function, bool(unit.frames))
        self.savings.add_entry(entry, observer.number)
        if self.store is not None:
            self.store.save(call, parts, observer.records)
        if compilation.has_tensor_work:
            if not unit.tier.hot:
                seconds = time.monotonic() - started
                self.policy.account.charge_graph(self.calls, seconds, compilation.operations)
            unit.idle.found_work()
            unit.idle_end.found_work()
            self._sites.idle_after(unit.decoded.code).found_work()
        elif unit.frames or (entry.function is None and entry.code is None):
            unit.idle.found_nothing()
            if compilation.has_ended:
                unit.idle_end.found_nothing()
        return entry

    def _forget_entries_of(self, unit: CompileUnit) -> Callable[[], None]:
        """Called when the unit should be compiled again."""
        return functools.partial(weak_method(self._sites, "forget"), weakref.ref(unit))

    # events

    def send(self, event: Event) -> None:
        if isinstance(event, Chosen):
            self.savings.add_choice(event)
        if isinstance(event, Working):
            self._work = [*(done for done in self._work if not done.done()), event.done]
        for sink in self.sinks:
            # the hook may be on: a backward pass runs amid the program
            disable_call(sink, (event,), {})

    def wait(self) -> None:
        """Returns when no thread compiles for this handle, and nothing is tried in the
        background."""
        self.lock.wait()
        futures.wait(self._work)

    # whether it is worth it (call_comparison.py)

    def balance(self) -> Balance:
        """What compiling has cost and saved so far."""
        account = self.policy.account
        saved = self.savings.seconds(entry for site in self.sites() for entry in site.entries)
        return Balance(
            self.calls, self.compiles, account.seconds, account.again, account.again_s, saved
        )

    def _start_comparison(self) -> None:
        """Compares whole calls with eager's, once nothing is compiled any more."""
        if self.options.compares_calls:
            self.handle.comparison = CallComparison(weakref.ref(self))
        self.handle.unmeasured = 0

    def end_comparison(self) -> None:
        """Ends the comparison with eager: calls run compiled from now on."""
        self.handle.comparison = None

    def run_in_eager(self, calls: int) -> None:
        """Runs the next `calls` calls in eager, without measuring them."""
        self.handle.unmeasured = calls

    def tiers(self) -> list[Tier]:
        return [site.data.tier for site in self.sites() if isinstance(site.data, CompileUnit)]

    @property
    def compiled_graphs(self) -> int:
        """How many graphs a backend has compiled, so that a backward pass may be compiled too."""
        return self.savings.compiled_graphs

    def report_rest_in_eager(self, compiled_s: float, eager_s: float, calls: int) -> None:
        unit: CompileUnit = self.root.data
        text = (
            f"a call takes {compiled_s * 1e3:.3g} ms compiled and {eager_s * 1e3:.3g} ms in eager"
        )
        if compiled_s < eager_s:
            text += ", which may be chance, and no backend has compiled its graphs yet"
        self.send(
            Skipped(
                unit.name, unit.where, f"{text}; calls run in eager, compared again after {calls}"
            )
        )

    # asked for by the user

    @contextmanager
    def measure(self, probe: Probe) -> Iterator[None]:
        """Within the context, calls are compiled anew with the marks of `probe`; the entries that
        were there before are restored afterwards."""
        outer, self.probe = self.probe, probe
        comparison, unmeasured = self.handle.comparison, self.handle.unmeasured
        self.handle.comparison = None
        try:
            with self._sites.set_entries_aside():
                yield
        finally:
            self.probe = outer
            self.handle.comparison, self.handle.unmeasured = comparison, unmeasured

    def clear(self) -> None:
        """Forgets every entry; the next calls compile anew."""
        for site in self.sites():
            site.clear()
            site.skip = site.full = site.gave_up = False
        self.root.skip = stays_uncompiled(self.handle.function, self.options)
        self.policy.reset()
        self._start_comparison()


def eager_once() -> Entry:
    """An entry for one call: it runs in eager with everything that it calls."""
    return Entry(once=True)


def is_traced() -> bool:
    """Whether a debugger, a profiler or coverage watches this thread."""
    return sys.gettrace() is not None or sys.getprofile() is not None


def refuse_generator(unit: CompileUnit) -> None:
    """Raises GraphBreakError for the code of a generator or coroutine, which `fullgraph` does not
    leave to Python (see stays_uncompiled)."""
    reason = why_never_compiled(unit.decoded.code)
    if reason:
        raise GraphBreakError(GraphBreak("generator", reason), unit.where)


def check_guards_hold(entry: Entry, call: UnservedCall) -> None:
    """Raises InternalError if a guard of a new entry fails on the call that it was made for: the
    entry would never be used, and another one made at each call."""
    failure = guard_failure(entry, call)
    if failure is not None:
        raise InternalError(f"a guard fails on the call it was made for: {failure}")


def guard_failure(entry: Entry, call: UnservedCall) -> Failure | None:
    """The first guard of an entry that fails on a call."""
    failed = entry.program.first_failure(call.slots, call.function)
    return entry.data.failure(failed, call.frame)


def stays_uncompiled(function: types.FunctionType, options: Options) -> bool:
    """Whether the frames of a handle's own function stay in Python: of a generator (with fullgraph,
    a call raises instead), and of a function that is marked as disabled. What torch's mark wraps is
    left to Python with everything that it calls; an entry says so."""
    code = function.__code__
    if code.co_flags & GENERATORS:
        return not options.fullgraph
    return is_disabled(function) and not stays_in_python(code)


def load_compiler() -> Any:
    """The module that compiles: it takes longer to load than an entry that is stored on disk."""
    return import_permanently(".compiler", __package__)
