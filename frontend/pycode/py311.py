"""CPython 3.11: how its opcodes decode and how calls, jumps and functions are emitted. Later
versions build on it."""

from __future__ import annotations

import opcode
from typing import Any

from .dialect import Dialect, Rule
from .instr import Op

BINARY = tuple(symbol for _, symbol in opcode._nb_ops)  # type: ignore[attr-defined]
CONVERSIONS = ("", "str", "repr", "ascii")
FUNCTION_PARTS = {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure"}


# Makers of rules, by what the oparg means.


def without_argument(op: Op, arg: Any = None) -> Rule:
    """No oparg."""
    return lambda d, _: d.emit(op, arg)


def number(op: Op) -> Rule:
    """The oparg itself: a count, a depth, a slot."""
    return lambda d, arg: d.emit(op, arg)


def name(op: Op) -> Rule:
    """An index into co_names."""
    return lambda d, arg: d.emit(op, d.names[arg])


def flag(op: Op) -> Rule:
    """A truth value."""
    return lambda d, arg: d.emit(op, bool(arg))


def forward(op: Op, when: bool | None = None) -> Rule:
    """A distance in code units ahead of the instruction's end."""
    return lambda d, arg: d.emit(op, when, d.end + 2 * arg)


def backward(op: Op, when: bool | None = None) -> Rule:
    """A distance back."""
    return lambda d, arg: d.emit(op, when, d.end - 2 * arg)


def left_to_python(opname: str) -> Rule:
    """Capture leaves it to Python."""
    return lambda d, _: d.emit(Op.UNSUPPORTED, opname)


# Rules that need more.


def load_const(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_CONST, d.consts[arg])


def load_global(d: Any, arg: int) -> None:
    if arg & 1:
        d.emit(Op.PUSH_NULL)
    d.emit(Op.LOAD_GLOBAL, d.names[arg >> 1])


def load_method(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_ATTR, d.names[arg])
    null_below(d)


def null_below(d: Any) -> None:
    d.emit(Op.PUSH_NULL)
    d.emit(Op.SWAP, 2)


def kw_names(d: Any, arg: int) -> None:
    d.keywords = d.consts[arg]
    d.open = True


def precall(d: Any, arg: int) -> None:
    d.open = True


def call(d: Any, arg: int) -> None:
    d.emit(Op.CALL, (arg, d.keywords))
    d.keywords = ()


def format_value(d: Any, arg: int) -> None:
    d.emit(Op.FORMAT, (CONVERSIONS[arg & 3], bool(arg & 4)))


def make_function(d: Any, arg: int) -> None:
    d.emit(Op.MAKE_FUNCTION, tuple(part for bit, part in FUNCTION_PARTS.items() if arg & bit))


# Emit rules.


def emit_call(b: Any, n: int, names: tuple[str, ...]) -> None:
    if names:
        b.emit("KW_NAMES", b.constant(names))
    b.emit("PRECALL", n)
    b.emit("CALL", n)


def emit_make_function(b: Any, flags: int) -> None:
    b.emit("MAKE_FUNCTION", flags)


ASYNC = ("GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AWAITABLE")
NAMESPACE = ("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS")

COMMON: dict[str, Rule | None] = {
    "CACHE": None,
    "NOP": None,
    "RESUME": None,
    "EXTENDED_ARG": None,
    "COPY_FREE_VARS": without_argument(Op.NOP),
    "MAKE_CELL": number(Op.MAKE_CELL),
    "POP_TOP": without_argument(Op.POP_TOP),
    "COPY": number(Op.COPY),
    "SWAP": number(Op.SWAP),
    "PUSH_NULL": without_argument(Op.PUSH_NULL),
    "LOAD_CONST": load_const,
    "LOAD_FAST": number(Op.LOAD_FAST),
    "STORE_FAST": number(Op.STORE_FAST),
    "DELETE_FAST": number(Op.DELETE_FAST),
    "LOAD_DEREF": number(Op.LOAD_DEREF),
    "STORE_DEREF": number(Op.STORE_DEREF),
    "DELETE_DEREF": number(Op.DELETE_DEREF),
    "LOAD_GLOBAL": load_global,
    "STORE_GLOBAL": name(Op.STORE_GLOBAL),
    "DELETE_GLOBAL": name(Op.DELETE_GLOBAL),
    "LOAD_ATTR": name(Op.LOAD_ATTR),
    "STORE_ATTR": name(Op.STORE_ATTR),
    "DELETE_ATTR": name(Op.DELETE_ATTR),
    "IMPORT_NAME": name(Op.IMPORT_NAME),
    "IMPORT_FROM": name(Op.IMPORT_FROM),
    "LOAD_BUILD_CLASS": without_argument(Op.LOAD_BUILD_CLASS),
    "LOAD_ASSERTION_ERROR": without_argument(Op.LOAD_ASSERTION_ERROR),
    "UNARY_NEGATIVE": without_argument(Op.UNARY, "-"),
    "UNARY_INVERT": without_argument(Op.UNARY, "~"),
    "UNARY_NOT": without_argument(Op.UNARY, "not"),
    "BINARY_OP": lambda d, arg: d.emit(Op.BINARY, BINARY[arg]),
    "COMPARE_OP": lambda d, arg: d.emit(Op.COMPARE, opcode.cmp_op[arg]),
    "IS_OP": flag(Op.IS_OP),
    "CONTAINS_OP": flag(Op.CONTAINS_OP),
    "BINARY_SUBSCR": without_argument(Op.SUBSCR),
    "STORE_SUBSCR": without_argument(Op.STORE_SUBSCR),
    "DELETE_SUBSCR": without_argument(Op.DELETE_SUBSCR),
    "BUILD_TUPLE": number(Op.BUILD_TUPLE),
    "BUILD_LIST": number(Op.BUILD_LIST),
    "BUILD_SET": number(Op.BUILD_SET),
    "BUILD_MAP": number(Op.BUILD_MAP),
    "BUILD_CONST_KEY_MAP": number(Op.BUILD_CONST_KEY_MAP),
    "BUILD_STRING": number(Op.BUILD_STRING),
    "BUILD_SLICE": number(Op.BUILD_SLICE),
    "LIST_EXTEND": number(Op.LIST_EXTEND),
    "LIST_APPEND": number(Op.LIST_APPEND),
    "SET_UPDATE": number(Op.SET_UPDATE),
    "SET_ADD": number(Op.SET_ADD),
    "DICT_UPDATE": number(Op.DICT_UPDATE),
    "DICT_MERGE": number(Op.DICT_MERGE),
    "MAP_ADD": number(Op.MAP_ADD),
    "UNPACK_SEQUENCE": number(Op.UNPACK_SEQUENCE),
    "UNPACK_EX": lambda d, arg: d.emit(Op.UNPACK_EX, (arg & 0xFF, arg >> 8)),
    "CALL": call,
    "CALL_FUNCTION_EX": lambda d, arg: d.emit(Op.CALL_FUNCTION_EX, bool(arg & 1)),
    "MAKE_FUNCTION": make_function,
    "JUMP_FORWARD": forward(Op.JUMP),
    "JUMP_BACKWARD": backward(Op.JUMP),
    "JUMP_BACKWARD_NO_INTERRUPT": backward(Op.JUMP),
    "RETURN_VALUE": without_argument(Op.RETURN_VALUE),
    "GET_ITER": without_argument(Op.GET_ITER),
    "FOR_ITER": forward(Op.FOR_ITER),
    "GET_LEN": without_argument(Op.GET_LEN),
    "MATCH_MAPPING": without_argument(Op.MATCH_MAPPING),
    "MATCH_SEQUENCE": without_argument(Op.MATCH_SEQUENCE),
    "MATCH_KEYS": without_argument(Op.MATCH_KEYS),
    "MATCH_CLASS": number(Op.MATCH_CLASS),
    "RAISE_VARARGS": number(Op.RAISE),
    "RERAISE": number(Op.RERAISE),
    "PUSH_EXC_INFO": without_argument(Op.PUSH_EXC_INFO),
    "POP_EXCEPT": without_argument(Op.POP_EXCEPT),
    "CHECK_EXC_MATCH": without_argument(Op.CHECK_EXC_MATCH),
    "CHECK_EG_MATCH": without_argument(Op.CHECK_EG_MATCH),
    "BEFORE_WITH": without_argument(Op.BEFORE_WITH),
    "WITH_EXCEPT_START": without_argument(Op.WITH_EXCEPT_START),
    "RETURN_GENERATOR": without_argument(Op.RETURN_GENERATOR),
    "YIELD_VALUE": without_argument(Op.YIELD_VALUE),
    "GET_YIELD_FROM_ITER": without_argument(Op.GET_YIELD_FROM_ITER),
    "SEND": forward(Op.SEND),
} | {opname: left_to_python(opname) for opname in (*ASYNC, *NAMESPACE)}

RULES: dict[str, Rule | None] = (
    COMMON
    | {
        "LOAD_CLOSURE": number(Op.LOAD_CLOSURE),
        "LOAD_METHOD": load_method,
        "UNARY_POSITIVE": without_argument(Op.UNARY, "+"),
        "LIST_TO_TUPLE": without_argument(Op.LIST_TO_TUPLE),
        "FORMAT_VALUE": format_value,
        "KW_NAMES": kw_names,
        "PRECALL": precall,
        "POP_JUMP_FORWARD_IF_FALSE": forward(Op.JUMP_IF, False),
        "POP_JUMP_FORWARD_IF_TRUE": forward(Op.JUMP_IF, True),
        "POP_JUMP_BACKWARD_IF_FALSE": backward(Op.JUMP_IF, False),
        "POP_JUMP_BACKWARD_IF_TRUE": backward(Op.JUMP_IF, True),
        "POP_JUMP_FORWARD_IF_NONE": forward(Op.JUMP_IF_NONE, True),
        "POP_JUMP_FORWARD_IF_NOT_NONE": forward(Op.JUMP_IF_NONE, False),
        "POP_JUMP_BACKWARD_IF_NONE": backward(Op.JUMP_IF_NONE, True),
        "POP_JUMP_BACKWARD_IF_NOT_NONE": backward(Op.JUMP_IF_NONE, False),
        "JUMP_IF_FALSE_OR_POP": forward(Op.JUMP_IF_OR_POP, False),
        "JUMP_IF_TRUE_OR_POP": forward(Op.JUMP_IF_OR_POP, True),
        "PREP_RERAISE_STAR": without_argument(Op.PREP_RERAISE_STAR),
    }
    | {
        opname: left_to_python(opname)
        for opname in ("ASYNC_GEN_WRAP", "IMPORT_STAR", "LOAD_CLASSDEREF", "PRINT_EXPR")
    }
)

DIALECT = Dialect(
    version=(3, 11),
    rules=RULES,
    internal=frozenset(),
    null_below=True,
    truth=None,
    plain_attribute=lambda name: name,
    load_method=lambda b, name: b.emit("LOAD_METHOD", name),
    checked_load="LOAD_FAST",
    pairs={},
    jump_if=("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE"),
    backward={
        "JUMP_FORWARD": "JUMP_BACKWARD",
        "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_BACKWARD_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_BACKWARD_IF_TRUE",
        "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_BACKWARD_IF_NOT_NONE",
        "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_BACKWARD_IF_NONE",
    },
    exits={"FOR_ITER": (), "SEND": ()},
    call=emit_call,
    make_function=emit_make_function,
)
