"""Locals, cells, globals, attributes, imports."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .....errors import GraphBreak
from .....guards.guard import Kind
from .....guards.source import BuiltinsSource, DictItem, InstanceDict
from ....pycode.call_completion import DROPPED
from ....pycode.instr import Instr, Op
from ....values.base import NULL, LazyValue, ObservedException, Value
from ....values.functions.builtin_function import BuiltinValue
from ....values.functions.cell import CellValue
from ....values.functions.function import FunctionValue
from ....values.objects.attribute_storage import instance_dict
from ....values.objects.class_value import ClassValue
from ....values.objects.python_module import PythonModule
from ....values.objects.super_value import SuperValue
from ....values.objects.user_object import UserObject
from ..handlers import handles
from ..interpreter import Interpreter
from .calls import call_value

if TYPE_CHECKING:
    from ...trace import Trace

# Literals that a load only moves: what uses them looks at them, and a break before that leaves them
# unguarded.
# By the ids of their types: a class may have no hash.
MOVED_UNSEEN = frozenset(map(id, (int, float, str, bytes, complex)))


@handles(Op.LOAD_FAST)
def load_fast(frame: Interpreter, instr: Instr) -> None:
    value = frame.slots[instr.arg]
    if value is None:
        raise _unbound(frame, instr.arg)
    if type(value) is not LazyValue or id(type(value.object)) not in MOVED_UNSEEN:
        value = frame.slots[instr.arg] = frame.tx.look(value)
    frame.stack.append(value)


def _unbound(frame: Interpreter, slot: int) -> Exception:
    name = frame.decoded.slots[slot]
    return frame.tx.exceptions.new(
        UnboundLocalError,
        f"cannot access local variable '{name}' where it is not associated with a value",
    )


@handles(Op.LOAD_FAST_AND_CLEAR)
def load_fast_and_clear(frame: Interpreter, instr: Instr) -> None:
    frame.stack.append(frame.slots[instr.arg] or NULL)
    frame.slots[instr.arg] = None


@handles(Op.STORE_FAST)
def store_fast(frame: Interpreter, instr: Instr) -> None:
    value = frame.stack.pop()
    frame.slots[instr.arg] = None if value is NULL else value


@handles(Op.DELETE_FAST)
def delete_fast(frame: Interpreter, instr: Instr) -> None:
    if frame.slots[instr.arg] is None:
        raise _unbound(frame, instr.arg)
    frame.slots[instr.arg] = None


@handles(Op.MAKE_CELL)
def make_cell(frame: Interpreter, instr: Instr) -> None:
    frame.slots[instr.arg] = CellValue(frame.slots[instr.arg])


def _cell(frame: Interpreter, slot: int) -> CellValue:
    cell = frame.slots[slot]
    assert isinstance(cell, CellValue)
    return cell


@handles(Op.LOAD_CLOSURE)
def load_closure(frame: Interpreter, instr: Instr) -> None:
    value = frame.slots[instr.arg]
    if value is None:
        raise _unbound(frame, instr.arg)
    frame.push(frame.tx.look(value))


@handles(Op.LOAD_DEREF)
def load_deref(frame: Interpreter, instr: Instr) -> None:
    """Pushes the content of a cell. An unbound free variable raises NameError, a local one
    UnboundLocalError."""
    cell = _cell(frame, instr.arg)
    value = cell.get(frame.tx)
    if value is None:
        name = frame.decoded.slots[instr.arg]
        if instr.arg in frame.decoded.frees:
            sentence = (
                f"cannot access free variable '{name}' where it is not associated with a "
                "value in enclosing scope"
            )
            raise frame.tx.exceptions.new(NameError, sentence)
        raise _unbound(frame, instr.arg)
    frame.tx.objects.reach(cell)
    frame.tx.objects.reach(value)
    frame.push(value)


@handles(Op.STORE_DEREF)
def store_deref(frame: Interpreter, instr: Instr) -> None:
    _cell(frame, instr.arg).set(frame.tx, frame.stack.pop())


@handles(Op.DELETE_DEREF)
def delete_deref(frame: Interpreter, instr: Instr) -> None:
    if _cell(frame, instr.arg).get(frame.tx) is None:
        raise _unbound(frame, instr.arg)
    _cell(frame, instr.arg).set(frame.tx, None)


@handles(Op.LOAD_GLOBAL)
def load_global(frame: Interpreter, instr: Instr) -> None:
    frame.push(global_value(frame, instr.arg))


def global_value(frame: Interpreter, name: str) -> Value:
    """Looks up a name in the frame's globals, then in builtins."""
    tx, key = frame.tx, (id(frame.globals), name)
    stored = tx.effects.globals.get(key)
    if stored is not None:
        return stored[1]
    known = tx.objects.loaded_globals.get(key)
    if known is None:
        known = load_from_namespace(frame, name)
        if type(known) in GUARDED_ONCE:
            tx.objects.loaded_globals[key] = known
    elif known in tx.objects.reached:
        tx.objects.reach(known)
    return known


