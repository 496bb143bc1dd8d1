"""A code object as Python text: for people who want to see what was generated. It parses, and is not meant to be run.

Jumps are written goto("L7") and their targets label("L7"), since rebuilt code has no other structure. Exception regions are told
where they begin: an error under them goes to a label.
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
class Item:
    """What lies on the stack: an expression, and whether it runs code."""

    text: str
    runs: bool = False


@dataclass
class Writer:
    """Walks instructions, keeps their stack as expressions, and writes a statement where one ends."""

    decoded: DecodedCode
    name: Name
    lines: list[str] = field(default_factory=list)
    stack: list[Item] = field(default_factory=list)
    waiting: dict[int, list[Item]] = field(default_factory=dict)  # by target: the stack of the first jump to it
    temporaries: int = 0
    reachable: bool = True

    def pop(self) -> str:
        return self.stack.pop().text if self.stack else "..."

    def pops(self, count: int) -> list[str]:
        return [self.pop() for _ in range(count)][::-1]

    def push(self, text: str, runs: bool = False) -> None:
        self.stack.append(Item(text, runs))

    def say(self, statement: str, changes: str = "") -> None:
        """Writes a statement, behind what lies on the stack and would have run before it. changes: a variable that is not the same then."""
        self.settle(changes)
        self.lines.append(statement)

    def settle(self, changes: str = "") -> None:
        """Gives names to what on the stack has run by now, or would be another once `changes` has changed."""
        for item in self.stack:
            if item.runs or (changes and changes in words(item.text)):
                self.temporaries += 1
                temporary = f"t{self.temporaries}"
                self.lines.append(f"{temporary} = {item.text}")
                item.text, item.runs = temporary, False

    def slot(self, index: int) -> str:
        text = self.decoded.slots[index]
        return text if text.isidentifier() else "_" + "".join(letter for letter in text if letter.isalnum() or letter == "_")

    def jump(self, target: int) -> str:
        self.waiting.setdefault(target, [Item(item.text) for item in self.stack])
        return f'goto("L{target}")'

    def write(self) -> str:
        region = None
        targets = {instr.target for instr in self.decoded.instrs} | {one.target for one in self.decoded.handlers if one is not None}
        for index, (instr, handler) in enumerate(zip(self.decoded.instrs, self.decoded.handlers, strict=True)):
            if index in targets:
                if not self.reachable:
                    self.stack = [Item(item.text) for item in self.waiting.get(index, [Item("error")])]
                self.say(f'label("L{index}")')
                self.reachable = True
            if handler is not region:
                if handler is not None:
                    self.say(f'on_error("L{handler.target}")')
                    self.waiting.setdefault(handler.target, [*(Item(one.text) for one in self.stack[: handler.depth]), Item("error")])
                elif self.reachable:
                    self.say("on_error(None)")
                region = handler
            write_one(self, instr)
        return "\n".join(self.lines)


def write_one(w: Writer, instr: Instr) -> None:
    """Adds what one instruction does."""
    arg = instr.arg
    match instr.op:
        case Op.NOP | Op.MAKE_CELL:
            pass
        case Op.POP_TOP:
            item = w.stack.pop() if w.stack else Item("...")
            if item.runs:
                w.say(item.text)
        case Op.COPY:
            w.settle()
            w.stack.append(Item(w.stack[-arg].text) if len(w.stack) >= arg else Item("..."))
        case Op.SWAP:
            if len(w.stack) >= arg:
                w.stack[-1], w.stack[-arg] = w.stack[-arg], w.stack[-1]
        case Op.PUSH_NULL:
            w.push(NULL)
        case Op.LOAD_CONST:
            w.push(w.name(arg))
        case Op.LOAD_FAST | Op.LOAD_FAST_AND_CLEAR | Op.LOAD_DEREF | Op.LOAD_CLOSURE:
            w.push(f"cell({w.slot(arg)})" if instr.op is Op.LOAD_CLOSURE else w.slot(arg))
        case Op.STORE_FAST | Op.STORE_DEREF:
            value = w.pop()
            w.say(f"{w.slot(arg)} = {value}", w.slot(arg))
        case Op.DELETE_FAST | Op.DELETE_DEREF:
            w.say(f"del {w.slot(arg)}", w.slot(arg))
        case Op.LOAD_GLOBAL:
            w.push(arg)
        case Op.STORE_GLOBAL:
            value = w.pop()
            w.say(f"{arg} = {value}")
        case Op.LOAD_ATTR:
            w.push(f"{operand(w.pop())}.{arg}", True)
        case Op.STORE_ATTR:
            value, owner = w.pops(2)
            w.say(f"{operand(owner)}.{arg} = {value}")
        case Op.UNARY:
            w.push(f"{arg} {operand(w.pop())}", True)
        case Op.BINARY | Op.COMPARE:
            left, right = w.pops(2)
            w.push(f"{operand(left)} {arg.removesuffix('=') if instr.op is Op.BINARY else arg} {operand(right)}", True)
        case Op.IS_OP | Op.CONTAINS_OP:
            left, right = w.pops(2)
            words = ("is", "is not") if instr.op is Op.IS_OP else ("in", "not in")
            w.push(f"{operand(left)} {words[bool(arg)]} {operand(right)}", instr.op is Op.CONTAINS_OP)
        case Op.SUBSCR:
            owner, key = w.pops(2)
            w.push(f"{operand(owner)}[{key}]", True)
        case Op.STORE_SUBSCR:
            value, owner, key = w.pops(3)
            w.say(f"{operand(owner)}[{key}] = {value}")
        case Op.DELETE_SUBSCR:
            owner, key = w.pops(2)
            w.say(f"del {operand(owner)}[{key}]")
        case Op.BUILD_TUPLE:
            parts = w.pops(arg)
            w.push(f"({', '.join(parts)}{',' if arg == 1 else ''})")
        case Op.BUILD_LIST | Op.BUILD_SET:
            text = ", ".join(w.pops(arg))
            w.push(f"[{text}]" if instr.op is Op.BUILD_LIST else f"{{{text}}}" if arg else "set()")
        case Op.BUILD_MAP:
            parts = w.pops(2 * arg)
            w.push("{" + ", ".join(f"{key}: {value}" for key, value in zip(parts[::2], parts[1::2], strict=True)) + "}")
        case Op.BUILD_STRING | Op.BUILD_SLICE:
            w.push(f"{'slice' if instr.op is Op.BUILD_SLICE else 'concatenated'}({', '.join(w.pops(arg))})")
        case Op.UNPACK_SEQUENCE:
            value = w.pop()
            names = [f"u{w.temporaries + number}" for number in range(1, arg + 1)]
            w.temporaries += arg
            w.say(f"{', '.join(names)}{',' if arg == 1 else ''} = {value}" if arg else f"() = {value}")
            for one in reversed(names):
                w.push(one)
        case Op.CALL:
            count, names = arg
            args = w.pops(count)
            lower, upper = w.pops(2)
            keywords = [f"{one}={value}" for one, value in zip(names, args[count - len(names) :], strict=True)]
            args = args[: count - len(names)] + keywords
            callee, args = (upper, args) if lower == NULL else (lower, args) if upper == NULL else (lower, [upper, *args])
            w.push(f"{operand(callee)}({', '.join(args)})", True)
        case Op.CALL_FUNCTION_EX:
            kwargs = [f"**{operand(w.pop())}"] if arg else []
            args = [f"*{operand(w.pop())}", *kwargs]
            lower, upper = w.pops(2)
            w.push(f"{operand(upper if lower == NULL else lower)}({', '.join(args)})", True)
        case Op.JUMP:
            w.say(w.jump(instr.target))
            w.reachable = False
        case Op.JUMP_IF | Op.JUMP_IF_NONE:
            value = operand(w.pop())
            test = f"{value} is {'' if arg else 'not '}None" if instr.op is Op.JUMP_IF_NONE else value if arg else f"not {value}"
            w.say(f"if {test}: {w.jump(instr.target)}")
        case Op.FOR_ITER:
            iterator = w.pop()
            w.say(f"if exhausted({iterator}): {w.jump(instr.target)}")
            w.push(iterator)
            w.push(f"next({iterator})", True)
        case Op.GET_ITER:
            w.push(f"iter({w.pop()})", True)
        case Op.RETURN_VALUE:
            value = w.pop()
            w.say(f"return {value}")
            w.reachable = False
        case Op.RAISE:
            parts = w.pops(arg)
            w.say(f"raise {' from '.join(parts)}".rstrip())
            w.reachable = False
        case Op.RERAISE:
            w.say(f"raise {w.pop()}")
            w.reachable = False
        case Op.PUSH_EXC_INFO:
            error = w.pop()
            w.push("handled_before")
            w.push(error)
        case Op.POP_EXCEPT:
            w.pop()
            w.say("end_of_handler()")
        case Op.CHECK_EXC_MATCH:
            classes = w.pop()
            w.push(f"isinstance({w.stack[-1].text if w.stack else 'error'}, {classes})")
        case _:
            w.say(f"{instr.op.name.lower()}({'' if arg is None else repr(str(arg))})")


def words(text: str) -> set[str]:
    """The names in an expression."""
    return set(re.findall(r"\w+", text))


def operand(text: str) -> str:
    """An expression as part of a larger one."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    simple = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Tuple | ast.List | ast.Dict | ast.Set
    return text if isinstance(tree, simple) or (isinstance(tree, ast.Constant) and not isinstance(tree.value, int)) else f"({text})"


def plain_name(constant: Any) -> str:
    """A constant by its own name or text."""
    if type(constant) is tuple:
        return f"({', '.join(map(plain_name, constant))}{',' if len(constant) == 1 else ''})"
    found = getattr(constant, "__qualname__", None) or getattr(constant, "__name__", None)
    text = found if isinstance(found, str) else repr(constant)
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return f"a_{type(constant).__name__}"
    return text


def readable(code: CodeType, name: Name = plain_name) -> str:
    """A code object's body as Python text. `name`: how a constant is written."""
    return Writer(decode(code), name).write()
