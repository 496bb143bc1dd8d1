"""Functions that are copied group by group behave as the originals; helper instructions mean the
same on every version."""

from __future__ import annotations

import itertools
import sys
import traceback
from types import CellType, FunctionType

import pytest
from bytecode import BinaryOp
from framejit.frontend.pycode.code_builder import CodeBuilder, dummy_closure
from framejit.frontend.pycode.decode import decode

from .copying import Copier
from .samples import (
    SAMPLES,
    Base,
    Derived,
    closures,
    far,
    frames,
    many_locals,
    outcome,
    plain,
    raises,
)
from .test_resume import IDS, all_arguments


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize(("function", "arguments"), SAMPLES, ids=IDS)
def test_copies_behave_the_same(function, arguments, lifted):
    copier = Copier(decode(function.__code__), lifted=lifted)
    copier.copy_all()
    copy = copier.function_like(function)
    extra = ((),) * lifted
    if lifted and function is frames:  # locals() shows the lifted objects
        return
    expected = outcome(lambda: function(*arguments()))
    assert outcome(lambda: copy(*all_arguments(function, arguments()), *extra)) == expected
    assert copy.__code__.co_argcount == decode(function.__code__).nargs + lifted


def test_far_jumps():
    copier = Copier(decode(far.__code__))
    copier.copy_all()
    assert copier.function_like(far)(5) == far(5)
    assert len(far.__code__.co_code) > 2000


def test_positions_are_kept():
    for function in (raises, far, many_locals, plain):
        copier = Copier(decode(function.__code__))
        copier.copy_all()
        copied, original = (
            [p for p, _ in itertools.groupby(code.co_positions()) if p[0] is not None]
            for code in (copier.builder.finish(), function.__code__)
        )
        first = function.__code__.co_firstlineno
        assert set(copied) - {(first, first, None, None)} <= set(original)

    copier = Copier(decode(raises.__code__))
    copier.copy_all()
    shown = []
    for function in (copier.function_like(raises), raises):
        with pytest.raises(IndexError) as caught:
            function("index")
        shown.append("".join(traceback.format_tb(caught.value.__traceback__)[1:]))
    assert shown[0] == shown[1] and ("^" in shown[0] or "~" in shown[0])


def build(function=lambda a, b: None, takes_state=False, lifted=False):
    b = CodeBuilder(decode(function.__code__), takes_state)
    if lifted:
        b.load_lifted()
        b.pop_top()
    return b


def made(b, closure=None):
    return FunctionType(b.finish(), globals(), "made", None, closure)


def test_constants_are_kept_apart():
    values = [
        1,
        1.0,
        True,
        0,
        0.0,
        -0.0,
        False,
        [],
        {},
        "a",
        ("a", 1),
        ("a", True),
        None,
        object(),
        build,
        ...,
    ]
    b = build()
    for value in values:
        b.load_const(value)
    b.build_tuple(len(values))
    b.return_value()
    got = made(b)(0, 0)
    assert all(type(x) is type(y) and repr(x) == repr(y) for x, y in zip(got, values, strict=True))
    assert got[7] is values[7] and got[13] is values[13]


def test_calls():
    def callee(*a, **k):
        return a, k

    b = build()
    for names in ((), ("x",), ("x", "y")):
        b.load_callee(callee)
        for slot in (0, 1, 0):
            b.load_slot(slot)
        b.call(3, names)
    b.build_tuple(3)
    b.return_value()
    assert made(b)(1, 2) == (
        ((1, 2, 1), {}), ((1, 2), {"x": 1}), ((1,), {"x": 2, "y": 1}),
    )  # fmt: skip


def test_attributes_and_subscripts():
    class Thing:
        pass

    b = build()
    b.load_const(5)
    b.load_slot(0)
    b.store_attr("x")
    b.load_slot(0)
    b.load_attr("x")
    b.load_slot(1)
    b.load_const("k")
    b.store_subscr()
    b.load_slot(1)
    b.load_const("k")
    b.subscr()
    b.return_value()
    thing, table = Thing(), {}
    assert made(b)(thing, table) == 5 and table == {"k": 5} and vars(thing) == {"x": 5}


class Falsy:
    def __bool__(self):
        return False


@pytest.mark.parametrize("value", [0, 1, [], [1], None, True, Falsy(), "x"])
def test_conditional_jumps(value):
    """Forward and backward."""
    for when in (True, False):
        b = build()
        back, go, there = b.label(), b.label(), b.label()
        b.jump(go)
        b.place_label(back)
        b.load_const("jumped back")
        b.return_value()
        b.place_label(go)
        for target in (there, back):
            b.load_slot(0)
            b.jump_if(when, target)
            b.load_const("through")
            b.return_value()
            if target is there:
                b.place_label(there)
        function = made(b)
        assert function(value, 0) == ("jumped back" if bool(value) is when else "through")


