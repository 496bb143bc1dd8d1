"""Loops, conditions, generators."""

from __future__ import annotations

import pytest
import torch

from .harness import check, vec


def test_for_over_everything():
    def f(x, items, d):
        for i in range(2):
            x = x + i
        for v in items:
            x = x * v
        for k in d:
            x = x + len(k)
        for k, v in d.items():
            x = x + v
        for i, (a, b) in enumerate(zip(items, reversed(items))):
            x = x + i * a - b
        for c in "ab":
            x = x + ord(c)
        for v in sorted({3, 1, 2}):
            x = x * v
        return x, i, k, c

    check(f, vec(2), [1, 2], {"a": 1, "bb": 2})


def test_for_else_break_continue():
    def f(x, n):
        for i in range(5):
            if i == 1:
                continue
            if i == n:
                break
            x = x + i
        else:
            x = x * 100
        return x, i

    check(f, vec(2), 3)
    check(f, vec(2), 9)


def test_while_else():
    def f(x, n):
        while n > 0:
            n -= 1
            if n == 2:
                continue
            x = x * 2
        else:
            x = x + 1
        while True:
            n += 1
            if n > 3:
                break
        return x, n

    check(f, vec(2), 4)


def test_nested_loops():
    def f(x):
        out = []
        for i in range(3):
            for j in range(i):
                if j == 1:
                    break
                out.append(x * i + j)
            else:
                out.append(i)
        return out

    check(f, vec(2))


def test_list_changed_while_iterated():
    def f(x, items):
        for v in items:
            if v < 3:
                items.append(v + 1)
        return items, x * len(items)

    check(f, vec(2), [1])


def test_dict_changed_while_iterated():
    def f(x, d):
        try:
            for k in d:
                d[k + "x"] = 1
        except RuntimeError as error:
            return str(error), x + 1

    check(f, vec(2), {"a": 1}, again=False)


def test_iterators_by_hand():
    def f(x, items):
        it = iter(items)
        a = next(it)
        b = next(it, "d")
        rest = list(it)
        return a, b, rest, next(it, "end"), x + 1

    check(f, vec(2), [1, 2, 3])


def test_iterator_argument_advances():
    def f(x, it):
        return x * next(it), x + next(it)

    from .harness import strict_compile

    g = strict_compile(f)
    it, other = iter([1, 2, 3, 4]), iter([1, 2, 3, 4])
    for _ in range(2):
        for a, b in zip(g(vec(2), it), f(vec(2), other), strict=True):
            assert torch.equal(a, b)


def test_iterators_returned():
    def f(x, items):
        it = iter(items)
        next(it)
        r = iter(range(5))
        next(r)
        z = zip(items, [x, x + 1])
        e = enumerate(items, 3)
        next(e)
        return (
            it,
            r,
            z,
            e,
            reversed(items),
            map(str, items),
            filter(None, items),
            iter({"a": 1}.items()),
        )

    check(f, vec(2), [1, 2, 3])


def test_stop_iteration_caught():
    def f(x):
        it = iter([])
        try:
            next(it)
        except StopIteration as error:
            return error.value, x + 1

    check(f, vec(2))


def test_conditions_on_constants():
    def f(x, flag, n, s, items):
        if flag:
            x = x + 1
        if not n:
            x = x * 2
        if s == "a" and items:
            x = x - 1
        elif s or n:
            x = x + 7
        return x

    for flag, n, s, items in [(True, 0, "a", []), (False, 3, "a", [1]), (None, 0, "", [])]:
        check(f, vec(2), flag, n, s, items)


def test_generators_consumed():
    def numbers(x, n):
        for i in range(n):
            got = yield x * i
            if got:
                x = x + got
        return "done"

    def delegating(x):
        r = yield from numbers(x, 2)
        yield r

    def f(x):
        a = list(numbers(x, 3))
        g = numbers(x, 3)
        first = next(g)
        second = g.send(5)
        g.close()
        return a, first, second, list(delegating(x)), sum(v for v in numbers(x, 2))

    check(f, vec(2))


def test_generator_cleanup_runs():
    def numbers(log):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def f(x, log):
        for v in numbers(log):
            x = x * v
        g = numbers(log)
        next(g)
        g.close()
        return x

    check(f, vec(2), [])


def test_generator_throw():
    def guarded():
        try:
            yield 1
        except ValueError as error:
            yield str(error)

    def f(x):
        g = guarded()
        next(g)
        return g.throw(ValueError("inside")), list(g), x + 1

    check(f, vec(2))


def test_generator_returned():
    def numbers(x):
        yield x + 1
        yield x + 2

    def f(x):
        return numbers(x)

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_generator_argument():
    def f(x, g):
        return [x + v for v in g]

    from .harness import strict_compile

    h = strict_compile(f)
    for _ in range(2):
        assert [v.tolist() for v in h(vec(1), (i for i in range(3)))] == [
            v.tolist() for v in f(vec(1), iter(range(3)))
        ]


def test_generator_function_compiled():
    from .harness import strict_compile

    def f(x):
        for i in range(3):
            yield x + i

    assert [v.tolist() for v in strict_compile(f)(vec(1))] == [v.tolist() for v in f(vec(1))]


def test_generator_expression_captures_lazily():
    def f(x):
        k = 1
        g = (x * k for _ in range(2))
        k = 5
        return list(g), all(v is not None for v in [1]), next((i for i in range(5) if i > 2), None)

    check(f, vec(2))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_loop_over_a_tensor_count(n):
    def f(x, n):
        for _ in range(n):
            x = torch.sin(x)
        return x + 1

    check(f, vec(2), n)


def test_long_loop():
    def f(x):
        total = 0
        for i in range(20_000):
            total += i
        return x + total

    check(f, vec(2))
