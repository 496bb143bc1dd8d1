"""Every opcode is mapped; the standard library decodes, and its stack depths agree on every way."""

from __future__ import annotations

import dis
import marshal
import opcode
import sys
import sysconfig
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

import pytest
from framejit.frontend.pycode.code_builder import CodeBuilder
from framejit.frontend.pycode.decode import decode
from framejit.frontend.pycode.dialect import VERSIONS, current, is_supported
from framejit.frontend.pycode.instr import Op

from . import samples
from .abstract_stack import stacks

FOLDERS = (
    ".",
    "json",
    "asyncio",
    "concurrent/futures",
    "collections",
    "logging",
    "importlib",
    "email",
    "unittest",
)


def modules() -> list[Path]:
    base = Path(sysconfig.get_path("stdlib"))
    return [path for folder in FOLDERS for path in sorted((base / folder).glob("*.py"))]


def code_objects(path: Path) -> list[CodeType]:
    cached = Path(cache_from_source(str(path)))
    if cached.exists():
        return list(nested(marshal.loads(cached.read_bytes()[16:])))
    return list(nested(compile(path.read_bytes(), str(path), "exec")))


def nested(code: CodeType):
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from nested(const)


def test_version():
    assert is_supported()
    assert current().version == sys.version_info[:2] in VERSIONS


def test_every_opcode_is_mapped():
    visible = {
        name
        for name, number in opcode.opmap.items()
        if number < 256 and not name.startswith("INSTRUMENTED_")
    }
    dialect = current()
    assert visible == (set(dialect.rules) | dialect.internal) & visible, (
        visible - set(dialect.rules) - dialect.internal
    )
    assert not set(dialect.rules) & dialect.internal
    assert all(
        name in visible
        for name in dialect.rules
        if name != "CACHE" and name not in known_elsewhere()
    )
    table = dialect.table
    assert all(
        table[opcode.opmap[name]] is dialect.rules[name] for name in visible - dialect.internal
    )


def known_elsewhere() -> set[str]:
    """Names a table inherits from an older version's, where they are gone."""
    return {name for name in current().rules if name not in opcode.opmap}


@pytest.mark.parametrize("part", range(8))
@pytest.mark.sweep(2)
def test_standard_library(part):
    count = 0
    for path in modules()[part::8]:
        for code in code_objects(path):
            decoded = decode(code)
            check_shape(decoded)
            stacks(decoded)
            count += 1
    assert count > 100


def check_shape(decoded):
    n, size = len(decoded.instrs), len(decoded.code.co_code)
    offset = 0
    for i, instr in enumerate(decoded.instrs):
        assert -1 <= instr.target < n
        assert instr.target < 0 or decoded.instrs[instr.target].starts_group
        if instr.starts_group:
            assert offset <= instr.offset < instr.end <= size
            offset = instr.end
        else:
            before = decoded.instrs[i - 1]
            assert (instr.offset, instr.end) == (before.offset, before.end)
            assert decoded.handlers[i] == decoded.handlers[i - 1]
    for handler in decoded.handlers:
        assert handler is None or decoded.instrs[handler.target].starts_group
    names = [decoded.slots[slot] for slot in decoded.frees]
    assert tuple(names) == decoded.code.co_freevars
    assert {decoded.slots[slot] for slot in decoded.cells} == set(decoded.code.co_cellvars)
    assert all(decoded.instrs[i].op in (Op.NOP, Op.MAKE_CELL) for i in range(decoded.start))


def test_lines_and_targets_are_dis_s():
    for function, _ in samples.SAMPLES:
        code = function.__code__
        decoded = decode(code)
        lines = [line for *_, line in (position[:1] for position in code.co_positions())]
        for instr in decoded.instrs:
            assert instr.line in lines[instr.offset // 2 : instr.end // 2]
        targets = {i.argval for i in dis.get_instructions(code) if i.opcode in dis.hasjrel}
        beyond = {i.target for i in decoded.instrs if i.op is Op.FOR_ITER}
        plain = {
            decoded.instrs[i.target].offset
            for i in decoded.instrs
            if i.target >= 0 and i.target not in beyond
        }
        dropped = {i.offset: i.opname for i in dis.get_instructions(code)}
        assert all(t in plain or dropped[t] in ("NOP", "END_FOR", "RESUME") or t in
                   {decoded.instrs[b].offset for b in beyond} for t in targets)  # fmt: skip


def test_canonical_forms():
    def sample(a, b):
        for x in a.items():
            b.call(x, key=1)
        return a[1:2], not a, f"{a!r}"

    ops = [(i.op, i.arg) for i in decode(sample.__code__).instrs]
    below = current().null_below
    method = [(Op.LOAD_ATTR, "call"), (Op.PUSH_NULL, None)] + [(Op.SWAP, 2)] * below
    at = ops.index(method[0])
    assert ops[at : at + len(method)] == method
    assert (Op.CALL, (2, ("key",))) in ops
    assert ops.count((Op.UNARY, "not")) == 1
    sliced = ops.index((Op.BUILD_SLICE, 2)) if (Op.BUILD_SLICE, 2) in ops else None
    assert sliced is not None and ops[sliced + 1] == (Op.SUBSCR, None)
    assert (Op.FORMAT, ("repr", False)) in ops or (Op.CONVERT, "repr") in ops
    assert ops[-1] == (Op.RETURN_VALUE, None)


def test_super_is_one_op_or_a_call():
    ops = [i.op for i in decode(samples.Derived.method.__code__).instrs]
    assert (Op.LOAD_SUPER_ATTR in ops) == (current().version >= (3, 12))


def test_liveness():
    def sample(a, b, c):
        d = a + 1
        try:
            e = d * b
        except ValueError:
            return c
        return e

    decoded = decode(sample.__code__)
    slot = {name: i for i, name in enumerate(decoded.slots)}
    live = {
        (instr.op, decoded.slots[instr.arg]): {
            name for name, s in slot.items() if s in decoded.live_in[i]
        }
        for i, instr in enumerate(decoded.instrs)
        if instr.op in (Op.LOAD_FAST, Op.STORE_FAST)
    }
    assert live[Op.LOAD_FAST, "a"] == {"a", "b", "c"}
    assert live[Op.STORE_FAST, "d"] == {"b", "c"}
    assert live[Op.LOAD_FAST, "b"] - {"d"} == {"b", "c"}
    assert live[Op.LOAD_FAST, "c"] == {"c"}
    assert live[Op.LOAD_FAST, "e"] == {"e"}

    def looks(a):
        b = 1
        return locals(), a

    assert set(decode(looks.__code__).live_in[-1]) == {0, 1}
    cell = decode(samples.closures.__code__)
    assert all(cell.cells <= live for live in cell.live_in)
    assert 0 in decode(samples.Derived.method.__code__).live_in[-1]


def test_memo_is_by_identity():
    code = samples.plain.__code__
    assert decode(code) is decode(code)
    assert decode(code.replace()) is not decode(code)
    builder = CodeBuilder(decode(code), takes_state=True)
    builder.load_const([])  # a code object with it does not hash
    builder.return_value()
    assert decode(builder.finish()).instrs[-1].op is Op.RETURN_VALUE
