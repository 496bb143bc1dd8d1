"""torch's modes: as managers, decorators and functions; with breaks, exceptions and returns
inside."""

from __future__ import annotations

import contextlib

import framejit
import pytest
import torch

from .harness import check, strict_compile, vec


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_manager(name):
    make = getattr(torch, name)

    def f(x, p):
        with make():
            y = x * p
        z = x + p
        return y, z

    check(f, vec(2), vec(2, grad=True))


@pytest.mark.parametrize("enabled", [True, False])
def test_set_grad_enabled_as_manager(enabled):
    def f(x, p):
        with torch.set_grad_enabled(enabled):
            y = x * p
            with torch.set_grad_enabled(not enabled):
                z = y * p
            w = z + p
        return y, z, w, torch.is_grad_enabled()

    check(f, vec(2), vec(2, grad=True))


@pytest.mark.parametrize("enabled", [True, False])
def test_set_grad_enabled_around_a_break(enabled):
    def f(x, p):
        with torch.set_grad_enabled(enabled):
            y = x * p
            print(end="")
            z = y * p
        return y, z, torch.is_grad_enabled()

    check(f, vec(2), vec(2, grad=True), graphs=2, breaks=("output",))


@pytest.mark.parametrize("enabled", [True, False])
def test_set_grad_enabled_made_before_a_break(enabled):
    def f(x, p):
        manager = torch.set_grad_enabled(enabled)
        print(end="")
        with manager:
            y = x * p
        return y, torch.is_grad_enabled()

    check(f, vec(2), vec(2, grad=True), breaks=("output",))


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("outside", [True, False])
def test_existing_set_grad_enabled_restores_the_mode_that_it_found_when_made(enabled, outside):
    def f(x, p, manager):
        with manager:
            y = x * p
        return y, torch.is_grad_enabled(), manager.prev

    def found(function):
        try:
            torch.set_grad_enabled(outside)
            manager = torch.set_grad_enabled(enabled)
            y, *modes = function(vec(2), vec(2, grad=True), manager)
            return y.requires_grad, *modes, torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)

    compiled = strict_compile(f)
    for _ in range(2):
        assert found(compiled) == found(f)


def test_set_grad_enabled_as_function():
    def f(x, p):
        torch.set_grad_enabled(False)
        y = x * p
        torch.set_grad_enabled(True)
        return y, x * p

    check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None)


def test_set_grad_enabled_left_behind():
    def f(x, p):
        torch.set_grad_enabled(False)
        return x * p

    try:
        check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None, again=False)
    finally:
        torch.set_grad_enabled(True)


def test_decorators():
    @torch.no_grad()
    def quiet(x, p):
        return x * p

    @torch.inference_mode()
    def frozen(x, p):
        return x * p

    @torch.no_grad
    def bare(x, p):
        return x * p

    def f(x, p):
        return quiet(x, p), bare(x, p), x * p, frozen(x, p)

    check(f, vec(2), vec(2, grad=True))


def test_decorated_function_compiled():
    @torch.no_grad()
    def f(x, p):
        return x * p

    check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None)


def test_nested_modes():
    def f(x, p):
        with torch.no_grad():
            a = x * p
            with torch.enable_grad():
                b = x * p
            c = b + p
        return a, b, c

    check(f, vec(2), vec(2, grad=True))


def test_several_managers_in_one_with():
    def f(x, p):
        with (
            torch.no_grad(),
            torch.autocast("cpu", dtype=torch.bfloat16),
            contextlib.nullcontext(3) as n,
        ):
            y = x @ p * n
        return y

    check(f, vec(2, 2), vec(2, 2, grad=True))


def test_autocast():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            with torch.autocast("cpu", enabled=False):
                z = x @ w
        return y, z, x @ w, torch.is_autocast_enabled("cpu")

    check(f, vec(2, 2), vec(2, 2))


def test_break_inside_no_grad():
    def f(x, p):
        with torch.no_grad():
            y = x * p
            print("in", torch.is_grad_enabled())
            z = y + p
        return y, z, z * p

    check(f, vec(2), vec(2, grad=True), graphs=2, breaks=("output",))


