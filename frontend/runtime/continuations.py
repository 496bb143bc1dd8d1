"""Makes the continuations of a break: for each frame, the site of the code after it, or a function
that runs that code in eager."""

from __future__ import annotations

import types

from ..codegen.build import Continuations, start_slots
from ..pycode.instr import DecodedCode
from ..pycode.resume import ResumePoint, SuspendedFrame
from ..tracing.capture import Capture
from ..tracing.interpreter.outcome import BreakExit, ReturnExit
from ..tracing.sizes.variation_after_break import pass_on_variation
from ..values.base import LazyValue, Value
from ._hook import ContinuationMaker, Site
from .sites import HandleSites


def make_continuations(
    capture: Capture, site: Site, function: types.FunctionType, sites: HandleSites, fullgraph: bool
) -> Continuations:
    """The continuations that the code of a capture at `site`, of a frame of `function`, returns.
    fullgraph: a break is an error, which is raised if the code after it is reached."""
    decoded = capture.decoded
    forbidden = capture.exit.reason if fullgraph and isinstance(capture.exit, BreakExit) else None
    told = capture.trace.frames.is_compiling_at is not None or site.data.leaves_context
    leaves_context = told and is_inside_context(capture.exit)

    def resume(frames: tuple[SuspendedFrame, ...]) -> ContinuationMaker:
        after = sites.site_after_break(frames, forbidden, leaves_context)
        pass_on_variation(after.data.variation, capture, frames)
        return ContinuationMaker(after)

    def rerun() -> ContinuationMaker:
        if capture.is_continuation:
            return ContinuationMaker(site, True)
        return ContinuationMaker(sites.site_after_break((start_of(decoded, function),)), True)

    return Continuations(resume, rerun)


def is_inside_context(exit_: ReturnExit | BreakExit) -> bool:
    """Whether a break is inside a `with` block of a context manager written in Python."""
    frames = exit_.frames if isinstance(exit_, BreakExit) else ()
    return any(is_exit(value) for frame in frames for value in frame.stack)


def is_exit(value: Value) -> bool:
    """Whether this is the method of a context manager that leaves it."""
    if isinstance(value, LazyValue):
        name = getattr(value.object, "__qualname__", "")
    else:
        name = getattr(getattr(value, "function", None), "name", "")
    return name.endswith(".__exit__")


def start_of(decoded: DecodedCode, function: types.FunctionType) -> SuspendedFrame:
    """A frame of the function that has not begun."""
    point = ResumePoint(decoded.start, (), frozenset(start_slots(decoded)))
    return SuspendedFrame(decoded, function.__globals__, point)
