"""Graph breaks: what is captured around them, in every kind of place; nothing lost, nothing
doubled, in order."""

from __future__ import annotations

import functools
import operator
import threading

import framejit
import pytest
import torch
from framejit.frontend.pycode.code_builder import CodeBuilder

from .harness import capture_events, check, strict_compile, vec


@framejit.disable
def outside(x, log=None):
    if log is not None:
        log.append("outside")
    return x * 10


def test_print_between():
    def f(x):
        y = x + 1
        print("a", y.shape)
        z = y * 2
        print("b")
        return z - 1

    check(f, vec(2), graphs=3, breaks=("output", "output"), ran=3)


def test_effects_and_prints_in_order():
    def f(x, log):
        log.append(1)
        print(log)
        log.append(x + 1)
        print(len(log))
        log.pop()
        print(log)
        return log

    check(f, vec(2), [], graphs=1, breaks=3)


def test_unknown_c_call():
    import os

    def f(x):
        y = x + 1
        n = os.getpid()
        return y * 2, n > 0

    check(f, vec(2), graphs=2, breaks=("unknown-call",))


def test_data_dependent_if_both_sides():
    def f(x):
        y = x + 1
        if y.sum() > 3:
            return y * 2
        return y - 2

    g = check(f, vec(2), graphs=2, breaks=("data-dependent-branch",))
    del g
    check(f, vec(2) * 10, graphs=2, breaks=("data-dependent-branch",))
    h = strict_compile(f)
    for x in (vec(2), vec(2) * 10, vec(2), vec(2) * 10):
        assert torch.equal(h(x), f(x))
    assert h.framejit.compiles == 3


@pytest.mark.parametrize("text", ["x.sum() > 1 and x.max() > 0", "x.sum() > 100 or x.max() > 0", "not x.sum() > 1", "bool(x.sum() > 1)", "1 if x.sum() > 1 else 2", "(x > 0).all()", "0 < x.sum() < 5"])  # fmt: skip
def test_data_dependent_conditions(text):
    scope = {}
    exec(
        f"def f(x):\n    x = x + 1\n    if {text}:\n        y = x * 2\n    else:\n        y = x * 3\n    return y + 1",
        scope,
    )
    check(scope["f"], vec(2), graphs=None, breaks=None)
    check(scope["f"], -vec(2) * 5, graphs=None, breaks=None)


def test_data_dependent_while():
    def f(x):
        n = 0
        while x.sum() < 20:
            x = x * 2
            n += 1
        return x, n

    check(f, vec(2), graphs=None, breaks=None)


def test_item():
    def f(x):
        y = x + 1
        n = y[0].item()
        return y * n

    with framejit.config.patch(capture_scalar_outputs=False):
        check(f, vec(2), graphs=2, breaks=("data-dependent-value",), ran=3)


def test_requested_break():
    def f(x):
        y = x + 1
        framejit.graph_break("because")
        return y * 2

    g = strict_compile(f)
    events = capture_events(g)
    g(vec(2))
    broken = [event for event in events if type(event).__name__ == "Break"]
    assert [event.reason_id for event in broken] == ["requested"]
    assert "because" in broken[0].sentence
    check(f, vec(2), graphs=2, breaks=("requested",), ran=2)


def test_requested_break_without_message():
    def f(x):
        y = x + 1
        framejit.graph_break()
        return y * 2

    check(f, vec(2), graphs=2, breaks=("requested",), ran=2)


def test_break_in_a_for_loop():
    def f(x, items):
        for i in range(4):
            x = x + 1
            print(i)
            x = x * 2
        return x, i

    check(f, vec(2), [], graphs=None, breaks=None, ran=8)


def test_break_in_a_loop_over_a_list_with_state():
    def f(x, items, log):
        total = 0
        for k, v in enumerate(items):
            total = total + k
            log.append(v)
            print(k, v, total)
            x = x + v
        else:
            x = x - 1
        return x, total

    check(f, vec(2), [1, 2, 3], [], graphs=None, breaks=None)


