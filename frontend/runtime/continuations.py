"""Makes the continuations of a break: for each frame, the site of the code after it, or a function
that runs that code in eager."""

from __future__ import annotations

import types

from ..codegen.build import Continuations, start_slots
from ..pycode.instr import DecodedCode
from ..pycode.resume import ResumePoint, SuspendedFrame
from ..tracing.capture import Capture
from ..tracing.interpreter.outcome import BreakExit
from ..tracing.sizes.variation_after_break import pass_on_variation
from ._hook import ContinuationMaker, Site
from .sites import HandleSites


def make_continuations(
    capture: Capture, site: Site, function: types.FunctionType, sites: HandleSites, fullgraph: bool
) -> Continuations:
    """The continuations that the code of a capture at `site`, of a frame of `function`, returns.
    fullgraph: a break is an error, which is raised if the code after it is reached."""
    decoded = capture.decoded
    forbidden = capture.exit.reason if fullgraph and isinstance(capture.exit, BreakExit) else None

    def resume(frames: tuple[SuspendedFrame, ...]) -> ContinuationMaker:
        after = sites.site_after_break(frames, forbidden)
        pass_on_variation(after.data.variation, capture, frames)
        return ContinuationMaker(after)

    def rerun() -> ContinuationMaker:
        if capture.is_continuation:
            return ContinuationMaker(site, True)
        return ContinuationMaker(sites.site_after_break((start_of(decoded, function),)), True)

    return Continuations(resume, rerun)


def start_of(decoded: DecodedCode, function: types.FunctionType) -> SuspendedFrame:
    """A frame of the function that has not begun."""
    point = ResumePoint(decoded.start, (), frozenset(start_slots(decoded)))
    return SuspendedFrame(decoded, function.__globals__, point)
