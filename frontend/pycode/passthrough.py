"""Passthrough functions: they only forward a call, and tracing skips them. Stand-ins for them keep
their place in tracebacks.

In: such a function, and what is called in place of its call. Out: a function of one argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType

from .code_builder import CodeBuilder, dummy_closure
from .decode import decode
from .instr import Instr, Op


@dataclass(frozen=True, eq=False)
class PassthroughFrame:
    """A function that only forwards a call, such as nn.Module._call_impl. call_index: which of its
    calls f(*args, **kwargs) does so."""

    function: FunctionType
    call_index: int

    @property
    def call(self) -> Instr:
        return [
            instr
            for instr in decode(self.function.__code__).instrs
            if instr.op is Op.CALL_FUNCTION_EX
        ][self.call_index]


def make_passthrough(passthrough: PassthroughFrame, inner: FunctionType) -> FunctionType:
    """A function with the names and lines of a passthrough function that calls `inner` with its one
    argument."""
    b = CodeBuilder(decode(passthrough.function.__code__), takes_state=True)
    b.at(passthrough.call)
    b.load_callee(inner)
    assert b.state_slot is not None
    b.load_slot(b.state_slot)
    b.call(1)
    b.return_value()
    code = b.finish()
    made = FunctionType(
        code, passthrough.function.__globals__, code.co_name, None, dummy_closure(code)
    )
    # it is no frame of the user's to compile
    made._framejit_skip = True  # type: ignore[attr-defined]
    return made
