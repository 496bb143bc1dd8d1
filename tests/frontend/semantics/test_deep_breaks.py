"""Breaks in functions that the compiled one calls: what was captured in every frame of the chain is
kept, and capture goes on in the innermost frame."""

from __future__ import annotations

import array
import functools
import sys

import framejit
import pytest
import torch

from .harness import capture_events, check, strict_compile, vec


@framejit.disable
def outside(x, log=None):
    if log is not None:
        log.append("outside")
    return x * 10


@framejit.disable
def fails(x):
    raise KeyError("inside")


@framejit.disable
def stack_of_names():
    frame, found = sys._getframe(1), []
    while frame.f_code.co_name != "one_call":
        found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def test_print_three_calls_deep_makes_two_graphs():
    def c(x, log):
        y = x + 1
        log.append("c1")
        print("deep")
        log.append("c2")
        return y * 2

    def b(x, log):
        y = x * 3
        log.append("b1")
        r = c(y, log)
        log.append("b2")
        return r - 1

    def a(x, log):
        log.append("a1")
        r = b(x + 2, log)
        log.append("a2")
        return r / 2

    def f(x, log):
        y = a(x * 5, log)
        return y + 7

    check(f, vec(2), [], graphs=2, breaks=("output",), ran=8)


def test_several_breaks_at_several_depths():
    def c(x):
        print("c1")
        y = x + 1
        print("c2")
        return y

    def b(x):
        y = c(x * 2)
        print("b")
        return c(y) + 1

    def f(x):
        y = b(x - 1)
        print("f")
        return b(y) * 3

    check(f, vec(2), graphs=8, breaks=11, ran=10)


def test_loops_in_every_frame():
    def c(x, n):
        for i in range(n):
            x = x + i
            print("c", i)
            x = x * 2
        return x

    def b(x, log):
        for i in range(2):
            log.append(i)
            x = c(x, i + 1) - 1
        return x

    def f(x, log):
        for _ in range(2):
            x = b(x, log) + 3
        return x

    check(f, vec(2), [], graphs=None, breaks=None, ran=12 + 4 + 2)


def test_exception_caught_at_every_level():
    def c(x, log):
        try:
            log.append("c")
            fails(x)
        except ValueError:
            log.append("never")
        finally:
            log.append("finally")
        return x

    def b(x, log):
        y = x + 1
        try:
            return c(y, log)
        except KeyError as error:
            log.append(error.args)
            y = y * 2
            outside(1, log)
            return y

    def f(x, log):
        y = b(x - 1, log)
        try:
            c(y, log)
        except KeyError:
            y = y + 5
        return y

    check(f, vec(2), [], graphs=None, breaks=None)


def test_exception_leaves_through_every_frame():
    def c(x):
        y = x + 1
        fails(y)
        return y

    def b(x):
        y = x * 2
        return c(y) + 1

    def f(x):
        y = b(x - 1)
        return y

    check(f, vec(2), graphs=1, breaks=1)


def test_exception_raised_deep_after_a_break():
    def c(x):
        print("c")
        y = x + 1
        raise ValueError(y.shape)

    def b(x):
        try:
            return c(x * 2)
        except ValueError as error:
            raise KeyError("translated") from error

    def f(x):
        return b(x - 1) + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_break_inside_handlers_of_several_frames():
    def c(x, log):
        try:
            fails(x)
        except KeyError as error:
            log.append(repr(sys.exc_info()[1]))
            print("c handles", error)
            log.append(repr(sys.exc_info()[1]))
            return x + 1

    def b(x, log):
        try:
            fails(x)
        except KeyError:
            y = c(x * 2, log)
            log.append(sys.exc_info()[0].__name__)
            try:
                raise
            except KeyError as again:
                log.append(again.args)
            return y

    def f(x, log):
        y = b(x, log)
        log.append(sys.exc_info())
        return y

    check(f, vec(2), [], graphs=None, breaks=None)


def test_break_under_with_of_every_frame():
    class Scope:
        def __init__(self, name, log):
            self.name, self.log = name, log

        def __enter__(self):
            self.log.append("enter " + self.name)
            return self

        def __exit__(self, *error):
            self.log.append("exit " + self.name)

    def c(x, log):
        with torch.no_grad(), Scope("c", log):
            y = x + 1
            print(torch.is_grad_enabled())
            return y * 2

    def b(x, log):
        with Scope("b", log):
            return c(x * 2, log) + 1

    def f(x, log):
        with Scope("f", log):
            y = b(x, log) * x
            print(torch.is_grad_enabled())
        return y

    check(f, vec(2, grad=True), [], graphs=2, breaks=("output", "output"), backward=True)


