"""CPython 3.12: what differs from 3.11."""

from __future__ import annotations

import opcode
from dataclasses import replace
from typing import Any

from . import py311
from .dialect import Rule
from .instr import Op
from .py311 import forward, left_to_python, null_below, number, without_argument

INTRINSICS_1 = tuple(getattr(opcode, "_intrinsic_1_descs", ()))
INTRINSICS_2 = tuple(getattr(opcode, "_intrinsic_2_descs", ()))
INTRINSIC_OPS = {
    "INTRINSIC_LIST_TO_TUPLE": (Op.LIST_TO_TUPLE, None),
    "INTRINSIC_UNARY_POSITIVE": (Op.UNARY, "+"),
    "INTRINSIC_STOPITERATION_ERROR": (Op.STOPITERATION_ERROR, None),
    "INTRINSIC_PREP_RERAISE_STAR": (Op.PREP_RERAISE_STAR, None),
}


def load_attr(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_ATTR, d.names[arg >> 1])
    if arg & 1:
        null_below(d)


def load_super_attr(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_SUPER_ATTR, (d.names[arg >> 2], bool(arg & 2)))
    if arg & 1:
        null_below(d)


def binary_slice(d: Any, arg: int) -> None:
    d.emit(Op.BUILD_SLICE, 2)
    d.emit(Op.SUBSCR)


def store_slice(d: Any, arg: int) -> None:
    d.emit(Op.BUILD_SLICE, 2)
    d.emit(Op.STORE_SUBSCR)


def return_const(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_CONST, d.consts[arg])
    d.emit(Op.RETURN_VALUE)


def intrinsic(d: Any, descriptor: str) -> None:
    op, arg = INTRINSIC_OPS.get(descriptor, (Op.UNSUPPORTED, descriptor))
    d.emit(op, arg)


def emit_call(b: Any, n: int, names: tuple[str, ...]) -> None:
    if names:
        b.emit("KW_NAMES", b.constant(names))
    b.emit("CALL", n)


COMMON: dict[str, Rule | None] = (
    py311.COMMON
    | {
        "LOAD_ATTR": load_attr,
        "LOAD_SUPER_ATTR": load_super_attr,
        "LOAD_FAST_CHECK": number(Op.LOAD_FAST),
        "LOAD_FAST_AND_CLEAR": number(Op.LOAD_FAST_AND_CLEAR),
        "BINARY_SLICE": binary_slice,
        "STORE_SLICE": store_slice,
        "RETURN_CONST": return_const,
        "CALL_INTRINSIC_1": lambda d, arg: intrinsic(d, INTRINSICS_1[arg]),
        "CALL_INTRINSIC_2": lambda d, arg: intrinsic(d, INTRINSICS_2[arg]),
        "POP_JUMP_IF_FALSE": forward(Op.JUMP_IF, False),
        "POP_JUMP_IF_TRUE": forward(Op.JUMP_IF, True),
        "POP_JUMP_IF_NONE": forward(Op.JUMP_IF_NONE, True),
        "POP_JUMP_IF_NOT_NONE": forward(Op.JUMP_IF_NONE, False),
        "END_FOR": None,
        "END_SEND": without_argument(Op.END_SEND),
        "CLEANUP_THROW": without_argument(Op.CLEANUP_THROW),
    }
    | {
        opname: left_to_python(opname)
        for opname in ("LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS")
    }
)

RULES: dict[str, Rule | None] = COMMON | {
    "LOAD_CLOSURE": number(Op.LOAD_CLOSURE),
    "KW_NAMES": py311.kw_names,
    "FORMAT_VALUE": py311.format_value,
    "COMPARE_OP": lambda d, arg: d.emit(Op.COMPARE, opcode.cmp_op[arg >> 4]),
}

DIALECT = replace(
    py311.DIALECT,
    version=(3, 12),
    rules=RULES,
    internal=frozenset({"INTERPRETER_EXIT", "RESERVED"}),
    plain_attribute=lambda name: (False, name),
    load_method=lambda b, name: b.emit("LOAD_ATTR", (True, name)),
    checked_load="LOAD_FAST_CHECK",
    jump_if=("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"),
    backward={"JUMP_FORWARD": "JUMP_BACKWARD"},
    exits={"FOR_ITER": ("END_FOR",), "SEND": ("END_SEND",)},
    call=emit_call,
)
