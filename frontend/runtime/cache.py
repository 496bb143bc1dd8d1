"""Cache: everything one compiled handle has made - its sites, its continuations, its locks. Dropped
with the handle."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent import futures
from typing import Any

from ...errors import (
    BackendError,
    FramejitError,
    GraphBreak,
    InternalError,
    SkipFrame,
    warn_once,
    warn_user,
)
from ...events import Balance, Chosen, Event, Full, Miss, Seen, Sink, Skipped, Working
from ...guards.failure import Failure
from ...guards.source import FrameView
from ...options import Options
from ...tier import Tier
from ..codegen.build import Continuations, start_slots
from ..pycode.decode import decode
from ..pycode.instr import DecodedCode
from ..pycode.resume import ResumePoint, SuspendedFrame, make_resume_function
from ..tracing.capture import BreakExit, Capture
from ..tracing.expectations import expect
from ..tracing.work_budget import Loops
from ..values.disabled import is_disabled
from . import torch_compile, traced_handle  # noqa: F401 - they register
from ._hook import UNBOUND, ContinuationMaker, Entry, Handle, Site, disable_call, stance
from .account import ITERATIONS, Account
from .compile_unit import CompileUnit
from .economy import Contest, has_room
from .frames import stays_in_python, worth_compiling
from .observer import Observer
from .pipeline import Compilation
from .probe import Probe, guard_costs
from .recompile import Misses, RecompileDecision, change, compiling_text, decide, limit_text
from .surroundings import Onlooker, onlooker
from .unrolled_iterations import UnrolledIterations

# seconds for which a thread waits for another's compile, which may wait for this very thread
LONGEST_WAIT = 60.0
HISTORY = 256  # misses that a handle remembers
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


live_caches: weakref.WeakSet[Cache] = weakref.WeakSet()  # of all handles


class Cache:
    """The Python side of a handle. Entries belong to (handle, code object), so two handles never
    meet."""

    def __init__(self, function: types.FunctionType, options: Options) -> None:
        self.options = options
        self.sinks: list[Sink] = list(options.sinks)
        self.probe: Probe | None = options.probe
        self.compiles = 0
        self.misses: deque[Miss] = deque(maxlen=HISTORY)
        self._loops: Loops = set()
        self._watched: set[tuple[types.CodeType, Onlooker]] = set()  # already reported
        self._busy = threading.Condition()
        self._compiling: dict[
            int, frozenset[threading.Thread]
        ] = {}  # by site: the threads that there were when its compile began
        self._work: list[futures.Future[None]] = []  # in the background
        self._continuations: dict[tuple[Any, ...], Site] = {}
        self._pieces: list[
            tuple[SuspendedFrame, ...]
        ] = []  # their code objects' and globals' ids are keys
        self.root = self._site(function.__code__, function)
        self.root.skip = runs_itself(function)
        weakref.finalize(self, drop_entries, self._continuations).atexit = False
        self.handle = Handle(function, self.root, self.on_frame)
        self.account = Account(options.compile_share, options.compile_budget)
        live_caches.add(self)
        self._refused: set[Site] = set()  # sites that get no further entry
        self._gains: dict[int, float] = {}  # seconds a call, by the number of a compile
        self._numbers: dict[int, int] = {}  # of compiles, by the ids of live entries
        self._compiled_gradients = False
        self._start_contest()

    def _site(self, code: types.CodeType, function: types.FunctionType | None) -> Site:
        decoded = decode(code)
        return Site(
            function,
            decoded.nargs,
            weak_method(self, "on_miss"),
            CompileUnit(decoded, (), self._loops),
        )

    # called by the hook

    def on_frame(
        self, handle: Handle, code: types.CodeType, function: types.FunctionType
    ) -> Site | None:
        """The site of a code object met while the hook is on; None to leave its frames alone."""
        caller = sys._getframe(1).f_code
        return (
            self._site(code, None)
            if stays_in_python(code) or worth_compiling(code, function, caller)
            else None
        )

    def on_miss(
        self, site: Site, function: types.FunctionType, slots: tuple[Any, ...]
    ) -> Entry | None:
        """Compiles for a call that no entry serves; None runs it in eager."""
        if (
            any(slot is UNBOUND for slot in slots)
            or sys.gettrace() is not None
            or sys.getprofile() is not None
        ):
            return None
        unit: CompileUnit = site.data
        if not unit.frames and site is not self.root and not unit.idle.may_capture():
            return None
        seen_by = onlooker()
        if seen_by is not None:
            self._report_onlooker(seen_by, unit)
            return Entry(None, None, None, not seen_by.below, None)
        if stays_in_python(unit.decoded.code):
            return Entry(None, None, unit.decoded.code, False, None)  # itself, with the hook off
        if not self._enter(site):
            return Entry(
                once=True
            )  # in eager with the hook off: what this call calls is part of what is being compiled
        try:
            if self.probe is None:
                return self._serve(site, unit, function, slots, None)
            with self.probe.standing_still():
                return self._serve(site, unit, function, slots, self.probe)
        except RecursionError:
            raise
        except BaseException as error:
            if not unit.frames:
                raise
            return Entry(
                function=make_resume_function(unit.frames, error), once=True
            )  # the program's handlers see it where it has got to
        finally:
            self._leave(site)

    def _report_onlooker(self, seen_by: Onlooker, unit: CompileUnit) -> None:
        """Reports an onlooker once for each code object."""
        if (unit.decoded.code, seen_by) not in self._watched:
            self._watched.add((unit.decoded.code, seen_by))
            self.send(Skipped(unit.name, where(unit), seen_by.sentence))

    def _serve(
        self,
        site: Site,
        unit: CompileUnit,
        function: types.FunctionType,
        slots: tuple[Any, ...],
        probe: Probe | None,
    ) -> Entry | None:
        """An entry for a call that none serves, in the site's list; None runs it in eager."""
        observer = Observer(
            unit.name, unit.start, weak_method(self, "send"), probe, bool(unit.frames)
        )
        frame = FrameView(slots, function)
        with observer.clock.phase("guards"):
            entry = self._found_meanwhile(site, function, slots)
            if entry is not None:
                return entry
            misses = self._report_miss(site, unit, frame)
            decision = decide(unit.name, self.options, stance(), misses, unit.variation, frame)
            compiles = decision is RecompileDecision.COMPILE
            had, calls = misses.entries, self.calls
            if decision is RecompileDecision.LATER:
                self._refuse(site, unit, ITERATIONS)
                return Entry(once=True)
            if compiles and not self.account.may_compile(had, calls):
                self._refuse(site, unit, self.account.refusal)
                return Entry(once=True)
            if decision is not RecompileDecision.COMPILE:
                site.full = True
                site.gave_up = decision is RecompileDecision.LIMIT
                self.send(Full(unit.name, where(unit), misses.entries, decision.knob, misses.left))
                if site.gave_up:
                    warn_user(
                        limit_text(unit.name, where(unit), misses.entries, self.misses),
                        stacklevel=2,
                    )
                return None
        started = time.monotonic()
        try:
            entry = self._compile(site, unit, function, slots, observer)
        finally:
            observer.over()
            self.account.charge(had, calls, time.monotonic() - started)
            self._report_compiling(unit)
        if entry is not None:
            site.add(entry)  # before another thread may look whether there is one
        return entry

    def _refuse(self, site: Site, unit: CompileUnit, reason: str) -> None:
        """Tells once why a place gets no further version, until it is cleared."""
        if site not in self._refused:
            self._refused.add(site)
            self.send(Skipped(unit.name, where(unit), reason))

    def _report_compiling(self, unit: CompileUnit) -> None:
        """Warns once of a handle that keeps compiling."""
        if self.account.tells_now():
            warn_user(
                compiling_text(self.handle.function.__qualname__, self.balance(), self.misses),
                stacklevel=2,
            )

    def balance(self) -> Balance:
        """What compiling has cost and saved so far."""
        entries = [entry for site in self.sites() for entry in site.entries]
        saved = sum(
            entry.hits * self._gains.get(self._numbers.get(id(entry), 0), 0.0) for entry in entries
        )
        account = self.account
        return Balance(
            self.calls, self.compiles, account.seconds, account.again, account.again_s, saved
        )

    def _compile(
        self,
        site: Site,
        unit: CompileUnit,
        function: types.FunctionType,
        slots: tuple[Any, ...],
        observer: Observer,
    ) -> Entry | None:
        try:
            self.compiles += 1
            if self.handle.contest is None:
                self._start_contest()
            self.send(Seen(unit.name, observer.where))
            rest = functools.partial(self._continue, site=site, function=function)
            outdated = functools.partial(weak_method(self, "forget"), weakref.ref(unit))
            entry = Compilation(unit, function, slots, self.options, observer, rest, outdated).run()
            self._numbers[id(entry)] = observer.number
            if entry.function is None and entry.code is None:
                unit.idle.found_nothing()
            with observer.clock.phase("guards"):
                self._expect_to_hold(entry, function, slots)
            if observer.probe is not None:
                with observer.clock.phase("measuring"):
                    observer.probe.checks[observer.number] = guard_costs(
                        entry.data, slots, function
                    )
            return entry
        except SkipFrame as reason:
            self.send(Skipped(unit.name, where(unit), str(reason)))
            if self.options.fullgraph:
                raise InternalError(
                    f"{unit.name} cannot be captured in one graph: {reason}"
                ) from None
        except BackendError as error:
            if not self.options.suppresses_errors:
                raise
            warn_user(f"{error}; {unit.name} runs in eager", stacklevel=2)
        except RecursionError:
            self.send(
                Skipped(
                    unit.name,
                    where(unit),
                    "this call lies too deep in Python's stack to be compiled",
                )
            )
            return None
        except FramejitError as error:
            if self.options.strict or not isinstance(error, InternalError):
                raise
            report_internal_failure(unit, error)
        except Exception as error:
            if self.options.strict:
                raise InternalError(
                    f"framejit failed on {unit.name}: {type(error).__name__}: {error}"
                ) from error
            report_internal_failure(unit, error)
        site.skip = True
        return None

    def _expect_to_hold(
        self, entry: Entry, function: types.FunctionType, slots: tuple[Any, ...]
    ) -> None:
        """Guards made for a call hold for it; an entry whose own do not would be made again and
        again."""
        failure = entry.data.failure(
            entry.program.first_failure(slots, function), FrameView(slots, function)
        )
        if failure is not None:
            raise InternalError(f"a guard fails on the call it was made for: {failure}")

    # whether it is worth it (economy.py)

    @property
    def calls(self) -> int:
        """How often the function has been called, compiled or not."""
        return self.root.misses + sum(entry.hits - 1 for entry in self.root.entries)

    def _start_contest(self) -> None:
        """Compares whole calls with eager's, once nothing is compiled any more."""
        asked = self.options.compare_calls and self.options.backend == "autotune"
        if asked and not self.options.fullgraph and self.options.mode == "default":
            self.handle.contest = Contest(weakref.ref(self))
        self.handle.unmeasured = 0

    def end_contest(self) -> None:
        """Calls are compiled from now on."""
        self.handle.contest = None

    def rest(self, calls: int) -> None:
        """So many calls run in eager, without being measured."""
        self.handle.unmeasured = calls

    def tiers(self) -> list[Tier]:
        return [site.data.tier for site in self.sites() if isinstance(site.data, CompileUnit)]

    def has_compiled_gradients(self) -> bool:
        """Whether a backward pass may have been compiled."""
        return self._compiled_gradients

    def say_eager(self, compiled_s: float, eager_s: float, calls: int) -> None:
        unit: CompileUnit = self.root.data
        text = (
            f"a call takes {compiled_s * 1e3:.3g} ms compiled and {eager_s * 1e3:.3g} ms in eager"
        )
        self.send(
            Skipped(
                unit.name,
                where(unit),
                f"{text}; calls run in eager, compared again after {calls}",
            )
        )

    def send(self, event: Event) -> None:
        if isinstance(event, Chosen):
            self._compiled_gradients |= event.backend != "eager"
            self._gains[event.number] = event.gain_s
        if isinstance(event, Working):
            self._work = [*(done for done in self._work if not done.done()), event.done]
        for sink in self.sinks:
            disable_call(
                sink, (event,), {}
            )  # the hook may be on: a backward pass runs amid the program

    # one compile at a time per site

    def _enter(self, site: Site) -> bool:
        """Whether this thread may compile now; else it runs eager. A thread younger than the
        compile does not wait: a backend may have started it, and wait for it in turn."""
        end = time.monotonic() + LONGEST_WAIT
        with self._busy:
            while id(site) in self._compiling:
                left = end - time.monotonic()
                if (
                    not self.options.wait_for_compile
                    or threading.current_thread() not in self._compiling[id(site)]
                    or left <= 0
                ):
                    return False
                self._busy.wait(left)
            # sys._current_frames() knows of every thread, but a collection inside it that frees a
            # thread's locals never ends
            self._compiling[id(site)] = frozenset(threading.enumerate())
        return True

    def _leave(self, site: Site) -> None:
        with self._busy:
            self._compiling.pop(id(site), None)
            self._busy.notify_all()

    def wait(self) -> None:
        """Returns when no thread compiles for this handle, and nothing is tried in the
        background."""
        with self._busy:
            while self._compiling:
                self._busy.wait()
        futures.wait(self._work)

    def _found_meanwhile(
        self, site: Site, function: types.FunctionType, slots: tuple[Any, ...]
    ) -> Entry | None:
        """An entry that another thread made since this one looked."""
        for entry in site.entries:
            if entry.program is None or entry.program.check(slots, function):
                return entry
        return None

    # misses and limits

    def _report_miss(self, site: Site, unit: CompileUnit, frame: FrameView) -> Misses:
        """Why each of the site's entries, the one used last first, cannot serve this call."""
        found = [
            (entry.data, entry.program.first_failure(frame.slots, frame.function))
            for entry in site.entries
        ]
        another = unit.iterations.made_for_another
        own = [
            (program, step)
            for program, step in found
            if not another(program.guards, program.guard_of(step), frame)
        ]
        left = unit.iterations.iterations_left(frame) if len(own) < len(found) else 0
        if left > self.options.unroll_iterations:
            own = found
        failures = [program.failure(step, frame) or UNKNOWN for program, step in own or found[:1]]
        if failures:
            miss = Miss(
                unit.name,
                where(unit) if own else unit.start,
                tuple(map(change, failures)),
                not own,
            )
            self.misses.append(miss)
            self.send(miss)
        for_iteration = not own
        return Misses(
            len(found),
            failures,
            for_iteration,
            left if own is found else 0,
            not for_iteration or self.account.compiles_all or has_room(site.entries),
        )

    # what comes after a break

    def _continue(
        self, capture: Capture, site: Site, function: types.FunctionType
    ) -> Continuations:
        decoded = capture.decoded
        rerun = (
            (lambda: ContinuationMaker(site, True))
            if capture.entry == "state"
            else (lambda: self._rerun(decoded, function))
        )

        def resume(frames: tuple[SuspendedFrame, ...]) -> ContinuationMaker:
            forbidden = (
                capture.exit.reason
                if self.options.fullgraph and isinstance(capture.exit, BreakExit)
                else None
            )
            after = self._site_after(frames, forbidden)
            expect(after.data.variation, capture, frames)
            return ContinuationMaker(after)

        return Continuations(resume, rerun)

    def _rerun(self, decoded: DecodedCode, function: types.FunctionType) -> ContinuationMaker:
        point = ResumePoint(decoded.start, (), frozenset(start_slots(decoded)))
        return ContinuationMaker(
            self._site_after((SuspendedFrame(decoded, function.__globals__, point),)), True
        )

    def _site_after(
        self, frames: tuple[SuspendedFrame, ...], forbidden: GraphBreak | None = None
    ) -> Site:
        key = tuple(frame.key for frame in frames)
        site = self._continuations.get(key)
        if site is None:
            unit = CompileUnit(
                frames[0].decoded,
                frames,
                self._loops,
                iterations=UnrolledIterations(frames),
                forbidden=forbidden,
            )
            site = Site(make_resume_function(frames), 1, weak_method(self, "on_miss"), unit)
            self._continuations[key] = site
            self._pieces.append(frames)
        return site

    def __del__(self) -> None:
        # A unit inside a loop names its own site in its constants, and the garbage collector does
        # not
        # look into code objects.
        for site in (self.root, *self._continuations.values()):
            site.clear()

    def sites(self) -> list[Site]:
        """Every place that entries of this handle live in: its function, what follows breaks,
        frames met there."""
        met = [
            site for _, site in self.handle.sites() if site is not None and site is not self.root
        ]
        return [self.root, *self._continuations.values(), *met]

    @contextlib.contextmanager
    def measure(self, probe: Probe) -> Iterator[None]:
        """Calls inside run entries of their own, which tell `probe`; those there were are put aside
        and come back."""
        kept = [(site, site.entries, site.full, site.gave_up) for site in self.sites()]
        outer, self.probe = self.probe, probe
        contest, unmeasured = self.handle.contest, self.handle.unmeasured
        self.handle.contest = None
        for site in self.sites():
            site.clear()
            site.full = site.gave_up = False
        try:
            yield
        finally:
            self.probe = outer
            self.handle.contest, self.handle.unmeasured = contest, unmeasured
            for site in self.sites():
                site.clear()
            for site, entries, full, gave_up in kept:
                for entry in reversed(entries):
                    site.add(entry)
                site.full, site.gave_up = full, gave_up

    def forget(self, outdated: weakref.ref[CompileUnit]) -> None:
        """Forgets the entries of one unit."""
        for site in self.sites():
            if site.data is outdated():
                site.clear()

    def clear(self) -> None:
        """Forgets every entry; the next calls compile anew."""
        for site in self.sites():
            site.clear()
            site.skip = site.full = site.gave_up = False
        self.root.skip = runs_itself(self.handle.function)
        self.account = Account(self.options.compile_share, self.options.compile_budget)
        self._refused.clear()
        self._start_contest()


