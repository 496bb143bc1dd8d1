"""Functions that only forward a call and that tracing skips: stand-ins keep their place in
tracebacks.

In: such a function, which of its calls hands on, and what is called there instead. Out: a function
of one argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType

from .code_builder import CodeBuilder, dummy_closure
from .decode import decode
from .instr import Instr, Op


@dataclass(frozen=True, eq=False)
class PassthroughFrame:
    """A function, and its call f(*args, **kwargs) that hands on: the n-th of that form."""

    function: FunctionType
    n: int

    @property
    def call(self) -> Instr:
        return [
            instr
            for instr in decode(self.function.__code__).instrs
            if instr.op is Op.CALL_FUNCTION_EX
        ][self.n]


def make_passthrough(through: PassthroughFrame, inner: FunctionType) -> FunctionType:
    """A function with the names and lines of `through` that calls `inner` with its one argument."""
    b = CodeBuilder(decode(through.function.__code__), takes_state=True)
    b.at(through.call)
    b.load_callee(inner)
    assert b.state_slot is not None
    b.load_slot(b.state_slot)
    b.call(1)
    b.return_value()
    code = b.finish()
    made = FunctionType(code, through.function.__globals__, code.co_name, None, dummy_closure(code))
    # it is no frame of the user's to compile
    made._framejit_skip = True  # type: ignore[attr-defined]
    return made
