"""HandleSites: the places in which the entries of one handle are stored."""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import GraphBreak
from ..pycode.decode import decode
from ..pycode.resume import SuspendedFrame, make_resume_function
from ..tracing.uncaptured_code import UncapturedCode
from ._hook import Entry, Handle, Site
from .compile_unit import CompileUnit
from .idle_frame import IDLE_RESTS, IdleFrame
from .unrolled_iterations import UnrolledIterations

OnMiss = Callable[[Site, types.FunctionType, tuple[Any, ...]], Entry | None]


class HandleSites:
    """The sites of one handle: of its function, of the code after each break, and of the frames
    that the hook met, which the handle keeps (`handle`, set when there is one). on_miss: called for
    a call that no entry of a site serves; must not keep this object alive."""

    handle: Handle

    def __init__(self, function: types.FunctionType, on_miss: OnMiss) -> None:
        self._code, self._name = function.__code__, function.__qualname__
        self._on_miss = on_miss
        self._uncaptured = UncapturedCode()
        self._continuations: dict[tuple[Any, ...], Site] = {}
        # the ids of their code objects and globals are keys
        self._suspended: list[tuple[SuspendedFrame, ...]] = []
        self._idle: dict[int, IdleFrame] = {}  # by the id of the outermost frame's code
        self.root = self.new(function.__code__, function)
        weakref.finalize(self, clear_sites, self._continuations).atexit = False

    def new(self, code: types.CodeType, function: types.FunctionType | None) -> Site:
        """A site for whole calls of a code object."""
        decoded = decode(code)
        unit = CompileUnit(self.name_of(code), decoded, (), self._uncaptured)
        return Site(function, decoded.nargs, self._on_miss, unit)

    def site_after_break(
        self,
        frames: tuple[SuspendedFrame, ...],
        forbidden: GraphBreak | None = None,
        leaves_context: bool = False,
    ) -> Site:
        """The site of the code after the break at which these frames are suspended, outermost
        first. forbidden, leaves_context: see CompileUnit."""
        key = tuple(frame.key for frame in frames)
        site = self._continuations.get(key)
        if site is None:
            unit = CompileUnit(
                self.name_of(frames[0].decoded.code),
                frames[0].decoded,
                frames,
                self._uncaptured,
                iterations=UnrolledIterations(frames),
                idle=self.idle_after(frames[0].decoded.code),
                forbidden=forbidden,
                leaves_context=leaves_context,
            )
            site = Site(make_resume_function(frames), 1, self._on_miss, unit)
            self._continuations[key] = site
            self._suspended.append(frames)
        return site

    def name_of(self, code: types.CodeType) -> str:
        """The name of a function. The handle's own may be that of a method which a decorator's
        wrapper, whose code it is, has taken over."""
        return self._name if code is self._code else code.co_qualname

    def idle_after(self, code: types.CodeType) -> IdleFrame:
        """Counts the captures without tensor work of code after breaks in frames of this code
        object."""
        return self._idle.setdefault(id(code), IdleFrame(IDLE_RESTS))

    @property
    def suspended_codes(self) -> Iterator[types.CodeType]:
        """The code objects of frames that are suspended at breaks."""
        return (frame.decoded.code for frames in self._suspended for frame in frames)

    def __iter__(self) -> Iterator[Site]:
        """The function's site first, then those of code after breaks, then those of frames that the
        hook met."""
        yield self.root
        yield from list(self._continuations.values())
        for _, site in self.handle.sites():
            if site is not None and site is not self.root:
                yield site

    @property
    def calls(self) -> int:
        """How often the function has been called, compiled or not."""
        return self.root.misses + sum(entry.hits - 1 for entry in self.root.entries)

    def forget(self, outdated: weakref.ref[CompileUnit]) -> None:
        """Forgets the entries of one unit."""
        for site in self:
            if site.data is outdated():
                site.clear()

    @contextlib.contextmanager
    def set_entries_aside(self) -> Iterator[None]:
        """Within the context the sites are empty; afterwards they have their former entries again,
        and no others."""
        kept = [(site, site.entries, site.full, site.gave_up) for site in self]
        for site in self:
            site.clear()
            site.full = site.gave_up = False
        try:
            yield
        finally:
            for site in self:
                site.clear()
            for site, entries, full, gave_up in kept:
                for entry in reversed(entries):
                    site.add(entry)
                site.full, site.gave_up = full, gave_up

    def __del__(self) -> None:
        # A unit inside a loop names its own site in its constants, and the garbage collector does
        # not look into code objects.
        self.root.clear()
        clear_sites(self._continuations)


def clear_sites(continuations: dict[Any, Site]) -> None:
    """A loop's site leads to itself through the constants of code objects, into which the garbage
    collector does not look."""
    for site in continuations.values():
        site.clear()


def valid_entry(site: Site, function: types.FunctionType, slots: tuple[Any, ...]) -> Entry | None:
    """An entry of the site that serves a call; None if there is none."""
    for entry in site.entries:
        if entry.program is None or entry.program.check(slots, function):
            return entry
    return None
