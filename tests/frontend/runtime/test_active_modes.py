"""Function modes, hooks on saved tensors and others that watch every operation of a call see the
same as in eager."""

from __future__ import annotations

from typing import Any

import framejit
import pytest
import torch
from framejit import events
from functorch.compile import aot_function
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from ..semantics.harness import capture_events, check, strict_compile, vec

BACKENDS = ("eager", "native")


class Doubling(TorchFunctionMode):
    """Changes the result of one operation."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.add else result


class Noting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, 1).relu() * 3


def told(seen: list[Any]) -> set[str]:
    return {event.reason for event in seen if isinstance(event, events.Skipped)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a call without"])
@pytest.mark.parametrize("mode", [Doubling, Noting, Counting])
def test_a_mode_around_the_call(mode, before, backend):
    handle = strict_compile(program, backend=backend)
    if before:
        torch.testing.assert_close(handle(vec(2)), program(vec(2)))
    seen = capture_events(handle)
    noted, results = [], []
    x = vec(2)
    for callee in (program, handle, handle):
        with mode() as entered:
            results.append(callee(x))
        noted.append(getattr(entered, "seen", None))
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    assert noted[0] == noted[1] == noted[2]
    assert told(seen) == {f"the mode {mode.__qualname__} watches its operations"}
    torch.testing.assert_close(handle(x), program(x))


def test_a_mode_entered_inside():
    def f(x):
        y = x * 2
        with Noting() as mode, Doubling():
            y = torch.add(y, 1).relu()
        return torch.add(y, 1), mode.seen

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_a_mode_entered_in_a_loop_and_left_by_an_exception():
    def f(x):
        seen = []
        for turn in range(3):
            try:
                with Noting() as mode:
                    x = torch.add(x, turn)
                    if turn == 1:
                        raise ValueError
            except ValueError:
                x = x * 2
            seen += mode.seen
            x = x + 1
        return x, seen

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_the_mode_of_a_default_device_is_not_watching():
    handle = strict_compile(program, backend="eager")
    seen = capture_events(handle)
    with torch.device("cpu"):
        handle(vec(2))
    assert [event for event in seen if isinstance(event, events.Captured)] and not told(seen)


def trained(callee: Any, log: list[Any]) -> torch.Tensor:
    """The gradient, where hooks change what was saved."""
    x = vec(3, grad=True)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        log.append(("pack", tuple(tensor.shape)))
        return tensor * 2

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        log.append(("unpack", tuple(tensor.shape)))
        return tensor + 1

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = callee(x)
    y.sum().backward()
    assert x.grad is not None
    return x.grad


def curve(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sin() * x.exp()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a call without"])
def test_hooks_on_saved_tensors_around_the_call(before, backend):
    handle = strict_compile(curve, backend=backend)
    if before:
        handle(vec(3, grad=True))
    seen = capture_events(handle)
    eager, compiled, again = [], [], []
    expected = trained(curve, eager)
    assert torch.equal(trained(handle, compiled), expected) and torch.equal(
        trained(handle, again), expected
    )
    assert compiled == again == eager
    assert told(seen) == {"hooks of the program's watch what autograd saves"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_on_saved_tensors_inside_the_call(backend):
    def f(x):
        log = []
        x = x * 2
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (log.append("pack"), t * 2)[1], lambda t: (log.append("unpack"), t)[1]
        ):
            y = curve(x)
        return y + x, log

    results = []
    for callee in (f, strict_compile(f, backend=backend)):
        x = vec(3, grad=True)
        y, log = callee(x)
        y.sum().backward()
        results.append((y.detach(), x.grad, log))
    torch.testing.assert_close(results[1][:2], results[0][:2])
    assert results[1][2] == results[0][2]


@pytest.mark.parametrize("around", [
    lambda f, x: checkpoint(f, x, use_reentrant=False), lambda f, x: save_on_cpu(f, x),
], ids=["checkpoint", "save_on_cpu"])  # fmt: skip
def test_torchs_own_hooks_leave_it_compiled(around):
    handle = strict_compile(curve, backend="native")
    seen = capture_events(handle)
    gradients = []
    for callee in (curve, handle, handle):
        x = vec(3, grad=True)
        around(callee, x).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1:], gradients[:1] * 2)
    captured = [event for event in seen if isinstance(event, events.Captured)]
    assert 1 <= len(captured) <= 2 and not told(
        seen
    )  # some torches have other dispatch keys in the backward pass


def save_on_cpu(f: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.save_on_cpu():
        return f(x)


def layer() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(2, 2)


def traced_by_fx(handle, x):
    return make_fx(handle)(x)


def traced_on_fakes(handle, x):
    return make_fx(handle, tracing_mode="fake")(x)


def traced_with_symbols(handle, x):
    return make_fx(handle, tracing_mode="symbolic")(x)


def traced_before_dispatch(handle, x):
    return make_fx(handle, pre_dispatch=True)(x)


def traced_functionally(handle, x):
    return make_fx(torch.func.functionalize(handle))(x)


def traced_by_jit(handle, x):
    return torch.jit.trace(handle, (x,))


def traced_by_aot(handle, x):
    return aot_function(handle, fw_compiler=lambda graph, inputs: graph)


class Around(torch.nn.Module):
    def __init__(self, target: Any) -> None:
        super().__init__()
        self.target = target

    def forward(self, x):
        return self.target(x)


def traced_symbolically(handle, x):
    return torch.fx.symbolic_trace(Around(handle))


def exported(handle, x):
    return torch.export.export(Around(handle), (x,)).module()


TRACERS = (
    traced_by_fx, traced_on_fakes, traced_with_symbols, traced_before_dispatch, traced_functionally, traced_by_jit, traced_by_aot,
    traced_symbolically, exported,
)  # fmt: skip


@pytest.mark.sweep(7, each=("trace", "make", "calls", "backend"))
@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("backend", [*BACKENDS, "aot_eager"])
@pytest.mark.parametrize("calls", [0, 1, 2], ids=["cold", "warm", "warm with symbols"])
@pytest.mark.parametrize("make", [lambda: program, layer], ids=["function", "module"])
@pytest.mark.parametrize("trace", TRACERS)
def test_a_tracer_records_the_operations(trace, make, calls, backend):
    target = make()
    if isinstance(target, torch.nn.Module) and trace in (
        traced_by_aot,
        traced_on_fakes,
        traced_with_symbols,
    ):  # not for parameters
        trace = traced_by_fx
    expected = make()
    compiled = framejit.compile(target, backend=backend)
    with torch.no_grad():
        for rows in range(2, 2 + calls):
            torch.testing.assert_close(compiled(torch.ones(rows, 2)), expected(torch.ones(rows, 2)))
        x, y = torch.randn(2, 2), torch.randn(2, 2)
        found = trace(compiled, x)
        torch.testing.assert_close(found(y), expected(y))
        torch.testing.assert_close(found(x), expected(x))
        torch.testing.assert_close(compiled(y), expected(y))
