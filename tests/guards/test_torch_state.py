"""TORCH_STATE: every mode of torch shows, with and without fingerprints."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch
from framejit.guards.guard import Guard, Kind, TorchState
from framejit.guards.native import fingerprint
from framejit.guards.program import GuardProgram
from framejit.guards.source import TorchStateSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class OtherFunctions(Functions):
    pass


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextmanager
def setting(set_, get, value):
    before = get()
    set_(value)
    try:
        yield
    finally:
        set_(before)


@contextmanager
def deterministic(**how):
    torch.use_deterministic_algorithms(True, **how)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def fill():
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


@contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast, float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "autocast dtype": lambda: setting(
        lambda dtype: torch.set_autocast_dtype("cpu", dtype),
        lambda: torch.get_autocast_dtype("cpu"),
        torch.float16,
    ),
    "autocast dtype of cuda": lambda: setting(
        lambda dtype: torch.set_autocast_dtype("cuda", dtype),
        lambda: torch.get_autocast_dtype("cuda"),
        torch.bfloat16,
    ),
    "default dtype": lambda: setting(
        torch.set_default_dtype, torch.get_default_dtype, torch.float64
    ),
    "default device": lambda: default_device("meta"),
    "default device cpu": lambda: default_device("cpu"),
    "deterministic": deterministic,
    "deterministic, warn": lambda: deterministic(warn_only=True),
    "fill uninitialized": fill,
    "function mode": Functions,
    "other function mode": OtherFunctions,
    "dispatch mode": Dispatch,
    "fake": FakeTensorMode,
    "no subclasses": torch._C.DisableTorchFunctionSubclass,
    "no functions": torch._C.DisableTorchFunction,
}


# With no function mode on the stack these mean the same.
ALIKE = {"no subclasses": "no functions", "no functions": "no subclasses"}


@pytest.fixture(params=[True, False], ids=["fingerprints", "python"], autouse=True)
def fingerprints(request):
    if request.param:
        assert fingerprint.calibrate(), (
            "this torch hides a mode from the fingerprint: the check will be slow"
        )
    fingerprint.force(request.param)
    yield request.param
    fingerprint.force(True)


def guard():
    return Guard(TorchStateSource(), Kind.TORCH_STATE, TorchState.now())


@pytest.mark.parametrize("name", MODES)
def test_each_mode_holds_alone(name, holds):
    plain = guard()
    with MODES[name]():
        inside = guard()
        assert holds(inside) and not holds(plain)
        inside_native = GuardProgram.build([inside]).native()
        for _ in range(3):
            assert inside_native.check((), setting)
    for _ in range(3):
        assert holds(plain) and not holds(inside) and not inside_native.check((), setting)
    for other in MODES.keys() - {name, ALIKE.get(name)}:
        with MODES[other]():
            assert not holds(inside) and not inside_native.check((), setting), other
    with MODES[name]():
        assert holds(inside) and inside_native.check((), setting)


def test_memory_of_one_program_over_all_modes():
    """What it remembers of one mode must not answer for another."""
    programs, states = {}, {"plain": torch.enable_grad, **MODES}
    for name, mode in states.items():
        with mode():
            programs[name] = GuardProgram.build([guard()]).native()
    for _ in range(2):
        for name, mode in states.items():
            with mode():
                holding = {other for other in programs if programs[other].check((), setting)}
                assert holding == {name, ALIKE.get(name, name)}


def test_nested_function_modes_of_equal_count(holds):
    with Functions():
        ours = guard()
    program = GuardProgram.build([ours]).native()
    for mode in (Functions, OtherFunctions, lambda: torch.device("cpu"), Functions):
        with mode():
            assert program.check((), setting) is (mode is Functions)


def test_vmap_and_functionalize(holds):
    plain = guard()
    seen = []

    def inner(x):
        seen.append(holds(plain))
        return x

    torch.vmap(inner)(torch.ones(3))
    torch.func.functionalize(inner)(torch.ones(3))
    torch.func.grad(lambda x: inner(x).sum())(torch.ones(3))
    assert seen == [False, False, False]


def test_each_thread_has_its_own(holds):
    program = GuardProgram.build([guard()]).native()
    answers = []

    def other():
        answers.append(program.check((), setting))
        with torch.no_grad():
            answers.append(program.check((), setting))
        answers.append(program.check((), setting))

    with torch.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not program.check((), setting)
    assert answers == [True, False, True]
    assert program.check((), setting)


def test_modes_show_under_hooks_on_saved_tensors_too(fingerprints):
    """A compile may be the first to ask, and has such hooks of its own on the stack."""
    if fingerprints:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            assert all(map(fingerprint.shows, fingerprint.TRIALS))


def test_hooks_of_the_programs_and_torchs_own():
    state = TorchState.now()
    with torch.autograd.graph.save_on_cpu():
        assert state.holds()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert not state.holds()


def test_a_key_without_a_backend_changes_nothing():
    program = GuardProgram.build([Guard(TorchStateSource(), Kind.TORCH_STATE, TorchState.now())])
    dense = torch._C.DispatchKey.Dense
    torch._C._dispatch_tls_set_dispatch_key_included(dense, True)
    try:
        assert program.native().check((), lambda: None)
        assert TorchState.now() == program.guards[0].expected
    finally:
        torch._C._dispatch_tls_set_dispatch_key_included(dense, False)
