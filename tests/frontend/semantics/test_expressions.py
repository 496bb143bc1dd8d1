"""Expressions and statements: comprehensions, walrus, unpacking, f-strings, match, chained
comparison, constants, strings.

PYTEST_DONT_REWRITE: `assert` in a compiled function must be Python's own.
"""

from __future__ import annotations

import importlib
import itertools
import operator
import sys

import pytest
import torch

from .harness import check, strict_compile, vec


class Shape:
    __match_args__ = ("kind", "size")

    def __init__(self, kind, size):
        self.kind, self.size = kind, size

    def __repr__(self):
        return f"Shape({self.kind!r}, {self.size})"


def test_constants():
    def f(x):
        return (
            1,
            2.5,
            1j,
            "s",
            b"b",
            None,
            ...,
            True,
            (1, (2, "a")),
            frozenset([1]),
            -0.0,
            float("inf"),
            10**30,
            x + 1,
        )

    check(f, vec(2))


def test_comprehensions():
    def f(x, n):
        a = [x + i for i in range(n) if i % 2]
        b = {i: x * i for i in range(n)}
        c = {i * 2 for i in range(n)}
        d = sum(x * i for i in range(n))
        e = [(i, j) for i in range(2) for j in range(i)]
        g = [[k * 2 for k in range(m)] for m in range(3)]
        return (
            a,
            b,
            c,
            d,
            e,
            g,
            tuple(i for i in range(2)),
            any(i > 1 for i in range(n)),
            max(i for i in range(3)),
        )

    check(f, vec(2), 4)


def test_comprehension_closes_over_locals():
    def f(x):
        k = 3
        fs = [lambda v, i=i: v * i + k for i in range(3)]
        k = 4
        return [g(x) for g in fs], [k for _ in range(2)], k

    check(f, vec(2))


def test_walrus():
    def f(x, items):
        if (n := len(items)) > 1:
            x = x * n
        total = [y := x + 1, y * 2]
        while (last := items.pop()) != 1:
            x = x + last
        return x, total, [z := i for i in range(3)], z

    check(f, vec(2), [1, 2, 3])


def test_star_unpacking():
    def f(x, items):
        a, *b = items
        *c, d = items
        (e, *g), h = [1, 2, 3], 4
        return a, b, c, d, e, g, h, [*items, *b], (*items, x), {*b}, {**{"a": 1}, "b": x + 1}

    check(f, vec(2), [1, 2, 3])


def test_unpacking_errors_caught():
    def f(x, items):
        out = []
        for attempt in range(3):
            try:
                if attempt == 0:
                    a, b = items
                elif attempt == 1:
                    a, b, c, d = items
                else:
                    a, b, c, *d, e = items
            except ValueError as error:
                out.append(str(error))
        return out, x + 1

    check(f, vec(2), [1, 2, 3])


def test_f_strings():
    def f(x, name, n):
        return (
            f"{name}",
            f"{name!r:>10}",
            f"{n:05d} {n=} {n + 1:x}",
            f"{3.14159:.{n}f}",
            f"{[1, 'a']} {(1,)} {None}",
            f"{x.shape} {x.dtype}",
            x + 1,
        )

    check(f, vec(2), "bob", 3)


def test_string_methods():
    def f(x, s):
        return (
            s.upper(), s.split(","), ",".join(["a", "b"]), s.replace("a", "b"), s.startswith("a"), s[1:], s[::-1], s * 2, s + "z", "a" in s,
            s.strip(), "%s-%d" % (s, 3), "{} {k}".format(s, k=1), s.find("b"), len(s), [c for c in s], s.partition(","), s.encode(), ord("a"), s < "b",
        ), x + 1  # fmt: skip

    check(f, vec(2), "a,b")


def test_number_methods_and_builtins():
    def f(x, n, y):
        return (
            n.bit_length(), y.is_integer(), divmod(n, 3), round(y, 1), abs(-n), pow(n, 2), min(n, 3), max([n, 1]), sum([n, 1]), int("12"), float("1.5"),
            hex(n), bin(n), chr(65), n // 2, n % 3, -n, ~n, n << 1, n & 1, n | 1, n ^ 1, n / 2, int(y), bool(n), complex(1, 2), str(n), repr("a"), n**2,
        ), x * n + y  # fmt: skip

    check(f, vec(2), 7, 2.5)


def test_chained_comparisons_and_boolean_operators():
    def f(x, n):
        return (
            0 < n < 5,
            0 < n > 10 < 3,
            n and "yes",
            n or "no",
            not n,
            None or [],
            n == 3 or x,
            "a" if n else "b",
            (n > 1) is True,
            x + 1,
        )

    check(f, vec(2), 3)
    check(f, vec(2), 0)


def test_slices():
    def f(x, items):
        items[1:2] = [9, 9]
        del items[0]
        items[::2] = [0] * len(items[::2])
        return items, items[-2:], items[:-1], x[1:, ::2], x[:, None], items[slice(None)]

    check(f, vec(3, 4), [1, 2, 3])