def test_break_inside_autocast():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            print("in", torch.is_autocast_enabled("cpu"))
            z = x @ w
        return y, z, x @ w

    check(f, vec(2, 2), vec(2, 2), graphs=2, breaks=("output",))


def test_break_inside_inference_mode():
    def f(x, w):
        with torch.inference_mode():
            y = x @ w
            print("in", torch.is_inference_mode_enabled())
            z = x @ w
        return y, z, x @ w

    check(f, vec(2, 2), vec(2, 2), graphs=2, breaks=("output",))


def test_break_inside_nested_modes():
    def f(x, p):
        with torch.no_grad():
            with torch.enable_grad():
                y = x * p
                print("a", torch.is_grad_enabled())
            print("b", torch.is_grad_enabled())
            z = x * p
        return y, z

    check(f, vec(2), vec(2, grad=True), graphs=2, breaks=("output", "output"))


def test_exception_through_a_mode_caught():
    def f(x, p):
        try:
            with torch.no_grad():
                y = x * p
                raise ValueError("v")
        except ValueError:
            z = x * p
        return y, z, torch.is_grad_enabled()

    check(f, vec(2), vec(2, grad=True))


def test_exception_through_a_mode_leaves():
    def f(x, p):
        with torch.no_grad():
            y = x * p
            raise ValueError(y.shape)

    check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None)


def test_exception_through_a_mode_from_a_break():
    def fails():
        raise KeyError("k")

    def f(x, p, g):
        try:
            with torch.no_grad():
                y = x * p
                g()
        except KeyError:
            return y, x * p

    from framejit import disable

    check(f, vec(2), vec(2, grad=True), disable(fails), graphs=2, breaks=None)


def test_return_inside_a_mode():
    def f(x, p):
        with torch.no_grad():
            return x * p

    check(f, vec(2), vec(2, grad=True))


def test_return_inside_a_mode_after_a_break():
    def f(x, p):
        with torch.no_grad():
            y = x * p
            print("p")
            return y + p

    check(f, vec(2), vec(2, grad=True), graphs=2, breaks=("output",))


def test_loop_with_a_mode_and_a_break():
    def f(x, p):
        out = []
        for i in range(3):
            with torch.no_grad():
                out.append(x * p)
                print(i)
                out.append(x + p)
            out.append(x * p)
        return out

    # the number is only printed, so the code behind the break serves each turn but the last
    check(f, vec(2), vec(2, grad=True), graphs=3, breaks=2)


def test_mode_of_the_caller():
    from .harness import strict_compile

    def f(x, p):
        return x * p, torch.is_grad_enabled()

    g, p = strict_compile(f), vec(2, grad=True)
    assert g(vec(2), p)[0].requires_grad
    with torch.no_grad():
        y, on = g(vec(2), p)
        assert not y.requires_grad and not on
    with torch.inference_mode():
        y, on = g(vec(2), p)
        assert y.is_inference()
    y, on = g(vec(2), p)
    assert y.requires_grad and on


def test_autocast_of_the_caller():
    from .harness import strict_compile

    def f(x, w):
        return x @ w

    g, w = strict_compile(f), vec(2, 2)
    assert g(w, w).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert g(w, w).dtype == torch.bfloat16
    assert g(w, w).dtype == torch.float32


def test_generator_based_manager():
    @contextlib.contextmanager
    def scope(log):
        log.append("in")
        try:
            yield 5
        finally:
            log.append("out")

    def f(x, log):
        with scope(log) as k:
            y = x * k
        return y

    check(f, vec(2), [], graphs=None, breaks=None)


def test_mode_object_made_outside():
    quiet = torch.no_grad()

    def f(x, p):
        with quiet:
            y = x * p
        return y, x * p

    check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None)


def test_suppress_and_exit_stack():
    def f(x):
        with contextlib.suppress(KeyError):
            x = x + 1
            {}["k"]  # noqa: B018
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            x = x * 2
        return x

    check(f, vec(2), graphs=None, breaks=None)


def test_mode_in_a_callee_with_a_break():
    def inner(x, p):
        with torch.no_grad():
            y = x * p
            print("inner")
            return y + p

    def f(x, p):
        y = inner(x, p)
        return y, x * p

    check(f, vec(2), vec(2, grad=True), graphs=None, breaks=None)


