"""Random programs over tensors that share memory: the part that runs each time. aliasing.py is the
long run."""

from __future__ import annotations

import sys
import warnings
from random import Random

import framejit
import pytest
import torch

from ... import sweep_slice
from . import aliasing

PROGRAMS = sweep_slice.few_of(30, 150)
BACKENDS = {
    "eager": 1.0,
    "aot_eager": 0.5,
    "native": 0.3,
    "torchscript": 0.5,
    "tuned": 0.2,
}  # and the share of the programs
OTHERS = 10**6 * sys.version_info.minor  # each Python has programs of its own


@pytest.mark.parametrize("backend", BACKENDS)
def test_programs_over_shared_memory_do_compiled_what_they_do_in_eager(backend):
    overlapping = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in PROGRAMS[: int(len(PROGRAMS) * BACKENDS[backend])]:
            seed = OTHERS + number
            program, found = aliasing.one(seed, backend)
            assert found is None, f"seed {seed}: {found}\n{program}"
            overlapping += any(
                pattern in ("near", "same", "detached") for pattern, _ in program.calls
            )
    assert overlapping > 0


def test_a_wrong_backend_is_found():
    """Copies of its inputs instead of these: what they share is lost."""

    def copies(gm, examples):
        return lambda *args: gm.forward(*(arg.detach().clone() for arg in args))

    framejit.register_backend("copies_inputs", copies, overlaps=True)
    found = [aliasing.one(seed, "copies_inputs")[1] for seed in range(20)]
    assert sum(one is not None for one in found) > 5


def test_patterns_are_what_they_are_called():
    program = aliasing.Program("", ["rows", "rows"], aliasing.DTYPES[0], "inference", False)
    for pattern in aliasing.PATTERNS:
        one, other = aliasing.Inputs(program, pattern, 3).views
        share = {number.data_ptr() for number in one.flatten().unbind()} & {
            number.data_ptr() for number in other.flatten().unbind()
        }
        assert (one is other) is (pattern == "one object")
        if pattern in ("separate", "disjoint"):
            assert not share
        if pattern in ("same", "one object", "other storage", "detached"):
            assert share, pattern
    assert aliasing.write(Random(1)) == aliasing.write(Random(1))


@pytest.mark.parametrize("pattern", ["one object", "same", "disjoint"])
@pytest.mark.parametrize("mode", ["inference", "leaves"])
def test_modules_hold_parameters_and_buffers_some_of_them_tied(pattern, mode):
    program = aliasing.Program("", ["row", "row"], aliasing.DTYPES[0], mode, True, by_module=True)
    inputs = aliasing.Inputs(program, pattern, 3)
    (module,) = program.arguments(inputs.views)
    tied = pattern == "one object"
    assert [name for name, _ in module.named_parameters(remove_duplicate=False)] == (
        ["a", "b"] if tied else ["a"]
    )
    assert (
        (module.a is module.b) is tied
        and module.a is inputs.views[0]
        and module.a.requires_grad is (mode == "leaves")
    )
    module.a.data.fill_(9)
    assert bool((module.b == 9).all()) is (pattern != "disjoint")


def test_some_programs_are_of_modules():
    made = [aliasing.write(Random(seed)) for seed in range(60)]
    assert {(program.by_attribute, program.by_module) for program in made} == {
        (False, False),
        (True, False),
        (True, True),
    }


STALE = """def program(a, b):
    v2 = b.detach().clone()
    v3 = v2[1:]
    v2.mul_(a)
    print(end='')
    v3.add_(1)
    return v2,
"""
REFUSED = """def program(a, b):
    print(end='')
    a.add_(b)
    return torch.add(a, b, out=b),
"""


@pytest.mark.parametrize(("source", "raises"), [(STALE, False), (REFUSED, True)])
def test_only_the_error_that_a_look_at_the_history_takes_away_is_no_difference(source, raises):
    """Eager raises in both. Of the first, that depends on whether anything has asked a view for its
    history."""
    program = aliasing.Program(source, ["row", "row"], aliasing.DTYPES[0], "history", False)
    seen = aliasing.function_of(program.looking().source, "<looking>")
    assert (
        aliasing.outcome(aliasing.function_of(source, "<plain>"), program, "separate", 3).error
        == "RuntimeError"
    )
    assert (aliasing.outcome(seen, program, "separate", 3).error == "RuntimeError") is raises
    program.calls = [("separate", 3)]
    assert aliasing.examine(program, "eager") is None


SHARED = """def program(m):
    a = m.a
    b = m.b
    v2 = a.chunk(2, -1)[1]
    with torch.no_grad(): b.mul_(3)
    return a, b, {read},
"""


@pytest.mark.parametrize("read", ["v2.sum()", "v2"])
@pytest.mark.parametrize("pattern", ["disjoint", "same"])
def test_only_the_error_of_a_shared_version_counter_is_no_difference(read, pattern):
    """Of inputs that share no element, eager takes the write into one for a write into the other:
    they share a version counter."""
    source = SHARED.format(read=read)
    program = aliasing.Program(
        source, ["cube", "cube"], aliasing.DTYPES[0], "leaves", True, by_module=True
    )
    function = aliasing.function_of(source, "<plain>")
    _, *alone = program.alternatives(pattern, 3)
    assert len(alone) == (pattern == "disjoint")
    plain, *apart = (aliasing.outcome(function, one, pattern, 3) for one in (program, *alone))
    assert plain.error == "RuntimeError" or plain.gradients is None
    assert all(plain.refuses_more_than(one) for one in apart)


UNREAD = """def program(m):
    a = m.a
    b = m.b
    v2 = a.t()
    v3 = a.chunk(2)[0]
    with torch.no_grad(): b.unsqueeze_(0)
    v4 = v2 + 2
    v5 = v3.view_as(v3)
    return a, b, v4.view(torch.int32),
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_an_unread_view_of_several_whose_base_was_written_raises(backend):
    calls = [("any", 34471), ("one object", 531)]
    program = aliasing.Program(
        UNREAD, ["columns", "number"], torch.float32, "leaves", True, calls, by_module=True
    )
    assert aliasing.examine(program, backend) is None


def test_bits_of_floats_that_are_no_number_are_not_compared_and_all_others_are():
    def negates(gm, examples):
        return lambda *args: [
            item ^ -(2**31) if item.dtype is torch.int32 else item for item in gm.forward(*args)
        ]

    framejit.register_backend("negates_bits", negates, overlaps=True)
    source = "def program(a, b):\n    c = a * {factor}\n    return c, c.view(torch.int32) + 0,\n"
    for factor, differs in (("float('nan')", False), ("2", True)):
        program = aliasing.Program(
            source.format(factor=factor),
            ["row", "row"],
            torch.float32,
            "inference",
            False,
            [("separate", 3)],
        )
        assert (aliasing.examine(program, "negates_bits") is not None) is differs