# What a second load of the same name would guard once more.
GUARDED_ONCE = (FunctionValue, BuiltinValue, ClassValue, PythonModule)


def load_from_namespace(frame: Interpreter, name: str) -> Value:
    """The value of the object under a name in the frame's globals or in builtins."""
    tx, path = frame.tx, frame.globals_path
    if name in frame.globals:
        return tx.wrap(frame.globals[name], path and DictItem(path, name))
    tx.guards.add(path, Kind.ABSENT, name)
    builtins = frame.globals.get("__builtins__", __builtins__)
    builtins = builtins if isinstance(builtins, dict) else vars(builtins)
    if name not in builtins:
        raise tx.exceptions.new(NameError, f"name '{name}' is not defined")
    return tx.wrap(builtins[name], DictItem(BuiltinsSource(), name))


@handles(Op.STORE_GLOBAL)
def store_global(frame: Interpreter, instr: Instr) -> None:
    frame.tx.effects.set_global(frame.globals, instr.arg, frame.stack.pop())


@handles(Op.LOAD_ATTR)
def load_attr(frame: Interpreter, instr: Instr) -> None:
    tx, obj = frame.tx, frame.pop()
    if is_augmented(frame) and isinstance(obj, UserObject):
        expect_another_number(tx, obj, instr.arg)
    found = obj.getter(tx, instr.arg) if type(obj) is UserObject and stands_alone(frame) else None
    frame.push(
        obj.attribute(tx, instr.arg)
        if found is None
        else call_value(frame, found.callee, found.args, {})
    )


def is_augmented(frame: Interpreter) -> bool:
    """Whether the attribute is loaded for an augmented assignment, as in `self.steps += 1`."""
    before = frame.decoded.instrs[frame.pc - 2] if frame.pc > 1 else None
    return before is not None and before.op is Op.COPY and before.arg == 1


def expect_another_number(tx: Trace, obj: UserObject, name: str) -> None:
    """Declares that a number in an attribute of an existing object differs from call to call."""
    number = (instance_dict(obj.real) or {}).get(name) if obj.source is not None else None
    if type(number) in (int, float):
        tx.symbols.variation.expect_number(DictItem(InstanceDict(obj.known_source), name))


def stands_alone(frame: Interpreter) -> bool:
    """Whether the instruction is a raw group of its own, so that its result is all that the group
    leaves."""
    return frame.decoded.group_end(frame.group) == frame.pc


@handles(Op.LOAD_SUPER_ATTR)
def load_super_attr(frame: Interpreter, instr: Instr) -> None:
    name, _ = instr.arg
    receiver, cls, _ = frame.pop(), frame.pop(), frame.pop()
    frame.push(SuperValue(cls.constant(), receiver).attribute(frame.tx, name))


@handles(Op.STORE_ATTR)
def store_attr(frame: Interpreter, instr: Instr) -> None:
    tx, obj, value = frame.tx, frame.pop(), frame.pop()
    found = obj.setter(tx, instr.arg, value) if type(obj) is UserObject else None
    if found is None:
        obj.set_attribute(tx, instr.arg, value)
    else:
        call_value(frame, found.callee, found.args, {}, DROPPED)


@handles(Op.DELETE_ATTR)
def delete_attr(frame: Interpreter, instr: Instr) -> None:
    frame.pop().del_attribute(frame.tx, instr.arg)


@handles(Op.IMPORT_NAME)
def import_name(frame: Interpreter, instr: Instr) -> None:
    """Finds a module that is loaded. Breaks at a first import, which runs the module's code."""
    fromlist, level = frame.pop().constant(), frame.pop().constant()
    package = frame.globals.get("__package__") or ""
    full = instr.arg
    if level:
        full = package.rsplit(".", level - 1)[0] + ("." + instr.arg if instr.arg else "")
    if full not in sys.modules:
        raise GraphBreak("unknown-call", f"the first import of {full}")
    found = sys.modules[full if fromlist else full.partition(".")[0]]
    for name in fromlist or ():
        if (
            name != "*"
            and hasattr(found, "__path__")
            and not hasattr(found, name)
            and f"{full}.{name}" not in sys.modules
        ):
            raise GraphBreak("unknown-call", f"the first import of {full}.{name}")
    frame.push(frame.tx.wrap(found, None))


@handles(Op.IMPORT_FROM)
def import_from(frame: Interpreter, instr: Instr) -> None:
    module = frame.peek()
    try:
        frame.push(module.attribute(frame.tx, instr.arg))
    except ObservedException as error:
        if not issubclass(error.cls, AttributeError):
            raise
        raise GraphBreak(
            "exception-leaves", f"ImportError: no '{instr.arg}' in {module.describe()}"
        ) from None
