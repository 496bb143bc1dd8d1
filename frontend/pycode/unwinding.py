"""Whether an exception that is raised inside a frame can leave it without running any of its code.

In: canonical instructions and their handlers. Independent of versions.
"""

from __future__ import annotations

import builtins
from collections.abc import Container
from typing import TypeGuard

from .instr import DecodedCode, Op

CLEANS_UP = frozenset({Op.COPY, Op.POP_EXCEPT})


def passes_handlers(
    decoded: DecodedCode, index: int, exception: type[BaseException], variables: Container[str]
) -> bool:
    """Whether an exception raised at an instruction leaves the frame without running any of its
    code: every handler on its way consists of `except` clauses for other builtin exceptions.
    variables: names of globals, which may hide those of builtins."""
    handler = decoded.handlers[index]
    while handler is not None:
        position = handler.target
        # raises again anything but StopIteration
        if decoded.instrs[position].op is Op.CLEANUP_THROW:
            handler = decoded.handlers[position]
            continue
        if decoded.instrs[position].op is Op.STOPITERATION_ERROR:
            position += 1
        elif decoded.instrs[position].op is Op.PUSH_EXC_INFO:
            position = skip_clauses(decoded, position + 1, exception, variables)
        if position < 0:
            return False
        while decoded.instrs[position].op in CLEANS_UP:
            position += 1
        if decoded.instrs[position].op is not Op.RERAISE:
            return False
        handler = decoded.handlers[position]
    return True


def skip_clauses(
    decoded: DecodedCode, position: int, exception: type[BaseException], variables: Container[str]
) -> int:
    """The instruction after the clauses `except name:` that begin at `position` and do not match;
    -1 if one matches or is of another form."""
    instrs = decoded.instrs
    while instrs[position].op is Op.LOAD_GLOBAL:
        name, match, jump = instrs[position : position + 3]
        caught = None if name.arg in variables else vars(builtins).get(str(name.arg))
        if match.op is not Op.CHECK_EXC_MATCH or jump.op is not Op.JUMP_IF or jump.arg is not False:
            return -1
        if not is_builtin_exception(caught) or issubclass(exception, caught):
            return -1
        position = jump.target
    return position


def is_builtin_exception(caught: object) -> TypeGuard[type[BaseException]]:
    return isinstance(caught, type) and issubclass(caught, BaseException)