def drop_entries(continuations: dict[Any, Site]) -> None:
    """A loop's site leads to itself through the constants of code objects, into which the garbage
    collector does not look."""
    for site in continuations.values():
        site.clear()


def weak_method(cache: Cache, name: str) -> Any:
    """A bound method that does not keep its object: sites belong to the cache, not the cache to its
    sites."""
    reference = weakref.WeakMethod(getattr(cache, name))

    def call(*args: Any) -> Any:
        method = reference()
        return None if method is None else method(*args)

    return call


def runs_itself(function: types.FunctionType) -> bool:
    """Whether the frames of a handle's own function stay in Python: generators, functions marked as
    disabled. What torch's mark wraps is left to Python together with all that it calls, which an
    entry says."""
    code = function.__code__
    return bool(code.co_flags & GENERATORS) or (is_disabled(function) and not stays_in_python(code))


def where(unit: CompileUnit) -> str:
    return f"{unit.decoded.code.co_filename}:{unit.decoded.code.co_firstlineno}"


# A guard that failed when the call came and does not any more.
UNKNOWN = Failure(None, "something", "so", "otherwise for a moment")


def report_internal_failure(unit: CompileUnit, error: Exception) -> None:
    """One warning a cause: the line of ours that raised, and what it raised."""
    cause = type(error).__name__, *raising_line(error)
    warn_once(
        f"internal failure on {unit.name} ({type(error).__name__}: {error}); it runs in eager, "
        "as will others that fail so, "
        "without another warning. @framejit.disable on it keeps framejit from trying; "
        "FRAMEJIT_STRICT=1 raises here: please "
        "report that output.",
        key=cause,
        stacklevel=2,
    )


def raising_line(error: BaseException) -> tuple[str, int]:
    """The innermost file and line that an exception went through."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
