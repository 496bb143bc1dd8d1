"""The stack effect of a raw instruction group: how many items it takes, and the kinds of items that
it leaves."""

from __future__ import annotations

from ...records import record
from ..pycode.instr import DecodedCode, Instr, Op

V = "value"
FIXED: dict[Op, tuple[int, int]] = {
    Op.POP_TOP: (1, 0), Op.LOAD_CONST: (0, 1), Op.LOAD_FAST: (0, 1), Op.STORE_FAST: (1, 0),
    Op.DELETE_FAST: (0, 0),
    Op.LOAD_CLOSURE: (0, 1), Op.LOAD_DEREF: (0, 1), Op.STORE_DEREF: (1, 0), Op.DELETE_DEREF: (0, 0),
    Op.LOAD_GLOBAL: (0, 1),
    Op.STORE_GLOBAL: (1, 0), Op.DELETE_GLOBAL: (0, 0), Op.LOAD_ATTR: (1, 1),
    Op.LOAD_SUPER_ATTR: (3, 1), Op.STORE_ATTR: (2, 0),
    Op.DELETE_ATTR: (1, 0), Op.IMPORT_NAME: (2, 1), Op.IMPORT_FROM: (1, 2),
    Op.LOAD_BUILD_CLASS: (0, 1), Op.UNARY: (1, 1),
    Op.BINARY: (2, 1), Op.COMPARE: (2, 1), Op.IS_OP: (2, 1), Op.CONTAINS_OP: (2, 1),
    Op.SUBSCR: (2, 1), Op.STORE_SUBSCR: (3, 0),
    Op.DELETE_SUBSCR: (2, 0), Op.LIST_TO_TUPLE: (1, 1), Op.CONVERT: (1, 1), Op.JUMP: (0, 0),
    Op.JUMP_IF: (1, 0), Op.JUMP_IF_NONE: (1, 0),
    Op.GET_ITER: (1, 1), Op.GET_LEN: (1, 2), Op.MATCH_MAPPING: (1, 2), Op.MATCH_SEQUENCE: (1, 2),
    Op.MATCH_KEYS: (2, 3),
    Op.MATCH_CLASS: (3, 1), Op.CHECK_EXC_MATCH: (2, 2), Op.CHECK_EG_MATCH: (2, 2),
    Op.BEFORE_WITH: (1, 2), Op.NOP: (0, 0),
    Op.LOAD_ASSERTION_ERROR: (0, 1), Op.PREP_RERAISE_STAR: (2, 1), Op.RERAISE: (1, 0),
    Op.GET_YIELD_FROM_ITER: (1, 1),
    Op.WITH_EXCEPT_START: (0, 1),  # it reads four items and leaves them
}  # fmt: skip


def taken_and_left(instr: Instr) -> tuple[int, int]:
    """Items a canonical instruction takes and leaves when it falls through."""
    fixed = FIXED.get(instr.op)
    if fixed is not None:
        return fixed
    variable = VARIABLE.get(instr.op)
    if variable is None:
        raise UnsupportedInstruction(instr)
    return variable(instr.arg)


class UnsupportedInstruction(Exception):
    """An instruction around which no break can be made."""


VARIABLE = {
    Op.BUILD_TUPLE: lambda n: (n, 1),
    Op.BUILD_LIST: lambda n: (n, 1),
    Op.BUILD_SET: lambda n: (n, 1),
    Op.BUILD_MAP: lambda n: (2 * n, 1),
    Op.BUILD_CONST_KEY_MAP: lambda n: (n + 1, 1),
    Op.BUILD_STRING: lambda n: (n, 1),
    Op.BUILD_SLICE: lambda n: (n, 1),
    Op.LIST_EXTEND: lambda i: (i + 1, i),
    Op.LIST_APPEND: lambda i: (i + 1, i),
    Op.SET_UPDATE: lambda i: (i + 1, i),
    Op.SET_ADD: lambda i: (i + 1, i),
    Op.DICT_UPDATE: lambda i: (i + 1, i),
    # its errors name the callee, which is under the arguments
    Op.DICT_MERGE: lambda i: (i + 4, i + 3),
    Op.MAP_ADD: lambda i: (i + 2, i),
    Op.UNPACK_SEQUENCE: lambda n: (1, n),
    Op.UNPACK_EX: lambda arg: (1, arg[0] + arg[1] + 1),
    Op.FORMAT: lambda arg: (2 if arg[1] else 1, 1),
    Op.CALL: lambda arg: (arg[0] + 2, 1),
    Op.CALL_FUNCTION_EX: lambda kwargs: (4 if kwargs else 3, 1),
    Op.MAKE_FUNCTION: lambda parts: (len(parts) + 1, 1),
    Op.SET_FUNCTION_ATTRIBUTE: lambda part: (2, 1),
    Op.RAISE: lambda n: (n, 0),
    Op.FOR_ITER: lambda _: (1, 2),
    Op.JUMP_IF_OR_POP: lambda _: (1, 0),
}


