"""A code object as Python text, for people who want to read generated code. The text can be parsed,
but is not meant to run.

Jumps are written goto("L7") and their targets label("L7"), since generated code has no other
structure. The start of an exception region names the label where its errors go.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .decode import decode
from .instr import DecodedCode, Instr, Op

Name = Callable[[Any], str]
NULL = "NULL"


@dataclass
class StackExpression:
    """What is on the stack: an expression, and whether it runs code."""

    text: str
    runs: bool = False


@dataclass
class PythonWriter:
    """Walks instructions, keeps their stack as expressions, and writes a statement where one
    ends."""

    decoded: DecodedCode
    name: Name
    lines: list[str] = field(default_factory=list)
    stack: list[StackExpression] = field(default_factory=list)
    # by target: the stack of the first jump to it
    waiting: dict[int, list[StackExpression]] = field(default_factory=dict)
    temporaries: int = 0
    reachable: bool = True

    def pop(self) -> str:
        return self.stack.pop().text if self.stack else "..."

    def pops(self, count: int) -> list[str]:
        return [self.pop() for _ in range(count)][::-1]

    def push(self, text: str, runs: bool = False) -> None:
        self.stack.append(StackExpression(text, runs))

    def write_statement(self, statement: str, changes: str = "") -> None:
        """Writes a statement, after those for stack items that would have run before it. changes: a
        variable that the statement changes."""
        self.name_items(changes)
        self.lines.append(statement)

    def name_items(self, changes: str = "") -> None:
        """Gives names to stack items that run code, or whose value `changes` would change."""
        for item in self.stack:
            if item.runs or (changes and changes in words(item.text)):
                self.temporaries += 1
                temporary = f"t{self.temporaries}"
                self.lines.append(f"{temporary} = {item.text}")
                item.text, item.runs = temporary, False

    def slot(self, index: int) -> str:
        text = self.decoded.slots[index]
        if text.isidentifier():
            return text
        return "_" + "".join(letter for letter in text if letter.isalnum() or letter == "_")

    def jump(self, target: int) -> str:
        self.waiting.setdefault(target, [StackExpression(item.text) for item in self.stack])
        return f'goto("L{target}")'

    def write(self) -> str:
        """The whole as text: labels before jump targets, `on_error` where the handler changes, a
        statement for each effect."""
        region = None
        targets = {instr.target for instr in self.decoded.instrs} | {
            one.target for one in self.decoded.handlers if one is not None
        }
        for index, (instr, handler) in enumerate(
            zip(self.decoded.instrs, self.decoded.handlers, strict=True)
        ):
            if index in targets:
                if not self.reachable:
                    self.stack = [
                        StackExpression(item.text)
                        for item in self.waiting.get(index, [StackExpression("error")])
                    ]
                self.write_statement(f'label("L{index}")')
                self.reachable = True
            if handler is not region:
                if handler is not None:
                    self.write_statement(f'on_error("L{handler.target}")')
                    self.waiting.setdefault(
                        handler.target,
                        [
                            *(StackExpression(one.text) for one in self.stack[: handler.depth]),
                            StackExpression("error"),
                        ],
                    )
                elif self.reachable:
                    self.write_statement("on_error(None)")
                region = handler
            WRITES.get(instr.op, write_other)(self, instr)
            self.reachable = self.reachable and instr.op not in ENDS
        return "\n".join(self.lines)


ENDS = (Op.JUMP, Op.RETURN_VALUE, Op.RAISE, Op.RERAISE)  # nothing runs after them
Write = Callable[[PythonWriter, Instr], None]
WRITES: dict[Op, Write] = {}


def writes_text(*ops: Op) -> Callable[[Write], Write]:
    """Registers what adds the text of instructions."""

    def register(function: Write) -> Write:
        WRITES.update(dict.fromkeys(ops, function))
        return function

    return register


def write_other(w: PythonWriter, instr: Instr) -> None:
    """Writes an instruction for which Python has no statement as a call of its name."""
    w.write_statement(
        f"{instr.op.name.lower()}({'' if instr.arg is None else repr(str(instr.arg))})"
    )


# Instructions that are one expression or statement: how many items they take, and a format of
# these, with parentheses where needed ({0}) or without (plain[0]), and of the argument.
EXPRESSIONS: dict[Op, tuple[int, str, bool]] = {  # with whether it runs code
    Op.PUSH_NULL: (0, NULL, False),
    Op.LOAD_GLOBAL: (0, "{arg}", False),
    Op.LOAD_ATTR: (1, "{0}.{arg}", True),
    Op.UNARY: (1, "{arg} {0}", True),
    Op.SUBSCR: (2, "{0}[{plain[1]}]", True),
    Op.GET_ITER: (1, "iter({plain[0]})", True),
}
STATEMENTS: dict[Op, tuple[int, str]] = {
    Op.STORE_GLOBAL: (1, "{arg} = {plain[0]}"),
    Op.STORE_ATTR: (2, "{1}.{arg} = {plain[0]}"),
    Op.STORE_SUBSCR: (3, "{1}[{plain[2]}] = {plain[0]}"),
    Op.DELETE_SUBSCR: (2, "del {0}[{plain[1]}]"),
    Op.RETURN_VALUE: (1, "return {plain[0]}"),
    Op.RERAISE: (1, "raise {plain[0]}"),
    Op.POP_EXCEPT: (1, "end_of_handler()"),
}
ITEMS = {  # around as many items as the argument says
    Op.BUILD_LIST: "[{}]",
    Op.BUILD_STRING: "concatenated({})",
    Op.BUILD_SLICE: "slice({})",
}


@writes_text(*EXPRESSIONS)
def expression(w: PythonWriter, instr: Instr) -> None:
    count, text, runs = EXPRESSIONS[instr.op]
    items = w.pops(count)
    w.push(text.format(*map(operand, items), plain=items, arg=instr.arg), runs)


@writes_text(*STATEMENTS)
def statement(w: PythonWriter, instr: Instr) -> None:
    count, text = STATEMENTS[instr.op]
    items = w.pops(count)
    w.write_statement(text.format(*map(operand, items), plain=items, arg=instr.arg))


@writes_text(*ITEMS)
def collection(w: PythonWriter, instr: Instr) -> None:
    w.push(ITEMS[instr.op].format(", ".join(w.pops(instr.arg))))


# --- the stack, names and attributes ---


@writes_text(Op.NOP, Op.MAKE_CELL)
def nothing(w: PythonWriter, instr: Instr) -> None:
    pass


@writes_text(Op.POP_TOP)
def pop_top(w: PythonWriter, instr: Instr) -> None:
    item = w.stack.pop() if w.stack else StackExpression("...")
    if item.runs:
        w.write_statement(item.text)


@writes_text(Op.COPY)
def copy(w: PythonWriter, instr: Instr) -> None:
    w.name_items()
    w.stack.append(
        StackExpression(w.stack[-instr.arg].text)
        if len(w.stack) >= instr.arg
        else StackExpression("...")
    )


@writes_text(Op.SWAP)
def swap(w: PythonWriter, instr: Instr) -> None:
    if len(w.stack) >= instr.arg:
        w.stack[-1], w.stack[-instr.arg] = w.stack[-instr.arg], w.stack[-1]


@writes_text(Op.LOAD_CONST)
def load_const(w: PythonWriter, instr: Instr) -> None:
    w.push(w.name(instr.arg))


@writes_text(Op.LOAD_FAST, Op.LOAD_FAST_AND_CLEAR, Op.LOAD_DEREF)
def load_slot(w: PythonWriter, instr: Instr) -> None:
    w.push(w.slot(instr.arg))


@writes_text(Op.LOAD_CLOSURE)
def load_closure(w: PythonWriter, instr: Instr) -> None:
    w.push(f"cell({w.slot(instr.arg)})")


@writes_text(Op.STORE_FAST, Op.STORE_DEREF)
def store_slot(w: PythonWriter, instr: Instr) -> None:
    value = w.pop()
    w.write_statement(f"{w.slot(instr.arg)} = {value}", w.slot(instr.arg))


@writes_text(Op.DELETE_FAST, Op.DELETE_DEREF)
def delete_slot(w: PythonWriter, instr: Instr) -> None:
    w.write_statement(f"del {w.slot(instr.arg)}", w.slot(instr.arg))


# --- operators and containers ---


@writes_text(Op.BINARY, Op.COMPARE)
def binary(w: PythonWriter, instr: Instr) -> None:
    left, right = w.pops(2)
    sign = instr.arg.removesuffix("=") if instr.op is Op.BINARY else instr.arg
    w.push(f"{operand(left)} {sign} {operand(right)}", True)


@writes_text(Op.IS_OP, Op.CONTAINS_OP)
def is_or_in(w: PythonWriter, instr: Instr) -> None:
    left, right = w.pops(2)
    signs = ("is", "is not") if instr.op is Op.IS_OP else ("in", "not in")
    w.push(f"{operand(left)} {signs[bool(instr.arg)]} {operand(right)}", instr.op is Op.CONTAINS_OP)


@writes_text(Op.BUILD_TUPLE)
def build_tuple(w: PythonWriter, instr: Instr) -> None:
    w.push(f"({', '.join(w.pops(instr.arg))}{',' if instr.arg == 1 else ''})")


@writes_text(Op.BUILD_SET)
def build_set(w: PythonWriter, instr: Instr) -> None:
    w.push(f"{{{', '.join(w.pops(instr.arg))}}}" if instr.arg else "set()")


@writes_text(Op.BUILD_MAP)
def build_map(w: PythonWriter, instr: Instr) -> None:
    parts = w.pops(2 * instr.arg)
    w.push(
        "{"
        + ", ".join(f"{key}: {value}" for key, value in zip(parts[::2], parts[1::2], strict=True))
        + "}"
    )


@writes_text(Op.UNPACK_SEQUENCE)
def unpack_sequence(w: PythonWriter, instr: Instr) -> None:
    count, value = instr.arg, w.pop()
    names = [f"u{w.temporaries + number}" for number in range(1, count + 1)]
    w.temporaries += count
    w.write_statement(
        f"{', '.join(names)}{',' if count == 1 else ''} = {value}" if count else f"() = {value}"
    )
    for one in reversed(names):
        w.push(one)


# --- calls, jumps and exceptions ---


@writes_text(Op.CALL)
def call(w: PythonWriter, instr: Instr) -> None:
    count, names = instr.arg
    args = w.pops(count)
    lower, upper = w.pops(2)
    keywords = [
        f"{one}={value}" for one, value in zip(names, args[count - len(names) :], strict=True)
    ]
    args = args[: count - len(names)] + keywords
    if NULL not in (lower, upper):
        args = [upper, *args]
    callee = upper if lower == NULL else lower
    w.push(f"{operand(callee)}({', '.join(args)})", True)


@writes_text(Op.CALL_FUNCTION_EX)
def call_function_ex(w: PythonWriter, instr: Instr) -> None:
    kwargs = [f"**{operand(w.pop())}"] if instr.arg else []
    args = [f"*{operand(w.pop())}", *kwargs]
    lower, upper = w.pops(2)
    w.push(f"{operand(upper if lower == NULL else lower)}({', '.join(args)})", True)


@writes_text(Op.JUMP)
def jump(w: PythonWriter, instr: Instr) -> None:
    w.write_statement(w.jump(instr.target))


@writes_text(Op.JUMP_IF)
def jump_if(w: PythonWriter, instr: Instr) -> None:
    value = operand(w.pop())
    w.write_statement(f"if {value if instr.arg else f'not {value}'}: {w.jump(instr.target)}")


@writes_text(Op.JUMP_IF_NONE)
def jump_if_none(w: PythonWriter, instr: Instr) -> None:
    w.write_statement(
        f"if {operand(w.pop())} is {'' if instr.arg else 'not '}None: {w.jump(instr.target)}"
    )


@writes_text(Op.FOR_ITER)
def for_iter(w: PythonWriter, instr: Instr) -> None:
    iterator = w.pop()
    w.write_statement(f"if exhausted({iterator}): {w.jump(instr.target)}")
    w.push(iterator)
    w.push(f"next({iterator})", True)


@writes_text(Op.RAISE)
def raise_(w: PythonWriter, instr: Instr) -> None:
    w.write_statement(f"raise {' from '.join(w.pops(instr.arg))}".rstrip())


@writes_text(Op.PUSH_EXC_INFO)
def push_exc_info(w: PythonWriter, instr: Instr) -> None:
    error = w.pop()
    w.push("handled_before")
    w.push(error)


@writes_text(Op.CHECK_EXC_MATCH)
def check_exc_match(w: PythonWriter, instr: Instr) -> None:
    classes = w.pop()
    w.push(f"isinstance({w.stack[-1].text if w.stack else 'error'}, {classes})")


# --- text ---


def words(text: str) -> set[str]:
    """The names in an expression."""
    return set(re.findall(r"\w+", text))


def operand(text: str) -> str:
    """An expression as part of a larger one."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    simple = (
        ast.Name
        | ast.Attribute
        | ast.Call
        | ast.Subscript
        | ast.Tuple
        | ast.List
        | ast.Dict
        | ast.Set
    )
    return (
        text
        if isinstance(tree, simple)
        or (isinstance(tree, ast.Constant) and not isinstance(tree.value, int))
        else f"({text})"
    )


def plain_name(constant: Any) -> str:
    """A constant by its own name or text."""
    if type(constant) is tuple:
        return f"({', '.join(map(plain_name, constant))}{',' if len(constant) == 1 else ''})"
    found = getattr(constant, "__qualname__", None) or getattr(constant, "__name__", None)
    try:
        text = found if isinstance(found, str) else repr(constant)
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):  # of ints of very many digits, too
        return f"a_{type(constant).__name__}"
    return text


def readable(code: CodeType, name: Name = plain_name) -> str:
    """A code object's body as Python text. `name`: how a constant is written."""
    return PythonWriter(decode(code), name).write()
