"""The table of instruction handlers, a list by Op, which opcodes/ fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import GraphBreak
from ...pycode.instr import Instr, Op

Handler = Callable[[Any, Instr], Any]  # of an Interpreter and its current instruction


def unsupported_op(frame: Any, instr: Instr) -> None:
    named = isinstance(instr.arg, str)
    raise GraphBreak("unsupported-bytecode", instr.arg if named else instr.op.name)


HANDLERS: list[Handler] = [unsupported_op] * (max(Op) + 1)


def handles(*ops: Op) -> Callable[[Handler], Handler]:
    """Registers the handler of canonical ops; a second one for an op raises."""

    def register(handler: Handler) -> Handler:
        for op in ops:
            if HANDLERS[op] is not unsupported_op:
                raise ValueError(
                    f"two handlers for {op.name}: {HANDLERS[op].__name__} and {handler.__name__}"
                )
            HANDLERS[op] = handler
        return handler

    return register