def test_user_manager_with_a_break_inside():
    class Scope:
        def __init__(self):
            self.log = []

        def __enter__(self):
            self.log.append("in")
            return self

        def __exit__(self, *exc):
            self.log.append("out")

    def f(x, s):
        with s:
            y = x + 1
            print(s.log)
            z = y * 2
        print(s.log)
        return z

    check(f, vec(2), Scope(), graphs=None, breaks=None)


def test_ranges_of_the_profiler():
    @torch.profiler.record_function("whole")
    def f(x):
        with torch.profiler.record_function("range") as entered:
            y = x.sin()
        return y, type(entered).__name__, entered.name

    check(f, vec(2))


def test_a_break_inside_a_range():
    def f(x):
        with torch.profiler.record_function("range"):
            y = x.sin()
            print("inside")
            y = y.cos()
        return y

    check(f, vec(2), graphs=2, breaks=None)


def test_a_range_while_the_profiler_runs():
    def f(x):
        with torch.profiler.record_function("mine"):
            return x.sin() + 1

    compiled = strict_compile(f)
    compiled(vec(2))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        wanted = compiled(vec(2))
    assert "mine" in {event.name for event in profiler.events()}
    assert torch.equal(wanted, f(vec(2)))


def test_without_dispatch_to_subclasses():
    def f(x, breaks):
        with torch._C.DisableTorchFunctionSubclass():
            y = x.sin()
            if breaks:
                print("inside")
        return y.cos()

    check(f, vec(2), False)
    check(f, vec(2), True, graphs=None, breaks=None)


def test_torch_compile_is_asked_for_a_break():
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    check(f, vec(2))


def test_an_exception_through_a_generators_manager_stays_what_it_is():
    @contextlib.contextmanager
    def logged(log):
        try:
            yield log
        except ValueError as error:
            log.append(error.args)
            raise
        finally:
            log.append("out")

    def f(x, log):
        try:
            with logged(log):
                raise ValueError(3, x.dim())
        except ValueError as error:
            log.append((str(error), error.args))
        return x + 1

    check(f, vec(2), [])


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
    )


def inference_left_behind_a_break(x):
    with torch.inference_mode():
        y = x.sin()
        print("in it")
        y = y.cos()
    return y, x * 2, modes()


def inference_around_others(x):
    with torch.inference_mode():
        with torch.enable_grad():
            print("with gradients")
            y = x.sin()
        first = modes()
        with torch.inference_mode(False):
            print("out of it")
            second = modes()
    print("outside")
    return y, first, second, x * 2, modes()


def switched_inside_inference(x):
    with torch.inference_mode():
        torch.set_grad_enabled(True)
        print("in it")
        inside = modes()
    return x * 2, inside, modes()


def switched_inside_no_grad(x):
    with torch.no_grad():
        y = x.sin()
        torch.set_grad_enabled(True)
        print("in it")
        y = y * x
    return y, x * 2, modes()


def switched_inside_autocast(x):
    with torch.autocast("cpu"):
        torch.set_grad_enabled(False)
        with torch.no_grad():
            print("in it")
        y = x * x
    return y, x * 2, modes()


@pytest.mark.parametrize("outer", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "fn", [inference_left_behind_a_break, inference_around_others, switched_inside_inference, switched_inside_no_grad, switched_inside_autocast]
)  # fmt: skip
def test_grad_mode_behind_managers_that_change_it(fn, outer):
    def seen(f):
        x = vec().requires_grad_()
        with outer():
            results = f(x)
            found = modes()
        torch.set_grad_enabled(True)
        return [
            (item.requires_grad, item.is_inference()) if isinstance(item, torch.Tensor) else item
            for item in results
        ], found

    assert seen(strict_compile(fn)) == seen(fn)