@framejit.config.patch(compare_calls=False)  # else the time decides how much is compiled
def test_break_in_a_loop_over_everything():
    def f(x, d, items):
        for k, v in d.items():
            print(k)
            x = x + v
        for a, b in zip(items, range(9)):
            print(a, b)
            x = x + a
        for c in "ab":
            print(c)
            x = x + 1
        for v in (v * 2 for v in items):
            x = x + v
        for v in map(lambda v: v + 1, items):
            print(v)
            x = x + v
        for v in reversed(items):
            print(v)
            x = x * v
        for v in sorted({3, 2}):
            print(v)
            x = x - v
        for row in x:
            print(row.shape)
            x = x + row
        return x

    check(f, vec(2), {"a": 1, "b": 2}, [1, 2], graphs=None, breaks=None)


def test_break_in_a_while_loop():
    def f(x):
        n = 0
        while n < 3:
            x = x + 1
            print(n)
            x = x * 2
            n += 1
        else:
            x = x + 5
        return x

    check(f, vec(2), graphs=None, breaks=None)


def test_continue_and_break_in_a_loop_with_breaks():
    def f(x):
        for i in range(6):
            print(i)
            if i == 1:
                continue
            x = x + i
            if i == 4:
                break
        else:
            x = x * 100
        return x

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_nested_loops():
    def f(x):
        for i in range(2):
            for j in range(2):
                x = x + i
                print(i, j)
                x = x * (j + 1)
        return x

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_try_and_with_and_loop():
    def f(x, log):
        for i in range(3):
            try:
                with torch.no_grad():
                    x = x + 1
                    print(i)
                    if i == 1:
                        raise KeyError(i)
                    x = x * 2
            except KeyError as error:
                log.append(error.args)
                print("caught")
            finally:
                log.append(x.sum())
        return x

    check(f, vec(2), [], graphs=None, breaks=None)


def test_break_in_a_comprehension():
    def f(x):
        y = x + 1
        parts = [outside(y) + i for i in range(3)]
        return sum(parts) * 2

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_set_and_dict_comprehensions_and_generator_expressions():
    def f(x):
        a = {i: outside(x) for i in range(2)}
        b = {len(outside(x)) + i for i in range(2)}
        c = list(outside(x) for _ in range(2))
        return a, b, c, x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_a_loop_inside_a_callee():
    def inner(x, log):
        for i in range(3):
            x = x + i
            log.append(i)
            print(i)
            x = x * 2
        return x

    def f(x, log):
        y = inner(x + 1, log)
        return inner(y, log) - 1

    check(f, vec(2), [], graphs=None, breaks=None)


def test_break_in_a_method_and_property():
    class Thing:
        n = 0

        @property
        def value(self):
            print("property")
            self.n += 1
            return self.n

        def go(self, x):
            y = x + self.value
            print("go")
            return y * 2

        def __add__(self, other):
            print("add")
            return other + 1

        def __getitem__(self, i):
            print("item")
            return i * 2

        def __len__(self):
            print("len")
            return 3

        def __bool__(self):
            print("bool")
            return True

        def __contains__(self, item):
            print("contains")
            return True

        def __eq__(self, other):
            print("eq")
            return True

        __hash__ = None

    def f(x, t):
        y = t.go(x) * 2
        y = t + y
        y = y + t[3]
        if t:
            y = y + len(t)
        if 3 in t and t == 4:
            y = y * 3
        return y

    check(f, vec(2), Thing(), graphs=None, breaks=None)


def test_break_in_a_generator_being_consumed():
    def numbers(x):
        for i in range(3):
            print("yielding", i)
            yield x + i

    def f(x):
        total = x
        for v in numbers(x):
            total = total + v * 2
        return total

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_a_sort_key_and_map():
    def key(v):
        print("key", v)
        return -v

    def f(x, items):
        return sorted(items, key=key), list(map(key, items)), x + 1

    check(f, vec(2), [1, 3, 2], graphs=None, breaks=None)


def test_break_in_constructor():
    class Thing:
        def __init__(self, x):
            self.x = x + 1
            print("init")
            self.y = x * 2

    def f(x):
        t = Thing(x)
        return t, t.x + t.y

    check(f, vec(2), graphs=None, breaks=None)


def test_break_with_much_on_the_stack():
    def f(x, items):
        return [
            x + 1,
            {"a": outside(x), "b": (1, outside(x, log=items))},
            *items,
            f"{outside(3)}",
        ], x * outside(2) + outside(x) * (x - outside(1))

    check(f, vec(2), [1], graphs=None, breaks=None)


