"""The kinds of the stack items at each canonical instruction, with which every interpreter of them
must agree. Kinds are those of ResumePoint, and "maybe": a value or NULL (LOAD_FAST_AND_CLEAR).

Kinds are those of ResumePoint, and "maybe": a value or NULL (LOAD_FAST_AND_CLEAR).
"""

from __future__ import annotations

from framejit.frontend.pycode.instr import DecodedCode, Instr, Op

V = "value"
Stack = tuple[str, ...]

# (popped, pushed) where the oparg does not matter
FIXED = {
    Op.NOP: (0, 0), Op.MAKE_CELL: (0, 0), Op.POP_TOP: (1, 0), Op.LOAD_CONST: (0, 1), Op.LOAD_FAST: (0, 1),
    Op.STORE_FAST: (1, 0), Op.DELETE_FAST: (0, 0), Op.LOAD_CLOSURE: (0, 1), Op.LOAD_DEREF: (0, 1),
    Op.STORE_DEREF: (1, 0), Op.DELETE_DEREF: (0, 0), Op.LOAD_GLOBAL: (0, 1), Op.STORE_GLOBAL: (1, 0),
    Op.DELETE_GLOBAL: (0, 0), Op.LOAD_ATTR: (1, 1), Op.LOAD_SUPER_ATTR: (3, 1), Op.STORE_ATTR: (2, 0),
    Op.DELETE_ATTR: (1, 0), Op.IMPORT_NAME: (2, 1), Op.IMPORT_FROM: (1, 2), Op.LOAD_BUILD_CLASS: (0, 1),
    Op.LOAD_ASSERTION_ERROR: (0, 1), Op.UNARY: (1, 1), Op.BINARY: (2, 1), Op.COMPARE: (2, 1), Op.IS_OP: (2, 1),
    Op.CONTAINS_OP: (2, 1), Op.SUBSCR: (2, 1), Op.STORE_SUBSCR: (3, 0), Op.DELETE_SUBSCR: (2, 0),
    Op.LIST_EXTEND: (1, 0), Op.LIST_APPEND: (1, 0), Op.SET_UPDATE: (1, 0), Op.SET_ADD: (1, 0), Op.DICT_UPDATE: (1, 0),
    Op.DICT_MERGE: (1, 0), Op.MAP_ADD: (2, 0), Op.LIST_TO_TUPLE: (1, 1), Op.CONVERT: (1, 1),
    Op.SET_FUNCTION_ATTRIBUTE: (2, 1), Op.JUMP: (0, 0), Op.JUMP_IF: (1, 0), Op.JUMP_IF_NONE: (1, 0),
    Op.RETURN_VALUE: (1, 0), Op.GET_ITER: (1, 1), Op.GET_LEN: (1, 2), Op.MATCH_MAPPING: (1, 2),
    Op.MATCH_SEQUENCE: (1, 2), Op.MATCH_KEYS: (2, 3), Op.MATCH_CLASS: (3, 1), Op.CHECK_EXC_MATCH: (2, 2),
    Op.CHECK_EG_MATCH: (2, 2), Op.PREP_RERAISE_STAR: (2, 1), Op.BEFORE_WITH: (1, 2), Op.RETURN_GENERATOR: (0, 1),
    Op.YIELD_VALUE: (1, 1), Op.GET_YIELD_FROM_ITER: (1, 1), Op.END_SEND: (2, 1), Op.CLEANUP_THROW: (3, 2),
    Op.STOPITERATION_ERROR: (1, 1),
}  # fmt: skip
COUNTED = {  # by Instr.arg
    Op.BUILD_TUPLE: lambda n: (n, 1), Op.BUILD_LIST: lambda n: (n, 1), Op.BUILD_SET: lambda n: (n, 1),
    Op.BUILD_MAP: lambda n: (2 * n, 1), Op.BUILD_CONST_KEY_MAP: lambda n: (n + 1, 1), Op.BUILD_STRING: lambda n: (n, 1),
    Op.BUILD_SLICE: lambda n: (n, 1), Op.UNPACK_SEQUENCE: lambda n: (1, n), Op.UNPACK_EX: lambda a: (1, sum(a) + 1),
    Op.FORMAT: lambda a: (1 + a[1], 1), Op.MAKE_FUNCTION: lambda parts: (1 + len(parts), 1),
    Op.RAISE: lambda n: (n, 0), Op.RERAISE: lambda n: (1, 0),
}  # fmt: skip
ENDS = {Op.JUMP, Op.RETURN_VALUE, Op.RAISE, Op.RERAISE}


