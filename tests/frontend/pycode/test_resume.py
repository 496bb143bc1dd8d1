"""Functions cut at every group boundary: a copied prefix, then the original from there on, equal
the original. Of each function some of the cuts run (tests/sweep_slice.py)."""

from __future__ import annotations

import itertools
import sys
from types import CellType

import pytest
from framejit.frontend.pycode.code_builder import dummy_closure
from framejit.frontend.pycode.decode import decode
from framejit.frontend.pycode.instr import Op
from framejit.frontend.pycode.resume import ResumePoint, Unresumable, resume_code

from ... import sweep_slice
from .abstract_stack import stacks
from .copying import HandedOver, cut_copy, function_with, resume
from .samples import SAMPLES, Derived, far, loops, make_frees_no_locals, many_locals, outcome

IDS = [f"{function.__name__}{i}" for i, (function, _) in enumerate(SAMPLES)]


@pytest.mark.parametrize(("function", "arguments"), SAMPLES, ids=IDS)
@pytest.mark.parametrize("arrival", [1, 2])
@pytest.mark.sweep(4)
def test_every_cut(function, arguments, arrival):
    decoded = decode(function.__code__)
    kinds = stacks(decoded)
    cuts = [
        cut
        for cut in range(decoded.start + 1, len(decoded.instrs))
        if kinds[cut] is not None and decoded.instrs[cut].starts_group
    ]
    reached = 0
    for cut in [*cuts[:1], *sweep_slice.one_of(8, cuts[1:])]:
        stack = kinds[cut]
        prefix = cut_copy(function, decoded, cut, stack, arrival)

        def run(cut=cut, prefix=prefix, stack=stack):
            state = prefix(*all_arguments(function, arguments()))
            if type(state) is tuple and state[:1] == (HandedOver,):
                nonlocal reached
                reached += 1
                return resume(function, prefix.__code__, decoded, cut, stack, state)
            return state

        expected = outcome(lambda: function(*arguments()))
        assert outcome(run) == expected, (cut, decoded.instrs[cut])
        assert sys.exception() is None
    assert reached or arrival > 1 or len(decoded.instrs) == decoded.start + 2


def all_arguments(function, given):
    """`given` as the values of the argument slots: defaults filled in, * and ** gathered."""
    code = function.__code__
    n = code.co_argcount
    values = list(given[:n])
    defaults = function.__defaults__ or ()
    values += defaults[len(defaults) - (n - len(values)) :] if len(values) < n else ()
    values += [
        function.__kwdefaults__[name] for name in code.co_varnames[n : n + code.co_kwonlyargcount]
    ]
    if code.co_flags & 4:
        values.append(tuple(given[n:]))
    if code.co_flags & 8:
        values.append({})
    return values


@pytest.mark.parametrize(("function", "arguments"), SAMPLES, ids=IDS)
def test_from_the_start(function, arguments):
    decoded = decode(function.__code__)
    bound = frozenset((*range(decoded.nargs), *decoded.frees))
    code = resume_code(decoded, ResumePoint(decoded.start, (), bound))
    again = function_with(code, function, dummy_closure(code))

    def run():
        return again((*all_arguments(function, arguments()), *(function.__closure__ or ())))

    assert outcome(run) == outcome(lambda: function(*arguments()))
    assert code.co_code.endswith(function.__code__.co_code) or not function.__code__.co_nlocals


def test_an_unbound_slot_stays_unbound():
    def sample(a):
        b = a
        return b

    decoded = decode(sample.__code__)
    cut = next(i for i, instr in enumerate(decoded.instrs) if instr.op is Op.STORE_FAST)
    code = resume_code(decoded, ResumePoint(cut, ("value",), frozenset()))
    assert function_with(code, sample, None)((5,)) == 5

    def looks(a):
        return locals()

    decoded = decode(looks.__code__)
    code = resume_code(decoded, ResumePoint(decoded.start, (), frozenset()))
    assert function_with(code, looks, None)(()) == {}


def test_no_locals_but_free_variables():
    function = make_frees_no_locals()
    decoded = decode(function.__code__)
    code = resume_code(decoded, ResumePoint(decoded.start, (), frozenset(decoded.frees)))
    assert function_with(code, function, dummy_closure(code))((CellType([7]),)) == [[7], 8, [7]]


def test_no_locals_and_too_many_cells():
    names = [f"v{i}" for i in range(300)]
    source = f"def outer():\n {'='.join(names)}=1\n return lambda: ({','.join(names)})"
    namespace = {}
    exec(source, namespace)
    decoded = decode(namespace["outer"]().__code__)
    with pytest.raises(Unresumable):
        resume_code(decoded, ResumePoint(decoded.start, (), frozenset(decoded.frees)))


def test_what_cannot_be_entered():
    def generator():
        yield

    with pytest.raises(Unresumable):
        resume_code(decode(generator.__code__), ResumePoint(3, (), frozenset()))
    decoded = decode(loops.__code__)
    inside = next(i for i, instr in enumerate(decoded.instrs) if not instr.starts_group) if any(
        not instr.starts_group for instr in decoded.instrs
    ) else len(decoded.instrs)  # fmt: skip
    if inside < len(decoded.instrs):
        with pytest.raises(Unresumable):
            resume_code(decoded, ResumePoint(inside, (), frozenset()))


@pytest.mark.parametrize("function", [loops, far, many_locals, Derived.method])
def test_positions_are_the_originals(function):
    decoded = decode(function.__code__)
    original = list(function.__code__.co_positions())
    for cut in itertools.islice(
        (i for i, x in enumerate(decoded.instrs) if x.starts_group), 1, None, 7
    ):
        code = resume_code(decoded, ResumePoint(cut, (), frozenset({0})))
        assert list(code.co_positions())[-len(original) :] == original
        assert code.co_firstlineno == function.__code__.co_firstlineno


def test_far_targets():
    decoded = decode(far.__code__)
    kinds = stacks(decoded)
    for cut in range(decoded.start + 1, len(decoded.instrs), 97):
        while not decoded.instrs[cut].starts_group:
            cut += 1
        prefix = cut_copy(far, decoded, cut, kinds[cut], 2)
        state = prefix(4)
        if type(state) is tuple:
            state = resume(far, prefix.__code__, decoded, cut, kinds[cut], state)
        assert state == far(4)


def test_traced():
    """A tracer sees the original's lines, and nothing of the prologue but the call."""
    decoded = decode(loops.__code__)
    kinds = stacks(decoded)
    cut = next(i for i, instr in enumerate(decoded.instrs) if instr.op is Op.FOR_ITER)
    code = resume_code(
        decoded, ResumePoint(cut, kinds[cut], frozenset({0, decoded.slots.index("total")}))
    )
    again = function_with(code, loops, None)
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "loops":
            seen.append((event, frame.f_lineno - code.co_firstlineno))
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        again((9, 0, iter(range(9))))
        resumed, seen = seen, []
        loops(9)
    finally:
        sys.settrace(before)
    assert resumed[0] == ("call", 0)
    assert resumed[-1] == seen[-1] and resumed[-1][0] == "return"
    lines = [line for event, line in seen if event == "line"]
    resumed_lines = [line for event, line in resumed if event == "line"]
    assert resumed_lines[-len(lines) + 4 :] == lines[4:]