def test_break_with_keyword_calls_and_methods():
    class T:
        def go(self, *args, **kwargs):
            return args, kwargs

    def f(x, t):
        return t.go(x + 1, outside(x), k=outside(x) + 1, **{"z": outside(2)}), t.go(
            *[outside(1), x]
        )

    check(f, vec(2), T(), graphs=None, breaks=None)


def test_break_in_conditions_and_boolean_operators():
    def f(x):
        a = outside(0) or x + 1
        b = outside(1) and x * 2
        c = x if outside(0) else x - 1
        assert outside(1), "message"
        d = [v for v in range(3) if outside(v)]
        while outside(len(d)) > 10:
            d.pop()
        return a, b, c, d

    check(f, vec(2), graphs=None, breaks=None)


def test_break_between_aliases():
    def f(x, items):
        y = x + 1
        view = y[0]
        same = y
        inner = [y]
        items.append(inner)
        outside(1)
        y.add_(5)
        inner.append(view)
        return same is y, items[-1] is inner, same, view, items

    check(f, vec(2), [], graphs=2, breaks=("disabled-call",))


def test_break_between_views_of_inputs():
    def f(x):
        v = x[0]
        t = x.t()
        outside(1)
        v.add_(1)
        return v, t, x

    check(f, vec(2, 2), graphs=2, breaks=("disabled-call",))


def test_break_with_closures_and_cells():
    def f(x):
        n = 0
        y = x + 1

        def bump(k):
            nonlocal n
            n += k
            return y * n

        a = bump(1)
        outside(1)
        b = bump(2)
        fs = [lambda i=i: bump(i) + x for i in range(2)]
        outside(2)
        c = [g() for g in fs]
        return a, b, c, n, bump

    check(f, vec(2), graphs=3, breaks=2)


def test_break_with_outer_cells():
    n = 5
    seen = []

    def f(x):
        nonlocal n
        n += 1
        seen.append(x + n)
        outside(1)
        n *= 2
        seen.append(n)
        return x * n

    check(f, vec(2), graphs=2, breaks=1)


def test_break_with_cell_arguments():
    def f(x, k):
        def g():
            return x * k

        k = k + 1
        outside(1)
        x = x + 1
        return g(), k

    check(f, vec(2), 3, graphs=None, breaks=1)


def test_break_with_unbound_names():
    def f(x, flag):
        if flag:
            y = x + 1
        outside(1)
        try:
            return y
        except UnboundLocalError:
            return x * 2

    check(f, vec(2), True, graphs=None, breaks=None)
    check(f, vec(2), False, graphs=None, breaks=None)


def test_break_with_deleted_argument():
    def f(x, y):
        z = x + y
        del y
        outside(1)
        try:
            y  # noqa: B018
        except UnboundLocalError:
            return z * 2

    check(f, vec(2), vec(2), graphs=2, breaks=None)


def test_break_with_star_arguments():
    def f(x, *args, k=2, **kwargs):
        y = x + args[0]
        args = args + (y,)
        kwargs["new"] = y
        outside(1)
        return args, kwargs, y * k

    check(f, vec(2), 3, kwargs={"z": 1}, graphs=2, breaks=1)


def test_break_with_live_iterators():
    def f(x, items):
        it, en, z = iter(items), enumerate(items), zip(items, items)
        next(it), next(en), next(z)
        m, r, c = map(str, items), reversed(items), iter({"a": 1, "b": 2})
        next(c)
        outside(1)
        return list(it), list(en), list(z), list(m), list(r), list(c), x + 1

    check(f, vec(2), [1, 2, 3], graphs=1, breaks=None)


def test_break_with_a_live_generator():
    def numbers(x):
        yield x + 1
        yield x + 2

    def f(x):
        g = numbers(x)
        a = next(g)
        outside(1)
        return a, next(g)

    check(f, vec(2), graphs=None, breaks=None)


def test_break_with_objects_made_before():
    class Thing:
        def __init__(self, x):
            self.x = x
            self.me = self
            self.items = [self]

    def f(x):
        t = Thing(x + 1)
        p, d = (t, 1), {"t": t}
        s = slice(1, None)
        outside(1)
        t.x = t.x * 2
        return p[0] is t and d["t"] is t and t.items[0] is t.me, t, x[s]

    check(f, vec(2), graphs=None, breaks=1)


def test_break_in_a_with_of_a_user_manager():
    class Scope:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("in")
            print("enter")
            return self

        def __exit__(self, cls, error, tb):
            self.log.append(cls)
            print("exit")
            return True

    def f(x, log):
        with Scope(log) as s:
            y = x + 1
            outside(1)
            raise KeyError("k")
        return y * 2, s.log is log

    check(f, vec(2), [], graphs=None, breaks=None)