def test_data_dependent_branch_in_a_callee():
    def b(x):
        y = x + 1
        if y.sum() > 3:
            return y * 2
        return y - 2

    def f(x):
        return b(x * 3) * 5

    check(f, vec(2), graphs=2, breaks=("data-dependent-branch",), ran=6)
    check(f, vec(2) * -10, graphs=2, breaks=("data-dependent-branch",), ran=6)
    h = strict_compile(f)
    for x in (vec(2), vec(2) * -10, vec(2), vec(2) * -10):
        assert torch.equal(h(x), f(x))
    assert h.framejit.compiles == 3


def test_item_in_a_callee():
    def b(x):
        return x.sum().item()

    def f(x):
        n = b(x + 1)
        return x * n

    with framejit.config.patch(capture_scalar_outputs=False):
        check(f, vec(2), graphs=2, breaks=("data-dependent-value",))


def test_methods_callables_partials_and_modules():
    class Base:
        def go(self, x):
            print("base")
            return x + 1

    class Thing(Base):
        def go(self, x):
            y = super().go(x * 2)
            print("thing")
            return super().go(y)

        def __call__(self, x, *, k=1):
            return self.go(x) * k

        @staticmethod
        def still(x):
            print("still")
            return x - 1

        @classmethod
        def by_class(cls, x):
            print(cls.__name__)
            return x / 2

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            y = self.linear(x)
            print("forward")
            return y.relu()

    def f(x, t, net):
        y = t(x, k=3)
        y = functools.partial(t, k=2)(y)
        y = t.still(y) + t.by_class(y)
        return net(y) + t.go(*[y])

    torch.manual_seed(0)
    check(f, vec(2), Thing(), Net(), graphs=None, breaks=12)


def test_closures_and_nonlocal():
    def f(x):
        n = 0

        def bump(k):
            nonlocal n
            n += k
            print(n)
            n += k
            return x * n

        def twice(k):
            y = bump(k)
            return y + bump(k + n)

        y = twice(2) + n
        return y, n

    check(f, vec(2), graphs=2, breaks=2)


def test_comprehensions():
    def f(x):
        y = x + 1
        parts = [outside(y) + i for i in range(3) if i != 1]
        table = {i: (y := y + 1, print(i)) for i in range(2)}
        return sum(parts) * 2, table, y

    check(f, vec(2), graphs=None, breaks=4)


def test_variadic_arguments_and_frames_that_look_at_themselves():
    def b(*args, k=2, **kwargs):
        args = args + (args[0] + 1,)
        names = sorted(locals())
        print(names, len(args))
        return args[-1] * k, kwargs, sorted(locals())

    def f(x):
        return b(x + 1, 3, z=4)

    check(f, vec(2), graphs=2, breaks=3)


def test_call_stack_and_lines_are_eagers():
    def c(x):
        y = x + 1
        found = stack_of_names()
        return y, found, stack_of_names()

    def b(x):
        return (
            c(
                x * 2,
            ),
            stack_of_names(),
        )

    def f(x):
        return b(x - 1), [c(x) for _ in range(2)]

    check(f, vec(2), graphs=None, breaks=None)


def test_recursion():
    def down(x, n):
        if n == 0:
            print("bottom")
            return x + 1
        y = down(x + n, n - 1)
        return y * 2

    def f(x):
        return down(x, 5) - 1

    check(f, vec(2), graphs=2, breaks=("output",), ran=5 + 1 + 5 + 1)


def test_a_graph_that_fails_after_a_break_fails_in_eagers_frames():
    def c(x, i):
        print("c")
        return (x + 1)[i]

    def b(x, i):
        y = x * 2
        return c(y, i) + 1

    def f(x, i):
        return b(x, i) * 2

    check(f, vec(4), torch.tensor([1, 2]), graphs=2, breaks=1)
    check(f, vec(4), torch.tensor([1, 7]), graphs=2, breaks=1)


