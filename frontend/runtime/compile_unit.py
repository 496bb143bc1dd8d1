"""CompileUnit: what a site compiles."""

from __future__ import annotations

from dataclasses import field

from ...errors import GraphBreak
from ...records import record
from ...tier import Tier
from ..pycode.instr import DecodedCode
from ..pycode.resume import SuspendedFrame
from ..tracing.sizes.variation import Variation
from ..tracing.uncaptured_code import UncapturedCode
from .idle_frame import IDLE_ENDS, IdleFrame
from .unrolled_iterations import UnrolledIterations


@record
class CompileUnit:
    """What a site compiles: a whole code object, or the code after a break. name: of the function,
    in messages. frames: those suspended at the break, outermost first. uncaptured: what the
    handle leaves to Python. forbidden: with fullgraph, the break before this unit, which was made
    for an exception about to leave the frame. leaves_context: this unit leaves a `with` block
    entered by code that knew it was compiled (`torch.compiler.is_compiling()`): eager code might
    leave the block in a way that does not fit."""

    name: str
    decoded: DecodedCode
    frames: tuple[SuspendedFrame, ...]
    uncaptured: UncapturedCode
    variation: Variation = field(default_factory=Variation)
    # of the loops around it
    iterations: UnrolledIterations = field(default_factory=UnrolledIterations)
    tier: Tier = field(default_factory=Tier)
    idle: IdleFrame = field(default_factory=IdleFrame)
    # after a break: counts the captures of this unit alone that ended without another break
    idle_end: IdleFrame = field(default_factory=lambda: IdleFrame(IDLE_ENDS))
    forbidden: GraphBreak | None = None
    leaves_context: bool = False

    def may_capture(self) -> bool:
        """Whether a call that no entry serves is captured now, as far as tensor work decides."""
        return self.idle_end.may_capture() and self.idle.may_capture()

    @property
    def in_python_loop(self) -> bool:
        """Whether it is in a loop that Python runs, as it is too long or its length varies."""
        return self.uncaptured.has_loops and any(
            self.uncaptured.has_loop(frame.decoded.code, index)
            for frame, loop in zip(self.frames, self.iterations.loops, strict=True)
            for index in loop
        )

    @property
    def where(self) -> str:
        """file:line of its function."""
        return f"{self.decoded.code.co_filename}:{self.decoded.code.co_firstlineno}"

    @property
    def start(self) -> str:
        """file:line of its first instruction."""
        if not self.frames:
            return self.where
        decoded, point = self.frames[-1].decoded, self.frames[-1].point
        return f"{decoded.code.co_filename}:{decoded.instrs[point.index].line}"
