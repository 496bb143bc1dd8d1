"""Building, extending and unpacking containers; pattern matching."""

from __future__ import annotations

from .....errors import GraphBreak
from ....pycode.instr import Instr, Op
from ....values.base import Value, take
from ....values.constant import Constant
from ....values.containers.list import ListValue
from ....values.containers.mapping import DictValue
from ....values.containers.sequence import Sequence, TupleValue
from ....values.containers.set import SetValue
from ....values.containers.slice import SliceValue
from ....values.models.class_checks import builtin_isinstance
from ....values.objects.class_value import ClassValue
from ..handlers import handles, unsupported_op
from ..interpreter import Interpreter

SEQUENCE, MAPPING = 1 << 5, 1 << 6  # Py_TPFLAGS: what patterns take for one


@handles(Op.BUILD_TUPLE)
def build_tuple(frame: Interpreter, instr: Instr) -> None:
    frame.push(TupleValue(frame.popn(instr.arg)))


@handles(Op.BUILD_LIST)
def build_list(frame: Interpreter, instr: Instr) -> None:
    frame.push(ListValue(frame.popn(instr.arg)))


@handles(Op.BUILD_SET)
def build_set(frame: Interpreter, instr: Instr) -> None:
    members: dict[object, Value] = {}
    for item in map(frame.tx.look, frame.popn(instr.arg)):
        members.setdefault(item.key(frame.tx), item)
    frame.push(SetValue(members))


@handles(Op.BUILD_MAP)
def build_map(frame: Interpreter, instr: Instr) -> None:
    items = frame.popn(2 * instr.arg)
    made = DictValue({})
    for key, value in zip(items[::2], items[1::2], strict=True):
        made.put(frame.tx, frame.tx.look(key), value)
    frame.push(made)


@handles(Op.BUILD_CONST_KEY_MAP)
def build_const_key_map(frame: Interpreter, instr: Instr) -> None:
    keys = frame.pop().unpack(frame.tx)
    frame.push(frame.tx.make.dict_of(list(zip(keys, frame.popn(instr.arg), strict=True))))


@handles(Op.BUILD_SLICE)
def build_slice(frame: Interpreter, instr: Instr) -> None:
    parts = [frame.tx.look(part) for part in frame.popn(instr.arg)]
    frame.push(SliceValue(parts if len(parts) == 3 else [*parts, Constant(None)]))


def target(frame: Interpreter, instr: Instr) -> Value:
    """The container under construction, `instr.arg` items from the top; after a break it is an
    existing one."""
    return frame.peek(instr.arg)


@handles(Op.LIST_EXTEND)
def list_extend(frame: Interpreter, instr: Instr) -> None:
    items = frame.pop()
    target(frame, instr).method(frame.tx, "extend", [items], {})


@handles(Op.LIST_APPEND)
def list_append(frame: Interpreter, instr: Instr) -> None:
    item = frame.stack.pop()
    target(frame, instr).method(frame.tx, "append", [item], {})


@handles(Op.SET_UPDATE, Op.DICT_UPDATE)
def update(frame: Interpreter, instr: Instr) -> None:
    other = frame.pop()
    target(frame, instr).method(frame.tx, "update", [other], {})


@handles(Op.SET_ADD)
def set_add(frame: Interpreter, instr: Instr) -> None:
    item = frame.pop()
    target(frame, instr).method(frame.tx, "add", [item], {})


@handles(Op.DICT_MERGE)
def dict_merge(frame: Interpreter, instr: Instr) -> None:
    other = frame.pop()
    made = target(frame, instr)
    assert isinstance(made, DictValue)
    for key, value in other.mapping_pairs(frame.tx):
        if made.get(frame.tx, key) is not None:
            raise GraphBreak(
                "exception-leaves", "TypeError: multiple values for a keyword argument"
            )
        made.put(frame.tx, key, value)


@handles(Op.MAP_ADD)
def map_add(frame: Interpreter, instr: Instr) -> None:
    value, key = frame.stack.pop(), frame.pop()
    target(frame, instr).set_item(frame.tx, key, value)


@handles(Op.LIST_TO_TUPLE)
def list_to_tuple(frame: Interpreter, instr: Instr) -> None:
    frame.push(TupleValue(list(frame.pop().list_items(frame.tx))))


@handles(Op.UNPACK_SEQUENCE)
def unpack_sequence(frame: Interpreter, instr: Instr) -> None:
    """Takes one item more than there are variables, to see whether there are too many."""
    tx, iterable = frame.tx, frame.pop()
    items = (
        iterable.parts(tx)
        if isinstance(iterable, Sequence)
        else take(tx, iterable.iterator(tx), instr.arg + 1)
    )
    if len(items) > instr.arg:
        raise frame.tx.exceptions.new(
            ValueError, f"too many values to unpack (expected {instr.arg})"
        )
    if len(items) < instr.arg:
        raise frame.tx.exceptions.new(
            ValueError, f"not enough values to unpack (expected {instr.arg}, got {len(items)})"
        )
    frame.stack.extend(reversed(items))


@handles(Op.UNPACK_EX)
def unpack_ex(frame: Interpreter, instr: Instr) -> None:
    before, after = instr.arg
    items = frame.pop().unpack(frame.tx)
    if len(items) < before + after:
        raise frame.tx.exceptions.new(
            ValueError,
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})",
        )
    middle = ListValue(items[before : len(items) - after])
    frame.stack.extend(reversed([*items[:before], middle, *items[len(items) - after :]]))


@handles(Op.GET_LEN)
def get_len(frame: Interpreter, instr: Instr) -> None:
    frame.push(frame.peek().length(frame.tx))


@handles(Op.MATCH_MAPPING)
def match_mapping(frame: Interpreter, instr: Instr) -> None:
    frame.push(Constant(bool(frame.peek().python_type().__flags__ & MAPPING)))


@handles(Op.MATCH_SEQUENCE)
def match_sequence(frame: Interpreter, instr: Instr) -> None:
    frame.push(Constant(bool(frame.peek().python_type().__flags__ & SEQUENCE)))


@handles(Op.MATCH_CLASS)
def match_class(frame: Interpreter, instr: Instr) -> None:
    """`case Point():`, which is isinstance(); breaks for patterns of attributes."""
    names, cls, subject = frame.pop(), frame.pop(), frame.pop()
    if instr.arg or names.constant() or not isinstance(cls, ClassValue):
        unsupported_op(frame, instr)
    found = builtin_isinstance(frame.tx, subject, cls).truth(frame.tx)
    frame.push(TupleValue([]) if found else Constant(None))