def test_break_then_exception_line():
    def f(x):
        y = x + 1
        print("a")
        z = y * 2
        raise ValueError(z.shape)

    check(f, vec(2), graphs=None, breaks=None)


def test_exception_inside_the_breaking_call():
    @framejit.disable
    def fails(x):
        raise KeyError("inside")

    def g(x):
        return fails(x) + 1

    def f(x):
        y = x + 1
        return g(y)

    check(f, vec(2), graphs=None, breaks=None)


def test_locals_and_globals_and_eval():
    def f(x, k):
        y = x + 1
        names = sorted(locals())
        n = eval("k + 1")
        return y * n, names, "torch" in globals()

    check(f, vec(2), 3, graphs=None, breaks=None)


def test_disable_forms():
    @framejit.disable(recursive=False)
    def shallow(x):
        return helper(x) + 1

    def helper(x):
        return x * 3

    def f(x):
        y = x + 1
        return shallow(y) * 2

    check(f, vec(2), graphs=None, breaks=None)
    g = strict_compile(f)
    events = capture_events(g)
    g(vec(2))
    captured = {
        event.function.rpartition(".")[2] for event in events if type(event).__name__ == "Captured"
    }
    assert "helper" in captured and "shallow" not in captured


def test_disabled_function_and_what_it_calls_are_not_captured():
    def helper(x):
        return x * 3

    @framejit.disable
    def deep(x):
        return helper(x)

    def f(x):
        return deep(x + 1) * 2

    g = strict_compile(f)
    events = capture_events(g)
    assert torch.equal(g(vec(2)), f(vec(2)))
    assert "helper" not in {
        event.function.rpartition(".")[2] for event in events if type(event).__name__ == "Captured"
    }


def test_fullgraph_raises():
    def inner(x):
        print("no")
        return x

    def f(x):
        y = x + 1
        return inner(y)

    g = strict_compile(f, fullgraph=True)
    with pytest.raises(framejit.GraphBreakError) as caught:
        g(vec(2))
    text = str(caught.value)
    line = inner.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in text and f"{__file__}:{f.__code__.co_firstlineno + 2}" in text
    assert "hint" in text and "print" in text and caught.value.graph_break.reason.id == "output"


def test_fullgraph_without_a_break():
    def f(x, log):
        log.append(x + 1)
        return x * 2

    g, log = strict_compile(f, fullgraph=True), []
    assert torch.equal(g(vec(2), log), vec(2) * 2) and len(log) == 1


def test_locks_and_threads_objects():
    def f(x, lock):
        with lock:
            y = x + 1
        return y * 2

    g = strict_compile(f)
    assert torch.equal(g(vec(2), threading.Lock()), (vec(2) + 1) * 2)


def test_break_at_the_very_start_and_end():
    def f(x):
        outside(1)
        y = x + 1
        return outside(y)

    check(f, vec(2), graphs=1, breaks=2)


def test_print_of_tensors_and_intermediate():
    def f(x):
        y = x + 1
        print(y, x.sum())
        return y

    check(f, vec(2), graphs=1, breaks=1)


def test_many_breaks_in_one_statement():
    def f(x):
        return outside(x) + outside(x) * outside(outside(x)) - (x if outside(0) else outside(x))

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_unpacking_and_assignment_targets():
    class Slot:
        pass

    def f(x, s, d):
        a, (b, *c) = outside(1), [outside(2), outside(x), 4]
        s.v, d[outside(3)] = outside(x), x + 1
        d["k"] += outside(1)
        return a, b, c, s, d

    check(f, vec(2), Slot(), {"k": 1}, graphs=None, breaks=None)


def test_break_in_match_and_walrus_and_fstring():
    def f(x, s):
        match outside(s):
            case 10:
                y = x + 1
            case _:
                y = x - 1
        if (n := outside(2)) > 3:
            y = y * n
        return f"{outside(1)} {n!r:>5}", y

    check(f, vec(2), 1, graphs=None, breaks=None)


def test_break_with_super_and_class_cell():
    class Base:
        def go(self, x):
            return x + 1

    class Derived(Base):
        def go(self, x):
            y = super().go(x)
            outside(1)
            return super().go(y) * 2

    def f(x, d):
        return d.go(x)

    check(f, vec(2), Derived(), graphs=None, breaks=None)