@pytest.mark.parametrize(
    "make",
    [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")],
    ids=["no_grad", "inference", "autocast"],
)
def test_a_manager_that_the_frame_leaves_open(make):
    def fn(x):
        manager = make()
        manager.__enter__()
        return manager, x * 2

    def seen(f):
        manager, y = f(vec().requires_grad_())
        inside = modes()
        manager.__exit__(None, None, None)
        return inside, y.requires_grad, modes()

    assert seen(strict_compile(fn)) == seen(fn)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("catches", [True, False])
def test_a_graph_that_raises_leaves_no_mode_on(catches, backend):
    def fn(x, index):
        with torch.no_grad(), torch.inference_mode(), torch.autocast("cpu"):
            try:
                return (x @ x)[index].cos(), modes()
            except IndexError:
                if catches:
                    return x @ x, modes()
                raise

    def seen(f):
        try:
            y, inside = f(torch.eye(3), torch.tensor([5]))
        except IndexError:
            return modes(), torch.is_autocast_cache_enabled()
        return y.dtype, inside, modes()

    compiled = framejit.compile(fn, backend=backend)
    compiled(torch.eye(3), torch.tensor([1]))
    before = modes()
    assert seen(compiled) == seen(fn) and modes() == before


def stacked(x, *managers):
    with contextlib.ExitStack() as stack:
        entered = [stack.enter_context(manager) for manager in managers]
        y = x @ x.t()
    return y, y.dtype, y.requires_grad, torch.is_grad_enabled(), entered, (x @ x.t()).dtype


def stacked_with_a_break(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        y = x.sin()
        print("inside")
        z = x.cos()
    return y * x, z.requires_grad, torch.is_grad_enabled()


def stacked_and_raised(x):
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            y = x.sin()
            raise ValueError("inside")
    except ValueError as error:
        return y * x, str(error), torch.is_grad_enabled()


def autocast_that_is_named(x):
    with torch.autocast("cpu", torch.bfloat16) as entered:
        y = x @ x
    return type(entered), y.dtype, x * 2


def closed_later(x):
    stack = contextlib.ExitStack()
    stack.enter_context(torch.set_grad_enabled(False))
    y = x.sin()
    stack.close()
    return y, y.requires_grad, x * 2


STACKED = {
    "no_grad": (lambda x: (stacked(x, torch.no_grad()), x * 2), 1, ()),
    "autocast": (lambda x: stacked(x, torch.autocast("cpu", torch.bfloat16))[:4], 1, ()),
    "several": (
        lambda x: stacked(x, contextlib.nullcontext(3), torch.no_grad(), torch.enable_grad()),
        1,
        (),
    ),
    "nothing": (lambda x: stacked(x), 1, ()),
    "break": (stacked_with_a_break, 2, ("output",)),
    "raised": (stacked_and_raised, 1, ()),
    "closed": (closed_later, 1, ()),
    "named": (autocast_that_is_named, 1, ()),
}


@pytest.mark.parametrize("name", STACKED)
def test_exit_stacks_of_modes(name):
    f, graphs, breaks = STACKED[name]
    check(f, vec(2, 2, grad=True), graphs=graphs, breaks=breaks, backward=True)


def of_ones(x, device):
    with device:
        y = torch.ones(2)
    return y.device, torch.ones(2).device, x + 1


def of_ones_with_a_break(x, device):
    with torch.no_grad(), device:
        y = torch.ones(2)
        print("inside")
        z = torch.zeros(3)
    return y.device, z.device, torch.ones(2).device, x + 1


def of_ones_that_raise(x, device):
    try:
        with device:
            y = torch.ones(2)
            raise ValueError
    except ValueError:
        return y.device, torch.ones(2).device, x + 1


def of_ones_in_turns(x, device):
    made = []
    for turn in range(2):
        with device if turn else torch.device("cpu"):
            made.append(torch.ones(turn).device)
    return made, torch.ones(2).device, x + 1


@pytest.mark.parametrize(
    "function", [of_ones, of_ones_with_a_break, of_ones_that_raise, of_ones_in_turns]
)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_device_as_manager(function, backend):
    call = framejit.compile(function, backend=backend)
    x, device = vec(2), torch.device("meta")
    for _ in range(3):
        *devices, y = call(x, device)
        *wanted, z = function(x, device)
        assert devices == wanted and torch.equal(y, z)
        assert torch._C._len_torch_function_stack() == 0
