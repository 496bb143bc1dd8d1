"""GuardProgram: merging, order, lifetimes, lifted objects, printing."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from dataclasses import replace

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, TensorSpec, TorchState
from framejit.guards.native import _guards
from framejit.guards.program import GuardProgram
from framejit.guards.section import Section, Sections
from framejit.guards.source import FrameView
from framejit.guards.steps import Load

X, Y = s.SlotSource(0, "x"), s.SlotSource(1, "y")


def own(of, attr):
    return s.DictItem(s.InstanceDict(of), attr)


def function():
    pass


class Plain:
    pass


def kinds(guards):
    return [guard.kind for guard in GuardProgram.build(guards).guards]


def test_the_section_of_each_guard_is_found_once(monkeypatch):
    """Models have thousands of guards."""
    found = []
    of_guard = Sections.of_guard

    def counted(self, guard, runs_python):
        found.append(guard)
        return of_guard(self, guard, runs_python)

    monkeypatch.setattr(Sections, "of_guard", counted)
    guards = [Guard(X, Kind.TYPE, Plain), Guard(own(X, "a"), Kind.EQUALS, 1), Guard(Y, Kind.IS, 2)]
    GuardProgram.build(guards)
    assert sorted(map(id, found)) == sorted(map(id, guards))


def test_the_cost_of_a_path_is_that_of_all_its_loads_and_computed_once():
    cost = s.SlotSource.cost + s.InstanceDict.cost + s.DictItem.cost
    path = own(s.SlotSource(0, "x"), "a")
    assert path.way_cost == cost and vars(path)["_way_cost"] == cost
    keyed = s.ItemAtKey(path, Y)
    assert keyed.way_cost == s.ItemAtKey.cost + cost + Y.cost
    assert keyed.operands == (path, Y) and keyed.base is path and path.operands == (path.base,)


def test_keys_that_are_compared_by_identity_are_known():
    one, two = Plain(), Plain()
    key = s.DictKey(X, 1)
    program = GuardProgram.build(
        [Guard(X, Kind.KEYS, (one, two, "three")), Guard(key, Kind.IS, two), Guard(own(key, "size"), Kind.EQUALS, 3),
         Guard(s.DictKey(X, 2), Kind.EQUALS, "three")],
        lifted=[key],
    )  # fmt: skip
    two.size = 3
    assert kinds(program.guards) == [Kind.KEYS, Kind.EQUALS, Kind.EQUALS]
    assert [step.source for step in program.steps if step.op == "DICT_KEY"] == [
        s.DictKey(X, 2)
    ]  # a constant may be an equal one
    check = program.native().check
    assert check(({one: 1, two: 2, "three": 3},), function) and not check(
        ({two: 1, one: 2, "three": 3},), function
    )
    two.size = 4
    assert not check(({one: 1, two: 2, "three": 3},), function)


class Computed:
    @property
    def size(self):
        return 3


def test_functions_of_properties_are_watched():
    path = s.AttrSource(s.ClassAttribute(s.TypeOf(X), "size"), "fget")
    found = vars(Computed)["size"]
    program = GuardProgram.build(
        [
            Guard(X, Kind.TYPE, Computed),
            Guard(path.of, Kind.TYPE, property),
            Guard(path, Kind.IS, found.fget),
        ]
    )
    native, thing = program.native(), (Computed(),)
    assert "PROPERTY_FIELD" in [step.op for step in program.steps] and not any(
        step.runs_python for step in program.steps
    )
    assert native.check(thing, function) and native.check(thing, function) and native.reuses == 1
    getter = found.fget
    found.__init__(lambda self: 4)
    try:
        assert not native.check(thing, function)
    finally:
        found.__init__(getter)
    assert native.check(thing, function)


def test_what_is_asked_of_a_code_object_is_known():
    path = s.AttrSource(X, "__code__")
    guards = [
        Guard(path, Kind.IS, function.__code__),
        Guard(s.AttrSource(path, "co_varnames"), Kind.EQUALS, ()),
    ]
    assert GuardProgram.build(guards).guards == (guards[0],)


def test_tensors_on_stable_paths_are_checked_in_one_loop():
    module = torch.nn.Linear(2, 3)
    tensors = [s.DictItem(own(X, "_parameters"), name) for name in ("weight", "bias")]
    program = GuardProgram.build(
        [
            Guard(X, Kind.TYPE, torch.nn.Linear),
            *(Guard(at, Kind.TENSOR, TensorSpec.of(getattr(module, at.key))) for at in tensors),
        ],
        tensors,
    )
    native = program.native()
    assert [step.op for step in program.steps if step.section is Section.HELD] == [
        "TENSOR",
        "TENSOR",
    ]
    assert native.lifted((module,), function) == (module.weight, module.bias)
    changes = (
        lambda: module.bias.requires_grad_(False), lambda: module.bias.requires_grad_(), lambda: module.half(), lambda: module.float(),
        lambda: setattr(module.weight, "data", torch.ones(2, 3)), lambda: setattr(module.weight, "data", torch.ones(3, 2)),
        lambda: setattr(module.weight, "data", torch.ones(2, 3).t()), lambda: setattr(module.weight, "data", torch.ones(3, 2)),
        lambda: module.to("meta"),
    )  # fmt: skip
    for number, change in enumerate(changes):
        change()
        failing = native.first_failure((module,), function)
        assert (failing == -1) == (number % 2 == 1), number
        assert failing == -1 or program.steps[failing].section is Section.HELD


def test_tensors_that_are_expected_alike_are_compared_in_one_go():
    """Side by side, whatever order they were asked in; each is still the one whose change is
    found."""
    module = torch.nn.Sequential(
        *(torch.nn.Linear(3, 3) for _ in range(4)), torch.nn.BatchNorm1d(3)
    )
    module[2].requires_grad_(False)
    names = dict(module.named_parameters()) | dict(module.named_buffers())

    def path(name):
        at, last = name.split(".")
        kind = "_parameters" if last in ("weight", "bias") else "_buffers"
        return s.DictItem(own(s.DictItem(own(X, "_modules"), at), kind), last)

    guards = [
        Guard(path(name), Kind.TENSOR, TensorSpec.of(tensor)) for name, tensor in names.items()
    ]
    program = GuardProgram.build([Guard(X, Kind.TYPE, torch.nn.Sequential), *guards])
    native, held = (
        program.native(),
        [step.guard.expected for step in program.steps if step.section is Section.HELD],
    )
    assert len(held) == len(names)
    assert (
        sum(one != other for one, other in zip(held, held[1:], strict=False)) == len(set(held)) - 1
    )
    for _ in range(2):  # before and after its stable steps are watched
        assert native.check((module,), function)
    for name, tensor in names.items():
        before, required = tensor.data, tensor.requires_grad
        others = (
            torch.ones((*before.shape, 2))[..., 0],
            torch.ones((*before.shape, 1)),
            before.to(torch.float16),
        )
        for other in others:
            if other.dtype == before.dtype and other.stride() == before.stride():
                continue  # a single number has no strides
            tensor.data = other
            assert program.steps[native.first_failure((module,), function)].guard.source == path(
                name
            )
        tensor.data = before
        if before.is_floating_point():
            tensor.requires_grad_(not required)
            assert program.steps[native.first_failure((module,), function)].guard.source == path(
                name
            )
            tensor.requires_grad_(required)
        assert native.check((module,), function), name


def test_tensors_that_are_checked_to_be_unlike_are_not_compared():
    module, wanted = torch.nn.Linear(2, 3), torch.ones(2)
    bias = s.DictItem(own(X, "_parameters"), "bias")
    checked = [
        Guard(X, Kind.TYPE, torch.nn.Linear),
        Guard(bias, Kind.TENSOR, TensorSpec.of(module.bias)),
    ]
    spec = TensorSpec.of(wanted)
    cases = {  # what is checked of the argument: whether it has to be compared with the parameter
        spec: False,
        None: True,
        TensorSpec.of(module.bias): True,
        TensorSpec.of(module.bias.detach()): False,
        replace(TensorSpec.of(module.bias), sizes=(None,), strides=(None,)): True,
        TensorSpec.of(module.weight): False,
        replace(TensorSpec.of(module.bias), sizes=(None, None), strides=(None, None)): False,
        replace(TensorSpec.of(module.bias), dtype=torch.float64): False,
    }
    for case, compared in cases.items():
        program = GuardProgram.build(
            [
                *checked,
                *([Guard(Y, Kind.TENSOR, case)] if case else []),
                Guard(Y, Kind.DISTINCT, (bias,)),
            ]
        )
        assert [step.op for step in program.steps].count("DISTINCT") == compared, case
        assert not program.native().check((module, module.bias), function)
    program = GuardProgram.build(
        [*checked, Guard(Y, Kind.TENSOR, spec), Guard(Y, Kind.DISTINCT, (bias,))]
    )
    assert program.native().check((module, wanted), function)


def test_duplicates_merge_but_not_equal_looking_constants():
    assert kinds([Guard(X, Kind.EQUALS, 1)] * 3 + [Guard(X, Kind.EQUALS, 1, line="other")]) == [
        Kind.EQUALS
    ]
    for one, other in ((1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), ("a", b"a")):
        assert len(kinds([Guard(X, Kind.EQUALS, one), Guard(X, Kind.EQUALS, other)])) == 2
    assert (
        len(kinds([Guard(X, Kind.EQUALS, float("nan")), Guard(X, Kind.EQUALS, float("nan"))])) == 1
    )


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        (Guard(X, Kind.EQUALS, 1), Guard(X, Kind.TYPE, int)),
        (Guard(X, Kind.IS, None), Guard(X, Kind.TYPE, type(None))),
        (Guard(X, Kind.IS, None), Guard(X, Kind.EQUALS, None)),
        (Guard(X, Kind.IS, len), Guard(X, Kind.TYPE, type(len))),
        (Guard(X, Kind.TENSOR, TensorSpec.of(torch.ones(2))), Guard(X, Kind.TYPE, torch.Tensor)),
        (Guard(X, Kind.KEYS, ("a",)), Guard(X, Kind.LENGTH, 1)),
        (Guard(X, Kind.KEYS, ("a",)), Guard(X, Kind.PRESENT, "a")),
        (Guard(X, Kind.KEYS, ("a",)), Guard(X, Kind.ABSENT, "b")),
        (Guard(s.DictItem(X, "a"), Kind.IS, None), Guard(X, Kind.PRESENT, "a")),
    ],
)
def test_implied_guards_are_dropped(strong, weak):
    assert (
        GuardProgram.build([weak, strong]).guards
        == GuardProgram.build([strong, weak]).guards
        == (strong,)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Guard(X, Kind.EQUALS, 1), Guard(X, Kind.TYPE, bool)),
        (Guard(X, Kind.IS, Plain()), Guard(X, Kind.TYPE, Plain)),  # its __class__ can be assigned
        (Guard(X, Kind.IS, sys), Guard(X, Kind.TYPE, type(sys))),
        (Guard(X, Kind.KEYS, ("a",)), Guard(X, Kind.LENGTH, 2)),
        (Guard(X, Kind.KEYS, ("a",)), Guard(X, Kind.ABSENT, "a")),
        (Guard(X, Kind.EQUALS, 1), Guard(Y, Kind.TYPE, int)),
    ],
)
def test_what_is_not_implied_stays(one, other):
    assert set(kinds([one, other])) == {one.kind, other.kind}


def test_common_paths_are_loaded_once():
    deep = own(own(own(X, "a"), "b"), "c")
    program = GuardProgram.build(
        [Guard(own(deep, str(i)), Kind.EQUALS, i) for i in range(10)], [deep, X]
    )
    assert sum(isinstance(step, Load) for step in program.steps) == 4 + 10
    assert program.temps.count <= 4


def test_order():
    state = Guard(s.TorchStateSource(), Kind.TORCH_STATE, TorchState.now())
    slow = Guard(X, Kind.PYTHON, ("nice", bool))
    deep = Guard(own(own(Y, "a"), "b"), Kind.EQUALS, 1)
    tensor = Guard(X, Kind.TENSOR, TensorSpec.of(torch.ones(2)))
    cheap = Guard(Y, Kind.TYPE, Plain)
    assert GuardProgram.build([slow, deep, tensor, state, cheap]).guards == (
        state,
        cheap,
        tensor,
        deep,
        slow,
    )


def test_a_path_is_guarded_before_anything_walks_on():
    """The property must not run on an object of another class."""
    program = GuardProgram.build(
        [
            Guard(s.AttrSource(s.SequenceItem(X, 0), "imag"), Kind.EQUALS, 0),
            Guard(s.SequenceItem(X, 0), Kind.TYPE, int),
            Guard(s.TypeOf(s.SequenceItem(X, 0)), Kind.IS, int),
            Guard(X, Kind.TYPE, list),
        ]
    )
    assert [guard.source.name for guard in program.guards] == [
        "x",
        "x[0]",
        "type(x[0])",
        "x[0].imag",
    ]


def test_lifted_objects_in_order():
    thing = Plain()
    thing.a = [1, 2]
    program = GuardProgram.build(
        [Guard(Y, Kind.EQUALS, 5)], [own(X, "a"), Y, X, s.SequenceItem(own(X, "a"), 1)]
    )
    assert program.native().lifted((thing, 5), function) == ([1, 2], 5, thing, 2)
    assert program.native().lifted((thing, 6), function) is None
    assert program.native().lifted((5, 5), function) is None
    assert GuardProgram.build([]).native().lifted((), function) == ()


def test_no_function_no_globals():
    program = GuardProgram.build([Guard(s.GlobalsSource(), Kind.PRESENT, "x")]).native()
    with pytest.raises(TypeError):
        program.check((), None)
    with pytest.raises(TypeError):
        program.check([], function)


class Dropping:
    """Its attribute empties the list that other loads came from."""

    def __init__(self, victims):
        self.victims = victims

    @property
    def a(self):
        self.victims.clear()
        gc.collect()
        return 1

    def __eq__(self, other):
        self.victims.clear()
        return True

    __hash__ = None


def test_objects_loaded_before_python_runs_outlive_it():
    victims = [Plain()]
    victims[0].b = [float("1.5")]
    of = own(s.SequenceItem(X, 0), "b")
    program = GuardProgram.build(
        [Guard(s.AttrSource(Y, "a"), Kind.EQUALS, 1), Guard(of, Kind.LENGTH, 1)],
        [of, s.SequenceItem(of, 0)],
    )
    assert program.native().lifted((victims, Dropping(victims)), function) == ([1.5], 1.5)
    assert victims == []


def test_objects_that_drop_themselves_in_their_own_check():
    victims = []
    victims.append(Dropping(victims))
    item = s.SequenceItem(X, 0)
    assert (
        GuardProgram.build([Guard(s.AttrSource(item, "a"), Kind.EQUALS, 1)])
        .native()
        .check((victims,), function)
    )
    victims.append(Dropping(victims))
    assert (
        GuardProgram.build([Guard(item, Kind.EQUALS, Dropping([]))])
        .native()
        .check((victims,), function)
    )


def test_a_program_may_be_dropped_while_it_runs():
    holder = {}

    def drop(x):
        holder.clear()
        gc.collect()
        return True

    guards = [Guard(X, Kind.PYTHON, ("drops", drop)), Guard(X, Kind.EQUALS, 10**20)]
    holder["native"] = GuardProgram.build(guards).native()
    del drop, guards
    assert holder["native"].check((10**20,), function)
    assert not holder


def test_programs_are_collected_in_cycles():
    class Owner:
        pass

    owner = Owner()
    owner.program = GuardProgram.build([Guard(X, Kind.IS, owner)]).native()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_many_temps_go_to_the_heap():
    slots = [s.SlotSource(i, f"x{i}") for i in range(700)]
    program = GuardProgram.build([], slots)
    assert program.native().lifted(tuple(range(700)), function) == tuple(range(700))


@pytest.mark.parametrize(
    "steps",
    [
        (("NOPE", 0, (), False, None, 0),),
        (("SLOT", 5, (), False, None, 0),),
        (("IS", 0, (9,), False, None, 0),),
        (("SAME", 0, (0, -1), False, None, 0),),
        (("TENSOR", 0, (0,), False, None, 0),),
        (("TENSOR", 0, (0,), False, (int, 1, 2, 3, True, (1,), ()), 0),),
        (("DICT_ITEM", 0, (0,), False, [], 0),),
        ("SLOT",),
    ],
)
def test_malformed_steps_are_refused(steps):
    with pytest.raises((ValueError, TypeError)):
        _guards.Program(steps, (), 1)
    with pytest.raises(ValueError):
        _guards.Program((), (1,), 1)


def test_capsule():
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    assert get(_guards.api, b"framejit.guards.native._guards.api")


def test_failures_in_words():
    thing = Plain()
    thing.n = 4
    guards = [
        Guard(own(X, "n"), Kind.EQUALS, 4, "train.py:7"),
        Guard(X, Kind.TYPE, Plain),
        Guard(Y, Kind.TENSOR, TensorSpec.of(torch.ones(8, 3))),
    ]
    program = GuardProgram.build(guards)

    def words(*slots):
        frame = FrameView(slots, function)
        failure = program.failure(program.native().first_failure(slots, function), frame)
        return failure and str(failure)

    fine = torch.ones(8, 3)
    assert words(thing, fine) is None
    assert words(thing, torch.ones(4, 3)) == "y.size(0) is 4, was 8 when compiled"
    assert (
        words(thing, fine.double()) == "y.dtype is torch.float64, was torch.float32 when compiled"
    )
    assert words(thing, fine.t()) == "y.size(0) is 3, was 8 when compiled"
    assert words(3, fine) == "type(x) is int, was Plain when compiled"
    thing.n = 5
    assert words(thing, fine) == "x.n is 5, was 4 when compiled (train.py:7)"
    del thing.n
    assert words(thing, fine) == "x.n is gone, was 4 when compiled (train.py:7)"
    program = GuardProgram.build([Guard(s.InstanceDict(X), Kind.ALL_ABSENT, ("m", "p", "q"))])
    assert words(thing) is None
    thing.p = thing.q = 1
    assert words(thing) == "['p', 'q'] in x.__dict__ is True, was False when compiled"


LISTING = """\
|   0  t0 = slot(1)                                # y
|   1  check type(t0)                              # type(y) is Plain
|   2  t1 = slot(0)                                # x
|   3  check tensor(t1)                            # is_tensor(x, Tensor float32[8] on cpu, requires_grad, strides=[1])
|   4  check instance_absent(t0)                   # 'forward' not in y.__dict__
|   5  t1 = instance_item(t0, 'scale')             # y.scale
|   6  check equals(t1)                            # y.scale == 2.0  [model.py:12]
|   7  t1 = attr(t0, 'name')                       # y.name
|   8  check equals(t1)                            # y.name == 'net'
|   9  t0 = instance_item(t0, 'bias')              # y.bias
|      return t0                                   # y.bias"""