def test_handlers_and_loops():
    b = build()
    loop, after, bad, other = (b.label() for _ in range(4))
    b.build_list(0)
    b.load_slot(0)
    b.get_iter()
    b.place_label(loop)
    b.emit("FOR_ITER", after)
    with b.protect(bad, 2, False):
        b.load_const(10)
        b.swap(2)
        b.emit("BINARY_OP", BinaryOp.FLOOR_DIVIDE)
    b.emit("LIST_APPEND", 2)
    b.jump(loop)
    b.place_label(bad)
    b.push_exc_info()
    b.load_const(ZeroDivisionError)
    b.check_exc_match()
    b.jump_if(False, other)
    b.pop_top()
    b.pop_except()
    b.jump(loop)
    b.place_label(other)
    b.swap(2)
    b.pop_except()
    b.reraise()
    b.place_label(after)
    b.return_value()
    function = made(b)
    assert function([1, 0, 5], 0) == [10, 2]
    with pytest.raises(TypeError):
        function([1, None], 0)
    assert sys.exception() is None


def test_lines():
    b = build()
    b.line(1234)
    b.load_const(ValueError("x"))
    b.line(1200)
    b.emit("RAISE_VARARGS", 1)
    with pytest.raises(ValueError) as caught:
        made(b)(1, 2)
    assert caught.value.__traceback__.tb_next.tb_lineno == 1200


def test_make_function():
    def sample(a):
        def inner(x, y=1, *, z: int = 2):
            return a, x, y, z

        return inner

    inner = next(c for c in sample.__code__.co_consts if hasattr(c, "co_code"))
    b = build(sample)
    b.load_const((10,))
    b.load_const({"z": 20})
    b.load_const(("z", int))
    b.load_cell(0)
    b.build_tuple(1)
    b.load_const(inner)
    b.make_function(("defaults", "kwdefaults", "annotations", "closure"))
    b.return_value()
    got = made(b)("cell")
    assert got(0) == ("cell", 0, 10, 20)
    assert got.__annotations__ == {"z": int}


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize(
    "function", [plain, closures, lambda: None, lambda a: None, Derived.cell_self]
)
def test_state_entry(function, lifted):
    b = build(function, takes_state=True, lifted=lifted)
    n = len(b.decoded.slots)
    b.load_slot(b.state_slot)
    b.unpack_sequence(n)
    for slot in range(n):
        b.store_slot(b.slot(slot))
    for slot in range(n):
        special = slot in b.decoded.cells or slot in b.decoded.frees
        (b.load_deref if special else b.load_slot)(slot)
    if lifted:
        b.load_lifted()
    b.build_tuple(n + lifted)
    b.return_value()
    code = b.finish()
    cells = {*b.decoded.cells, *b.decoded.frees}
    state = tuple(CellType(i) if i in cells else i for i in range(n))
    made = FunctionType(code, {}, "made", None, dummy_closure(code))
    assert code.co_argcount == 1 + lifted and code.co_freevars == function.__code__.co_freevars
    assert made(state, *("lifted",) * lifted) == (*range(n), *("lifted",) * lifted)


@pytest.mark.parametrize("lifted", [False, True])
def test_state_entry_leaves_slots_unbound(lifted):
    b = build(plain, takes_state=True, lifted=lifted)
    b.load_slot(0)
    b.return_value()
    with pytest.raises(UnboundLocalError):
        made(b)(1, *(2,) * lifted)


@pytest.mark.parametrize("lifted", [False, True])
def test_super_and_locals_in_state_entered_code(lifted):
    """super() finds slot 0 and the cell of __class__; locals() takes cells for what they hold."""
    function = Derived.cell_self
    b = build(function, takes_state=True, lifted=lifted)
    n = len(b.decoded.slots)
    b.load_slot(b.state_slot)
    b.unpack_sequence(n)
    for slot in range(n):
        b.store_slot(slot)
    for slot in (b.state_slot, b.lifted_slot):
        if slot is not None:
            b.delete_slot(slot)
    for called in (super, locals):
        b.load_callee(called)
        b.call(0)
    b.build_tuple(2)
    b.return_value()
    code = b.finish()
    made = FunctionType(code, {}, "made", None, dummy_closure(code))
    self = Derived()
    values = {"self": self, "x": 1, "f": 2, "__class__": Derived}
    cells = {*b.decoded.cells, *b.decoded.frees}
    state = tuple(
        CellType(values[n]) if i in cells else values[n] for i, n in enumerate(b.decoded.slots)
    )
    found, seen = made(state, *((),) * lifted)
    assert (
        found.__self__ is self
        and found.__thisclass__ is Derived
        and found.method(1) == Base().method(1)
    )
    assert seen == values


def test_temporaries():
    b = build(closures)
    slots = [b.temp() for _ in range(20)]
    for i, slot in enumerate(slots):
        b.load_const(i)
        b.store_slot(slot)
    for slot in slots:
        b.load_slot(slot)
    b.load_deref(0)
    b.build_tuple(21)
    b.return_value()
    assert made(b)("a", "b") == (*range(20), "a")


def test_many_slots_split_pairs():
    """3.13's fused pairs hold 4 bits a slot: behind an inserted slot they no longer fit."""
    copier = Copier(decode(many_locals.__code__), lifted=True)
    copier.copy_all()
    assert copier.function_like(many_locals)(4, ()) == many_locals(4)


def test_stack_size():
    for function, _ in SAMPLES:
        copier = Copier(decode(function.__code__))
        copier.copy_all()
        assert function.__code__.co_stacksize <= copier.builder.finish().co_stacksize + 1


def test_code_that_loads_no_lifted_objects_takes_none():
    b = build(plain, takes_state=True)
    b.load_state()
    b.return_value()
    assert b.finish().co_argcount == 1
