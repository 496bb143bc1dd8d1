"""FrameState: the stack and slots of one frame that is interpreted, and where it is in its code."""

from __future__ import annotations

from typing import Any

from ....guards.source import Source
from ...pycode.call_completion import AS_IS, CallCompletion
from ...pycode.instr import DecodedCode, Instr
from ...pycode.passthrough import PassthroughFrame
from ...values.base import Value
from ...values.context import TraceContext
from ...values.functions.cell import CellValue


class FrameState:
    """`slots` are CPython's localsplus: None is unbound, cells are CellValues."""

    tx: TraceContext

    def __init__(
        self,
        decoded: DecodedCode,
        globals_: dict[str, Any],
        globals_path: Source | None,
        slots: list[Value | None],
    ) -> None:
        self.decoded = decoded
        self.globals, self.globals_path = globals_, globals_path
        self.slots = slots
        self.stack: list[Value] = []
        self.pc = decoded.start
        self.current: Instr = decoded.instrs[decoded.start]
        # where the current raw group starts, and its position (see outcome.py)
        self.group = decoded.start
        self.position = -1  # none before the first group
        # whether a break can be made in this frame: its caller's instruction is a call that returns
        # its result
        self.resumable = False
        # between the caller and it
        self.passthroughs: tuple[PassthroughFrame, ...] = ()
        self.completion: CallCompletion = AS_IS  # what the caller's instruction makes of the return

    def bind_cells(self, closure: list[CellValue]) -> None:
        """Makes and copies cells as MAKE_CELL and COPY_FREE_VARS do at a frame's start."""
        for slot in self.decoded.cells:
            self.slots[slot] = CellValue(self.slots[slot])
        for slot, cell in zip(self.decoded.frees, closure, strict=True):
            self.slots[slot] = cell

    def where(self) -> str:
        return f"{self.decoded.code.co_filename}:{self.current.line}"

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        """Takes the top item, realised: after a break it may still be LazyValue. Handlers that
        only move items use `stack` itself."""
        return self.tx.look(self.stack.pop())

    def peek(self, depth: int = 1) -> Value:
        """The item at a distance from the top, realised."""
        value = self.stack[-depth] = self.tx.look(self.stack[-depth])
        return value

    def popn(self, n: int) -> list[Value]:
        if n == 0:
            return []
        items = self.stack[-n:]
        del self.stack[-n:]
        return items

    def save(self) -> Any:
        return self.pc, list(self.stack), list(self.slots)

    def load(self, saved: Any) -> None:
        self.pc, self.stack, self.slots = saved[0], list(saved[1]), list(saved[2])