@record
class GroupEffect:
    """A group (and its tail) as Python runs it: the indices where its raw groups start, operands
    taken, kinds left when it falls through to `next` or jumps to `target`."""

    starts: tuple[int, ...]
    operands: int
    left: tuple[str, ...]
    next: int  # -1: it never falls through
    jumped: tuple[str, ...]
    target: int  # -1: it never jumps
    only_attribute: bool  # LOAD_ATTR with its NULL, which generated code spells out


ENDS = frozenset({Op.RAISE, Op.RERAISE, Op.JUMP})


def with_comparison(decoded: DecodedCode, index: int) -> tuple[tuple[int, ...], int]:
    """The starts of the raw groups that run together, and the index after them. A result that is
    compared and branched on at once (`if x.item() > 0`) is branched on in Python too, so that later
    code depends on the branch and not on a number."""
    first_end = end = decoded.group_end(index)
    starts = [index]
    if any(instr.target >= 0 or instr.op in ENDS for instr in decoded.instrs[index:end]):
        return (index,), end
    for expected in TAIL:
        if end >= len(decoded.instrs) or decoded.handlers[end] != decoded.handlers[index]:
            break
        if decoded.instrs[end].op in expected:
            starts.append(end)
            end = decoded.group_end(end)
            if any(instr.op is Op.JUMP_IF for instr in decoded.instrs[starts[-1] : end]):
                return tuple(starts), end
    return (index,), first_end


TAIL = (
    frozenset({Op.LOAD_CONST, Op.LOAD_FAST}),
    frozenset({Op.COMPARE, Op.IS_OP}),
    frozenset({Op.UNARY}),
    frozenset({Op.JUMP_IF}),
)


def group_effect(decoded: DecodedCode, index: int) -> GroupEffect:
    """The effect of the raw group that starts at `index`. Raises UnsupportedInstruction for one
    that cannot be run separately."""
    return effect_of_groups(decoded, *with_comparison(decoded, index))


def effect_of_groups(decoded: DecodedCode, starts: tuple[int, ...], end: int) -> GroupEffect:
    """The effect of raw groups that run one after the other; `end` is the index of what runs
    next."""
    instrs, index = decoded.instrs, starts[0]
    stack: list[str] = []  # what the group has put on top of what was there
    operands, target = 0, -1
    jumped: tuple[str, ...] = ()
    run = [instr for start in starts for instr in instrs[start : decoded.group_end(start)]]
    for instr in run:
        if instr.op is Op.PUSH_NULL:
            stack.append("null")
            continue
        if instr.op is Op.SWAP and len(stack) >= instr.arg:
            stack[-1], stack[-instr.arg] = stack[-instr.arg], stack[-1]
            continue
        taken, left = taken_and_left(instr)
        operands += max(0, taken - len(stack))
        del stack[max(0, len(stack) - taken) :]
        if instr.target >= 0:
            target = instr.target
            jumped = (*stack, V) if instr.op is Op.JUMP_IF_OR_POP else tuple(stack)
        stack += [V] * left
    ends = run[-1].op in ENDS
    only_attribute = instrs[index].op is Op.LOAD_ATTR and decoded.group_end(index) - index > 1
    if instrs[index].op is Op.LOAD_SUPER_ATTR and len(run) > 1:
        raise UnsupportedInstruction(instrs[index])
    return GroupEffect(
        starts, operands, tuple(stack), -1 if ends else end, jumped, target, only_attribute
    )


def awaited_effect(decoded: DecodedCode, index: int) -> GroupEffect:
    """The effect of the call at `index` in generated code for a waiting frame: it takes nothing and
    leaves one item."""
    return GroupEffect((index,), 0, (V,), decoded.group_end(index), (), -1, False)
