"""Instructions of the `bytecode` library to a code object, and what the library cannot express:

- Constants are distinguished by identity, not by value: generated code has objects of the program
  among them.
- A cell's or free variable's slot can be loaded and stored as it is (`raw_slot`): the cell, not
  what is in it.
"""

from __future__ import annotations

import opcode
from collections.abc import Sequence
from types import CodeType
from typing import Any

from bytecode import Bytecode, CellVar, ConcreteBytecode, ConcreteInstr, FreeVar, Instr
from bytecode.instr import InstrLocation

from ...records import record

# line, end line, column, end column
Position = tuple[int | None, int | None, int | None, int | None]
NOWHERE: Position = (None, None, None, None)
RAW_SLOT = "cell of "  # begins the name under which a raw slot goes through the library


class ConstantObject:
    """An object among the constants; the library compares constants, and two of these are never
    equal."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@record
class Signature:
    """What a code object takes, and the names of its locals, arguments first."""

    argcount: int
    varnames: tuple[str, ...]
    flags: int


def raw_slot(name: str) -> str:
    """The name by which an instruction on locals reaches the slot of a cell or free variable."""
    return RAW_SLOT + name


def location(position: Position) -> InstrLocation:
    line, end_line, column, end_column = position
    if None in (line, end_line, column, end_column):
        return InstrLocation(line, None, None, None)
    return InstrLocation(line, end_line, column, end_column)


def make_code(instructions: Sequence[Any], like: CodeType, signature: Signature) -> CodeType:
    """A code object of these instructions that has the names, file and free variables of another
    one."""
    symbolic = Bytecode(instructions)
    symbolic.argnames = list(signature.varnames)  # all of them, so that their order is kept
    symbolic.cellvars, symbolic.freevars = list(like.co_cellvars), list(like.co_freevars)
    stack_size = symbolic.compute_stacksize()
    concrete = symbolic.to_concrete_bytecode(compute_exception_stack_depths=False)
    resolve_raw_slots(concrete, len(signature.varnames))
    concrete.consts = [constant.value for constant in concrete.consts]
    set_signature(concrete, like, signature)
    return concrete.to_code(stacksize=stack_size, compute_exception_stack_depths=False)


def set_signature(concrete: ConcreteBytecode, like: CodeType, signature: Signature) -> None:
    """Sets the name, place and flags that a code object is to have."""
    concrete.name = like.co_name
    concrete.qualname = like.co_qualname
    concrete.filename = like.co_filename
    concrete.first_lineno, concrete.argcount = like.co_firstlineno, signature.argcount
    concrete.flags = signature.flags  # type: ignore[assignment]  # the library takes a number, too
    concrete.cellvars, concrete.freevars = list(like.co_cellvars), list(like.co_freevars)


def resolve_raw_slots(concrete: ConcreteBytecode, nlocals: int) -> None:
    """Let instructions on raw slots name the slots of the cells; CPython numbers locals, cells,
    free variables in this order."""
    varnames = concrete.varnames[:nlocals]
    raw_names = concrete.varnames[nlocals:]
    others = [*(name for name in concrete.cellvars if name not in varnames), *concrete.freevars]
    slots = [
        *range(nlocals),
        *(nlocals + others.index(name.removeprefix(RAW_SLOT)) for name in raw_names),
    ]
    # the library has put the raw names in front of these
    slots += range(nlocals, nlocals + len(others))
    concrete.varnames = varnames
    if not raw_names:
        return
    for index, instr in enumerate(concrete):
        if isinstance(instr, ConcreteInstr) and instr.opcode in ON_SLOTS and instr.arg >= nlocals:
            # the size stays as it is: distances are computed already
            concrete[index] = ConcreteInstr(
                instr.name,
                slots[instr.arg],
                location=instr.location,
                extended_args=instr.size // 2 - 1,
            )


ON_SLOTS = frozenset((*opcode.haslocal, *opcode.hasfree))


def symbolic(op: str, arg: int, code: CodeType, where: InstrLocation | None) -> Instr:
    """A raw instruction of a code object, neither a jump nor on slots, as one of the library's."""
    one = ConcreteBytecode(consts=code.co_consts, names=code.co_names)
    takes_argument = opcode.opmap[op] in TAKES_ARGUMENT
    one.append(
        ConcreteInstr(op, arg, location=where)
        if takes_argument
        else ConcreteInstr(op, location=where)
    )
    (instr,) = one.to_bytecode()
    assert isinstance(instr, Instr)
    if instr.opcode in opcode.hasconst:
        instr.arg = ConstantObject(instr.arg)  # type: ignore[assignment]
    return instr


# 3.12 lists the opcodes that take one, since not all of them are above a number any more.
TAKES_ARGUMENT = frozenset(getattr(opcode, "hasarg", None) or range(opcode.HAVE_ARGUMENT, 256))


def variable(name: str, code: CodeType) -> CellVar | FreeVar:
    """A cell or free variable of a code object."""
    return FreeVar(name) if name in code.co_freevars else CellVar(name)
