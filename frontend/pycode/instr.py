"""The canonical instruction set: what the interpreter sees of CPython bytecode, whatever its
version.

In: nothing. Out: `Op`, `Instr`, `Handler`, `DecodedCode`, the border between decode and interpret.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


class Op(enum.IntEnum):  # an IntEnum, so that tables by Op are lists
    """Canonical operations. After the name: what `Instr.arg` holds, then the stack effect (top to
    the right)."""

    # stack
    NOP = enum.auto()
    POP_TOP = enum.auto()
    COPY = enum.auto()  # n: push the n-th item from the top (1 = top)
    SWAP = enum.auto()  # n: exchange top with the n-th item
    PUSH_NULL = enum.auto()
    # names and constants
    LOAD_CONST = enum.auto()  # the constant
    LOAD_FAST = enum.auto()  # slot (localsplus index); unbound raises
    LOAD_FAST_AND_CLEAR = enum.auto()  # slot; pushes NULL when unbound, leaves the slot unbound
    # slot; storing NULL unbinds. On a cell slot it replaces the cell itself: 3.12+ restores the
    # outer cell that way after an inlined comprehension, where LOAD_FAST_AND_CLEAR took it
    STORE_FAST = enum.auto()
    DELETE_FAST = enum.auto()  # slot
    # slot: put what it holds, if anything, into a new cell (3.12+: inlined comprehensions)
    MAKE_CELL = enum.auto()
    # slot: push the cell itself. A slot holds one object, which LOAD_FAST and LOAD_CLOSURE both
    # push: 3.12+ keeps an inlined comprehension's variable, without a cell, in a cell's slot
    LOAD_CLOSURE = enum.auto()
    LOAD_DEREF = enum.auto()  # slot: push the cell's contents
    STORE_DEREF = enum.auto()  # slot
    DELETE_DEREF = enum.auto()  # slot
    LOAD_GLOBAL = enum.auto()  # name
    STORE_GLOBAL = enum.auto()  # name
    DELETE_GLOBAL = enum.auto()  # name
    LOAD_ATTR = enum.auto()  # name; obj -> obj.name
    LOAD_SUPER_ATTR = enum.auto()  # (name, two_arguments); super, class, self -> attribute
    STORE_ATTR = enum.auto()  # name; value, obj ->
    DELETE_ATTR = enum.auto()  # name; obj ->
    IMPORT_NAME = enum.auto()  # name; level, fromlist -> module
    IMPORT_FROM = enum.auto()  # name; module -> module, attribute
    LOAD_BUILD_CLASS = enum.auto()
    LOAD_ASSERTION_ERROR = enum.auto()
    # operators
    UNARY = enum.auto()  # "-", "+", "~", "not"
    BINARY = enum.auto()  # "+", "-", ..., "@", and in place "+=", ...
    COMPARE = enum.auto()  # "<", "<=", "==", "!=", ">", ">="
    IS_OP = enum.auto()  # True for `is not`
    CONTAINS_OP = enum.auto()  # True for `not in`; item, container -> bool
    SUBSCR = enum.auto()  # container, key -> value
    STORE_SUBSCR = enum.auto()  # value, container, key ->
    DELETE_SUBSCR = enum.auto()  # container, key ->
    # containers
    BUILD_TUPLE = enum.auto()  # n
    BUILD_LIST = enum.auto()  # n
    BUILD_SET = enum.auto()  # n
    BUILD_MAP = enum.auto()  # n pairs key, value
    BUILD_CONST_KEY_MAP = enum.auto()  # n; n values, tuple of keys -> dict
    BUILD_STRING = enum.auto()  # n
    BUILD_SLICE = enum.auto()  # 2 or 3
    LIST_EXTEND = enum.auto()  # i: extend the list at depth i (after popping the iterable; 1 = top)
    LIST_APPEND = enum.auto()  # i
    SET_UPDATE = enum.auto()  # i
    SET_ADD = enum.auto()  # i
    DICT_UPDATE = enum.auto()  # i
    DICT_MERGE = enum.auto()  # i: as DICT_UPDATE, duplicate keys raise TypeError
    MAP_ADD = enum.auto()  # i; ..., key, value -> ...
    LIST_TO_TUPLE = enum.auto()
    UNPACK_SEQUENCE = enum.auto()  # n; first item ends on top
    UNPACK_EX = enum.auto()  # (before, after)
    # (conversion "" | "str" | "repr" | "ascii", has_spec); value[, spec] -> str
    FORMAT = enum.auto()
    CONVERT = enum.auto()  # "str" | "repr" | "ascii"; value -> str
    # calls
    # (n, names): n arguments, the last len(names) by keyword. Of the two slots under them one is
    # NULL and dropped; if neither is, the lower is the callee and the upper its first argument
    CALL = enum.auto()
    # has_kwargs; slot, slot, args[, kwargs]: the same rule for the two slots
    CALL_FUNCTION_EX = enum.auto()
    # the parts under the code object, bottom first: a tuple of "defaults", "kwdefaults",
    # "annotations", "closure"
    MAKE_FUNCTION = enum.auto()
    SET_FUNCTION_ATTRIBUTE = enum.auto()  # one of those names; value, function -> function
    # control
    JUMP = enum.auto()  # target
    JUMP_IF = enum.auto()  # True | False, target; pops the tested value, truth is taken by bool()
    JUMP_IF_NONE = enum.auto()  # True (jump if None) | False (jump if not None), target; pops
    JUMP_IF_OR_POP = enum.auto()  # True | False, target; keeps the value when it jumps (3.11)
    RETURN_VALUE = enum.auto()
    GET_ITER = enum.auto()
    # target when exhausted (then the iterator is popped); iter -> iter, item
    FOR_ITER = enum.auto()
    # pattern matching
    GET_LEN = enum.auto()
    MATCH_MAPPING = enum.auto()
    MATCH_SEQUENCE = enum.auto()
    MATCH_KEYS = enum.auto()
    MATCH_CLASS = enum.auto()  # n positional patterns; subject, class, names -> tuple or None
    # exceptions
    RAISE = enum.auto()  # 0, 1 (exc) or 2 (exc, cause)
    RERAISE = enum.auto()  # depth of the saved lasti, 0 for none; exc ->
    PUSH_EXC_INFO = enum.auto()  # exc -> previous, exc; exc becomes the handled exception
    POP_EXCEPT = enum.auto()  # previous ->; previous becomes the handled exception
    CHECK_EXC_MATCH = enum.auto()  # exc, type -> exc, bool
    CHECK_EG_MATCH = enum.auto()  # exc, type -> rest, matched
    PREP_RERAISE_STAR = enum.auto()
    BEFORE_WITH = enum.auto()  # manager -> exit, entered
    WITH_EXCEPT_START = enum.auto()  # exit, lasti, previous, exc -> the same, result of exit(...)
    # generators
    RETURN_GENERATOR = enum.auto()  # pushes one item, which a POP_TOP removes
    YIELD_VALUE = enum.auto()  # value -> what is sent
    GET_YIELD_FROM_ITER = enum.auto()
    # target when the receiver is done; receiver, value -> receiver, yielded, at the target: result.
    # On every version, SEND itself drops the receiver, and its target is past any END_SEND
    SEND = enum.auto()
    END_SEND = enum.auto()  # receiver, value -> value; reached after CLEANUP_THROW only (3.12+)
    # receiver, sent, exc -> None, value of a StopIteration; any other exc is raised again
    CLEANUP_THROW = enum.auto()
    STOPITERATION_ERROR = enum.auto()  # exc -> exc, a StopIteration turned into a RuntimeError
    # all that capture leaves to Python (async, class bodies, ...): arg is CPython's name
    UNSUPPORTED = enum.auto()


@dataclass(frozen=True, slots=True)
class Instr:
    """One canonical instruction. Those of one raw group (`offset`..`end`) are run by Python
    together or not at all."""

    op: Op
    arg: Any
    target: int  # index of the instruction jumped to, -1 for none
    # byte offset of the raw group in co_code, its EXTENDED_ARG, KW_NAMES and PRECALL included
    offset: int
    end: int  # byte offset after the raw group and its caches
    starts_group: bool
    line: int | None


@dataclass(frozen=True, slots=True)
class Handler:
    """Where an exception raised under an instruction goes."""

    target: int  # index of the handler's first instruction
    depth: int  # stack items kept
    lasti: bool  # whether the raising instruction's index is pushed under the exception


@dataclass(frozen=True, eq=False)
class DecodedCode:
    """A code object in canonical form. `start` skips what only sets up cells and free variables."""

    code: CodeType
    instrs: tuple[Instr, ...]
    handlers: tuple[Handler | None, ...]  # parallel to instrs
    start: int
    slots: tuple[str, ...]  # names of the localsplus slots
    nargs: int  # argument slots: positional, keyword-only, *args, **kwargs, in this order
    cells: frozenset[int]  # slots that hold a cell made by this frame
    frees: tuple[int, ...]  # slots that hold a cell of the function's closure, in closure order
    # slots read at or after each instruction (lazy)
    live_in: Sequence[frozenset[int]] = field(repr=False)

    def group_end(self, index: int) -> int:
        """The index after the raw group that starts at `index`."""
        end = index + 1
        while end < len(self.instrs) and not self.instrs[end].starts_group:
            end += 1
        return end