@pytest.mark.parametrize(
    "subject",
    [
        1,
        "a",
        [1, 2],
        [1, 2, 3],
        {"k": 1, "z": 2},
        (),
        None,
        2.5,
        True,
        Shape("circle", 3),
        Shape("square", 1),
        {"other": 1},
        b"x",
    ],
    ids=repr,
)
def test_match(subject):
    def f(x, s):
        match s:
            case True:
                r = "true"
            case 1 | 2:
                r = "one"
            case str(t):
                r = t + "!"
            case [a, b]:
                r = a + b
            case [a, *rest]:
                r = rest
            case {"k": v, **rest}:
                r = (v, rest)
            case Shape("circle", size=n) if n > 2:
                r = n
            case Shape(kind, 1):
                r = kind
            case float():
                r = "float"
            case None:
                r = "none"
            case ():
                r = "empty"
            case _:
                r = "other"
        return r, x + 1

    check(f, vec(2), subject, graphs=None, breaks=None)


def test_match_on_a_shape():
    def f(x):
        match x.shape:
            case (n,):
                return x * n
            case (a, b):
                return x * a * b

    check(f, vec(2))
    check(f, vec(2, 3))


def test_assert():
    def f(x):
        assert x.dim() == 1, "one dimension"
        return x + 1

    check(f, vec(2))
    check(f, vec(2, 2), graphs=None, breaks=None)


def test_assert_of_a_tensor():
    def f(x):
        assert (x > 0).all()
        assert x.sum() > 100, f"sum is {float(x.sum())}"
        return x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_delete_statements():
    def f(x, d, items):
        y = x + 1
        del d["a"], items[0]
        del x
        return y, d, items

    check(f, vec(2), {"a": 1, "b": 2}, [1, 2])


def test_operator_module():
    def f(x, d):
        get = operator.itemgetter("a")
        return (
            operator.add(x, 1),
            operator.getitem(d, "a"),
            operator.mul(2, 3),
            operator.attrgetter("shape")(x),
            get(d),
            operator.contains(d, "a"),
        )

    check(f, vec(2), {"a": 1}, graphs=None, breaks=None)


def test_itertools():
    def f(x, items):
        return (
            list(itertools.chain(items, [4])), list(itertools.product([1, 2], "ab")), list(itertools.islice(itertools.count(3), 2)),
            list(itertools.repeat(x, 2)),
            list(itertools.chain.from_iterable([[1], [2]])),
        ), x + 1  # fmt: skip

    check(f, vec(2), [1, 2, 3])


def test_global_and_import_statements():
    def f(x):
        import math
        from collections import OrderedDict

        import torch.nn.functional as functional

        return functional.relu(x) * math.floor(2.7), OrderedDict(a=1)

    check(f, vec(2))


def test_division_by_zero_caught():
    def f(x):
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            return str(error), x + 1

    check(f, vec(2))


def test_iteration_order_of_string_sets():
    def f(x, s):
        return list(s), x + 1, [k for k in {"b", "a", "c", "q", "zz"}]

    check(f, vec(2), {"x", "y", "zed", "w"})


def test_integer_identity_and_equality_of_types():
    def f(x, a, b):
        return (
            a == b,
            a is b,
            hash(a) == hash(b),
            1 == 1.0,
            True == 1,
            {1: "a", True: "b", 1.0: "c"},
            x + 1,
        )

    check(f, vec(2), 1, 1)


def test_float_arguments_are_guarded_by_value():
    from .harness import strict_compile

    def f(x, k):
        return x * k

    g = strict_compile(f)
    for k in (2.0, 3.0, 2, True, -0.0, 0.0):
        assert torch.equal(g(vec(2), k), vec(2) * k)
        assert torch.equal(torch.signbit(g(vec(2), k)), torch.signbit(vec(2) * k))


def test_functions_of_another_copy_of_a_module_written_in_c(monkeypatch):
    monkeypatch.delitem(sys.modules, "_operator")
    other = importlib.import_module("_operator")
    monkeypatch.undo()

    def f(x, items):
        other.setitem(items, 0, 5)
        other.delitem(items, 1)
        return x + 1, items, other.is_(items, [5, 3])

    check(f, vec(2), [1, 2, 3], graphs=None, breaks=None)


def test_which_of_equal_literals_it_is():
    def f(x, a, b):
        return x + 1, a is b, b is not a

    def made(x):
        a = "framejit"
        b = a[:3] + a[3:]
        print(end="")
        return x + 1, a is b, operator.is_(a, b)

    one, other = "".join(["ab", "!"]), "".join(["ab", "!"])
    handle = strict_compile(f)
    for a, b in ((one, one), (one, other), (other, other), (other, one), (2.5, float("2.5"))):
        assert handle(vec(2), a, b)[1:] == f(vec(2), a, b)[1:]
    check(made, vec(2), graphs=None, breaks=None)


def test_the_length_hint_of_an_iterator_that_existed():
    def f(x, items):
        return x + 1, operator.length_hint(items), items.__length_hint__()

    check(f, vec(2), iter([1, 2, 3]), graphs=None, breaks=None)