def test_a_chain_that_is_not_compiled_again_runs_in_eager():
    def c(x, n):
        y = x + n
        try:
            print("c")
            if n > 2:
                raise ValueError(n)
        except ValueError as error:
            return y - error.args[0]
        return y * n

    def b(x, n):
        try:
            return c(x * 2, n) + 1
        finally:
            print("b")

    def f(x, n):
        return b(x, n) * 2

    with framejit.config.patch(recompile_limit=1):
        h = strict_compile(f)
    for n in range(6):
        assert torch.equal(h(vec(2), n), f(vec(2), n))


def test_break_in_a_function_that_something_else_calls_stays_outside():
    def key(v):
        print("key", v)
        return -v

    def f(x, items):
        y = x + 1
        return sorted(items, key=key), list(map(key, items)), y * 2

    check(f, vec(2), [1, 3, 2], graphs=2, breaks=None)


def test_values_of_all_frames_keep_their_identity():
    def b(x, items, d):
        view = x[0]
        mine = [items, d, view]
        print("b")
        view.add_(1)
        mine.append(x)
        items.append(mine)
        return mine

    def f(x, items):
        y = x + 1
        d = {"items": items, "y": y}
        mine = b(y, items, d)
        return mine[0] is items and mine[1] is d, mine, d, y

    check(f, vec(2, 2), [], graphs=2, breaks=1)


def test_functions_of_other_modules():
    scope = {"__name__": "a_module_that_is_not_imported", "outside": outside, "torch": torch}
    exec("def g(x):\n    y = x + 1\n    outside(y)\n    return y * N\nN = 3\n", scope)
    g = scope["g"]

    def f(x):
        return g(x) * 2

    check(f, vec(2), graphs=None, breaks=None)


def test_fullgraph_names_the_whole_chain():
    def c(x):
        y = x + 1
        print(y.shape)
        return y

    def b(x):
        return c(x * 2)

    def f(x):
        return b(x - 1)

    with pytest.raises(framejit.GraphBreakError) as caught:
        strict_compile(f, fullgraph=True)(vec(2))
    text = str(caught.value)
    lines = [
        c.__code__.co_firstlineno + 2,
        b.__code__.co_firstlineno + 1,
        f.__code__.co_firstlineno + 1,
    ]
    assert " called from ".join(f"{__file__}:{line}" for line in lines) in text


def test_events_name_the_line_and_the_chain():
    def b(x):
        y = x + 1
        print("b")
        return y * 2

    def f(x):
        return b(x)

    h = strict_compile(f)
    events = capture_events(h)
    h(vec(2))
    (broken,) = [event for event in events if type(event).__name__ == "Break"]
    line = b.__code__.co_firstlineno + 2
    assert broken.where.endswith(f":{line}") and len(broken.chain) == 2
    captured = [
        event.where.rpartition(":")[2] for event in events if type(event).__name__ == "Captured"
    ]
    assert captured == [str(f.__code__.co_firstlineno), str(line)]


def test_the_call_stack_through_modules_is_eagers():
    class Inner(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            found = stack_of_names()
            if len(found) > 3:
                print("inner")
            return y * 2, found, stack_of_names()

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(Inner())

        def forward(self, x):
            return self.inner(x * 3)

    def f(x, m):
        return m(x - 1)

    check(f, vec(2), Outer(), graphs=None, breaks=None)


def test_breaks_in_a_module_with_hooks_and_in_its_hooks():
    class Inner(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            print("inner")
            return y * 2

    module = Inner()
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)

    def f(x, m):
        return m(x - 1) + 1

    check(f, vec(2), module, graphs=4, breaks=3)


def before(module, args):
    print("before")
    return args[0] * 3


def after(module, args, output):
    print("after")
    return output - 1


def test_exceptions_through_modules_have_eagers_frames():
    class Inner(torch.nn.Module):
        def forward(self, x):
            print("inner")
            y = x + 1
            fails(y)

    def f(x, m):
        return m(x - 1)

    check(f, vec(2), torch.nn.Sequential(Inner()), graphs=2, breaks=2)


def test_a_method_of_an_object_made_in_c_in_a_callee():
    numbers = array.array("b", [65, 66])

    def inner(x, number):
        y = x + 1
        place = numbers.index(number)
        return place, y * 2

    def f(x, number):
        return inner(x, number)

    check(f, vec(2), 65, graphs=2, breaks=("unknown-call",))