def test_gradients_across_breaks():
    def f(x, w):
        y = x * w
        print("a")
        z = (y + w).sin()
        with torch.no_grad():
            s = z.sum()
            print("b")
        return z * s

    check(f, vec(3, grad=True), vec(3, grad=True), graphs=3, breaks=2, backward=True)


def test_in_place_on_an_input_before_a_break_happens_once():
    def f(x, log):
        x.add_(1)
        log.append(1)
        outside(x)
        x.mul_(2)
        log.append(2)
        return x

    check(f, vec(2), [], graphs=2, breaks=1)


@pytest.mark.parametrize("line", ["n = y[0].item()", "n = y.tolist()[0]", "n = (y > 1).nonzero().shape[0]", "n = y[y > 1].shape[0]", "n = float(y.sum())", "n = int(y.max())", "n = y.numpy().shape[0]", "n = y.unique().shape[0]", "n = len(y.nonzero())"])  # fmt: skip
def test_values_of_tensors_break_at_their_expression(line):
    scope = {}
    exec(
        f"def g(x):\n    y = x + 1\n    {line}\n    return y * n\ndef f(x):\n    return g(x * 2) + 1",
        scope,
    )
    check(scope["f"], vec(3), graphs=None, breaks=None, again=False)
    h = strict_compile(scope["f"])
    events = capture_events(h)
    h(vec(3))
    captured = sum(event.ops for event in events if type(event).__name__ == "Captured")
    assert captured >= 4, "x * 2, x + 1, y * n and + 1 are captured whatever lies between"


def test_print_in_a_for_loop_keeps_eight_of_eight_operations():
    def f(x):
        for i in range(4):
            x = x + 1
            print(i)
            x = x * 2
        return x

    check(f, vec(2), graphs=None, breaks=None, ran=8)


def test_print_in_a_try_keeps_all():
    def f(x, log):
        try:
            y = x + 1
            print("in try")
            y = y * 2
        except ValueError:
            y = x
        finally:
            print("in finally")
            log.append(y - 1)
        return y + 3

    check(f, vec(2), [], graphs=3, breaks=2, ran=4)


def test_print_logging_and_warnings_keep_their_order(caplog):
    import logging
    import sys
    import warnings

    logger = logging.getLogger("framejit.tests.order")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.StreamHandler(None)
    handler.setFormatter(logging.Formatter("log %(message)s"))
    logger.addHandler(handler)

    class Out:
        def write(self, text):
            sys.stdout.write(text)

        def flush(self):
            pass

    handler.setStream(Out())

    def show(message, category, filename, lineno, file=None, line=None):
        print("warning", message, category.__name__, lineno)

    def inner(x):
        logger.info("one %s", 1)
        warnings.warn("two", UserWarning, stacklevel=1)
        print("three")
        logger.debug("never")
        return x + 1

    def f(x):
        y = inner(x)
        warnings.warn("four", DeprecationWarning, stacklevel=2)
        y = inner(y * 2)
        logger.warning("five")
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        check(f, vec(2), graphs=None, breaks=None)


@pytest.mark.parametrize("read", [lambda items, x: functools.reduce(operator.add, items, x), lambda items, x: outside(len(items) + len(items[0])),
                                  lambda items, x: sum(items) @ x], ids=["reduced", "counted", "summed"])  # fmt: skip
def test_a_list_added_to_and_read_in_the_statement_that_breaks(read):
    def f(x, items):
        items.append(x.t())
        return read(items, x)

    handle, mine, yours = strict_compile(f, backend="eager"), [torch.ones(2, 3)], [torch.ones(2, 3)]
    for _ in range(4):
        told = []
        for run, items in ((f, mine), (handle, yours)):
            try:
                told.append(str(run(torch.ones(2, 3), items)))
            except RuntimeError as error:
                told.append(str(error))
        assert told[0] == told[1] and len(mine) == len(yours)


def test_the_code_of_a_capture_is_made_once(monkeypatch):
    made = []
    finish = CodeBuilder.finish

    def counted(self):
        made.append(self)
        return finish(self)

    monkeypatch.setattr(CodeBuilder, "finish", counted)
    strict_compile(lambda x: x + 1)(vec(2))  # nothing is found by a path: all is an argument
    assert len(made) == 1