def test_printing():
    spec = TensorSpec.of(torch.ones(8, requires_grad=True))
    program = GuardProgram.build(
        [
            Guard(own(Y, "scale"), Kind.EQUALS, 2.0, "model.py:12"),
            Guard(Y, Kind.TYPE, Plain),
            Guard(X, Kind.TENSOR, spec),
            Guard(s.AttrSource(Y, "name"), Kind.EQUALS, "net"),
            Guard(s.InstanceDict(Y), Kind.ABSENT, "forward"),
        ],
        [own(Y, "bias")],
    )
    assert str(program).splitlines() == [line.removeprefix("|") for line in LISTING.split("\n")]
    assert program.expression() == (
        "type(y) is Plain and is_tensor(x, Tensor float32[8] on cpu, requires_grad, strides=[1])"
        " and 'forward' not in y.__dict__ and y.scale == 2.0 and y.name == 'net'"
    )
    assert GuardProgram.build([]).expression() == "True"


def test_more_items_of_an_iterator_than_fit_on_the_stack():
    items = [object() for _ in range(300)]
    guards = [Guard(s.IteratorItem(X, index), Kind.TYPE, object) for index in range(300)]
    program = GuardProgram.build(guards)
    for _ in range(3):
        assert program.native().check((iter(items),), function)
        assert not program.native().check((iter([*items[:-1], 1]),), function)