class Inconsistent(AssertionError):
    pass


def step(stack: Stack, instr: Instr) -> tuple[Stack, Stack]:
    """The stack after `instr`: where it falls through, where it jumps."""
    op, arg = instr.op, instr.arg
    items = list(stack)
    if op is Op.PUSH_NULL:
        return (*stack, "null"), ()
    if op is Op.LOAD_FAST_AND_CLEAR:
        return (*stack, "maybe"), ()
    if op is Op.SWAP:
        items[-1], items[-arg] = items[-arg], items[-1]
        return tuple(items), ()
    if op is Op.COPY:
        copied = items[-arg]
        if (
            copied == "exc"
        ):  # the copy is what POP_EXCEPT takes: the original is an object like any other from here on
            items[-arg] = V
        return (*items, copied), ()
    if op is Op.STORE_FAST and stack[-1] in ("maybe", "null"):
        return stack[:-1], ()
    if op is Op.PUSH_EXC_INFO:
        return (*pop(stack, 1, op), "exc", V), ()
    if op is Op.POP_EXCEPT:
        if stack[-1] != "exc":
            raise Inconsistent(f"POP_EXCEPT of {stack[-1]}")
        return stack[:-1], ()
    if op is Op.WITH_EXCEPT_START:
        if stack[-4:] != (V, "lasti", "exc", V):
            raise Inconsistent(f"WITH_EXCEPT_START on {stack}")
        return (*stack, V), ()
    if op in (Op.CALL, Op.CALL_FUNCTION_EX):
        n = arg[0] if op is Op.CALL else 1 + arg
        below = pop(stack, n, op)
        if below[-2:].count("null") > 1 or "lasti" in below[-2:] or len(below) < 2:
            raise Inconsistent(f"{op} on {below}")
        return (*below[:-2], V), ()
    if op is Op.FOR_ITER:
        return (*stack, V), pop(stack, 1, op)
    if op is Op.SEND:
        return (*pop(stack, 2, op), V, V), (*pop(stack, 2, op), V)
    if op is Op.JUMP_IF_OR_POP:
        return pop(stack, 1, op), stack
    if op is Op.POP_TOP and stack[-1] in ("lasti", "exc"):  # leaving a handler for good
        return stack[:-1], ()
    if op is Op.RERAISE and arg and stack[-arg - 1] not in ("lasti", "exc"):
        raise Inconsistent(f"RERAISE {arg} on {stack}")
    popped, pushed = FIXED[op] if op in FIXED else COUNTED[op](arg)
    after = (*pop(stack, popped, op), *(V,) * pushed)
    return after, after


def pop(stack: Stack, n: int, op: Op) -> Stack:
    taken = stack[len(stack) - n :]
    if len(stack) < n or any(kind != V for kind in taken):
        raise Inconsistent(f"{op} takes {n} values of {stack}")
    return stack[: len(stack) - n]


def stacks(decoded: DecodedCode) -> list[Stack | None]:
    """The kinds under each instruction, None where nothing leads. Raises Inconsistent where two
    ways disagree."""
    found: list[Stack | None] = [None] * len(decoded.instrs)
    work: list[tuple[int, Stack]] = [(0, ())]

    def reach(index: int, stack: Stack) -> None:
        if found[index] is None:
            work.append((index, stack))
        elif found[index] != stack:
            raise Inconsistent(f"{decoded.code.co_qualname}: {found[index]} and {stack} at {index}")

    while work:
        index, stack = work.pop()
        if found[index] is not None:
            reach(index, stack)
            continue
        found[index] = stack
        instr, handler = decoded.instrs[index], decoded.handlers[index]
        if handler is not None:
            if len(stack) < handler.depth:
                raise Inconsistent(
                    f"{decoded.code.co_qualname}: handler of {index} keeps {handler.depth} of {stack}"
                )
            reach(handler.target, (*stack[: handler.depth], *("lasti",) * handler.lasti, V))
        if instr.op is Op.UNSUPPORTED:
            continue
        through, jumped = step(stack, instr)
        if instr.target >= 0:
            reach(instr.target, jumped)
        if instr.op not in ENDS:
            reach(index + 1, through)
    return found
