"""Functions that between them use what decode, assembly and resumption must get right, with
arguments to call them."""

# ruff: noqa: B018, B023, F821, F841, PLC0415, UP008, UP031, UP032  (odd code is what it is for)
from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

GLOBAL = 10


def plain(a, b=2, *args, c=3, **kw):
    x = a + b * c
    y = -x if x > 10 else +x
    return [x, y, args, kw, a < b <= c, not a, ~x, a is None, b in (1, 2)]


def loops(n):
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        for j in (1, 2):
            total += i * j
            if total > 40:
                break
        else:
            total += 1
    while total > 5:
        total -= 7
        if total == 3:
            return "three"
    return total


def nothing():
    return None


def no_locals():
    return [GLOBAL, max(1, 2, key=abs), "x".upper()]


def handlers(kind):
    log = []
    try:
        log.append("in")
        if kind == 1:
            raise ValueError("one")
        if kind == 2:
            raise KeyError("two")
        if kind == 3:
            return log
        log.append("end")
    except ValueError as error:
        log.append(str(error))
    except KeyError:
        log.append("key")
        try:
            raise TypeError("inner")
        except TypeError as inner:
            log.append(repr(inner.__context__))
    else:
        log.append("else")
    finally:
        log.append("finally")
    return log


def raises(kind):
    try:
        x = [1, 2, 3]
        if kind == "index":
            return x[5]
        if kind == "chain":
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise ValueError("chained") from error
        if kind == "context":
            try:
                {}["no"]
            except KeyError:
                undefined_name
        if kind == "unbound":
            del x
            return x
        if kind == "reraise":
            try:
                [].pop()
            except IndexError:
                raise
    finally:
        kind = None
    return "fine"


@contextlib.contextmanager
def manager(log, swallow):
    log.append("enter")
    try:
        yield 5
    except ValueError:
        log.append("caught")
        if not swallow:
            raise
    finally:
        log.append("exit")


def withs(kind):
    log = []
    with manager(log, kind != 2) as five, manager(log, True):
        log.append(five)
        if kind:
            raise ValueError("with")
    for i in range(3):
        with manager(log, True):
            if i == 1:
                continue
            log.append(i)
    return log


def closures(a, b):
    c = a + 1

    def inner(d, e=5, *, f: int = 6):
        nonlocal c
        c += d
        return a, b, c, e, f

    first = inner(10)
    b = "changed"
    return first, inner(1, f=2), c, (lambda: c)()


def make_frees(a):
    unused = a
    captured = [a]

    def uses_frees(x):
        nonlocal a
        a = 1
        captured[:] = [x]
        a += 1
        for i in range(2):
            captured.append(i + a)
        return captured, a

    return uses_frees, unused


def make_frees_no_locals():
    free = [1]
    return lambda: [free, free[0] + 1, [f for f in free]]


def comprehensions(xs):
    k = 3
    squares = [x * x for x in xs if x % 2]
    pairs = {(x, y) for x in xs for y in xs if x < y}
    table = {x: [lambda: x + k for _ in "ab"] for x in xs}
    return (
        squares,
        sorted(pairs),
        [f() for fs in table.values() for f in fs],
        sum(x for x in xs),
        [*xs, *squares],
    )


def comprehension_raises(xs):
    x = "outer"
    try:
        return [1 // x for x in xs]
    except ZeroDivisionError:
        return x, [(lambda: x)() for x in xs]


def comprehension_cell(xs):
    x = "kept"
    fs = [lambda: x for x in xs]
    return x, [f() for f in fs], (lambda: x)()


def calls(f, *args, **kw):
    def g(*a, **k):
        return a, k

    return (
        g(), g(1), g(1, b=2), g(*args), g(*args, **kw), g(0, *args, z=1, **kw), f(len, args),
        "{}-{}".format(1, 2), [3, 1, 2].index(1), sorted([3, 1], reverse=True), print(end="", sep=""),
    )  # fmt: skip


def strings(a, b):
    return f"{a}{b!r:>10}|{a:{b}}|{b!s}{a!a}", f"{a=}", "%s" % a


def unpacking(seq):
    a, b, *rest = seq
    (c, d), e = (a, b), rest
    *start, last = seq
    x = y = seq[1:]
    seq[1:2] = [9, 9]
    del seq[0], x
    seq[-1] += 5
    d, c, b = b, c, d
    d, c = c, d
    return a, b, c, d, e, start, last, y, seq, {**{"k": 1}, "l": 2}, {1, *rest}, (*rest, 1)


def short_circuit(a, b):
    c = a and b or "neither"
    d = a or b
    if (a and b) or (not a and not b):
        c = (c, "same")
    while a is not None and b is None:
        a, b = None, a
    return c, d, a, b, a if a is not None else b, 1 < len(c) < 3


def matching(subject):
    match subject:
        case {"k": value, **rest}:
            return "map", value, rest
        case [1, x, *others]:
            return "seq", x, others
        case complex(real=r, imag=0):
            return "complex", r
        case str() as s if len(s) > 2:
            return "str", s
        case None | True:
            return "single"
    return "none"


def groups(kind):
    log = []
    try:
        if kind:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)][:kind])
    except* ValueError as vs:
        log.append(len(vs.exceptions))
    except* KeyError:
        log.append("key")
    return log


def nested_finally():
    log = []
    for i in range(3):
        try:
            try:
                if i == 1:
                    continue
                if i == 2:
                    raise ValueError(i)
            finally:
                log.append(("inner", i))
        except ValueError as e:
            log.append(e.args)
            break
        finally:
            log.append("outer")
    return log


def imports():
    import os.path as p
    from math import floor, pi

    return floor(pi), p.basename("/a/b")


def globals_and_del():
    global GLOBAL
    GLOBAL += 1
    here = GLOBAL
    GLOBAL = 10
    del GLOBAL
    GLOBAL = 10
    a = 1
    del a
    assert here == 11, "eleven"
    try:
        return a
    except UnboundLocalError as error:
        return str(error)


def asserts(x):
    assert x, f"no {x}"
    return x


def frames(a):
    b = 2
    seen = dict(locals())
    del seen["a"]
    c = lambda: a  # noqa: E731
    return seen, sorted(locals()), c()


def makes_class(x):
    class Local:
        attribute = x

        def method(self):
            return x, __class__.__name__

    return Local().method(), Local.attribute


class Base:
    def __init__(self):
        self.a = 1

    def method(self, x):
        return ("base", x)

    value = 5


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.b = super().value
        del self.a

    def method(self, x):
        y = x + 1
        got = super().method(y)
        return got, super(Derived, self).method(x), __class__.__name__

    def cell_self(self, x):
        f = lambda: self.b  # noqa: E731
        return super().method(x), f()

    def hidden_super(self, x):
        s = super
        return s().method(x)


def truths(x):
    class Odd:
        def __eq__(self, other):
            return [] if other else [1]

        __hash__ = None

    odd = Odd()
    if odd == x:
        return "equal"
    a = not (odd == x)
    return a, bool(odd == x), odd == x, odd != x


def many_locals(z):
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = z  # noqa: E741
    q, r = a, b
    s, t = q + r, c + d
    t, s = s, t
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t


BIG: dict[str, Any] = {}
exec(
    "def far(n):\n    x = 0\n    while n:\n        n -= 1\n        if n == 1:\n            continue\n"
    + "".join(f"        x += n * {1000 + i}\n" for i in range(400))
    + "        for i in range(2):\n"
    + "".join(f"            x ^= {5000 + i}\n" for i in range(300))
    + "    return x\n",
    BIG,
)
far = BIG["far"]

SAMPLES: list[tuple[Callable[..., Any], Callable[[], tuple]]] = [
    (plain, lambda: (1,)),
    (plain, lambda: (5, 6, 7, 8)),
    (loops, lambda: (9,)),
    (loops, lambda: (0,)),
    (nothing, lambda: ()),
    (no_locals, lambda: ()),
    *((handlers, lambda k=k: (k,)) for k in range(4)),
    *((raises, lambda k=k: (k,)) for k in ("index", "chain", "context", "unbound", "reraise", "")),
    *((withs, lambda k=k: (k,)) for k in range(3)),
    (closures, lambda: (1, 2)),
    (make_frees, lambda: (1,)),
    (make_frees(1)[0], lambda: (3,)),
    (make_frees_no_locals(), lambda: ()),
    (comprehensions, lambda: ([1, 2, 3],)),
    (comprehension_raises, lambda: ([2, 1, 0],)),
    (comprehension_raises, lambda: ([2, 1],)),
    (comprehension_cell, lambda: ([2, 1],)),
    (calls, lambda: (lambda f, a: f(a), 1, 2)),
    (strings, lambda: (1, 5)),
    (unpacking, lambda: ([1, 2, 3, 4],)),
    (unpacking, lambda: ([1],)),
    *((short_circuit, lambda a=a, b=b: (a, b)) for a in (None, 0, 1) for b in (None, 1)),
    *(
        (matching, lambda s=s: (s,))
        for s in ({"k": 1, "l": 2}, [1, 2, 3], 4 + 0j, "abc", "a", None, 5)
    ),
    *((groups, lambda k=k: (k,)) for k in range(3)),
    (nested_finally, lambda: ()),
    (imports, lambda: ()),
    (globals_and_del, lambda: ()),
    (asserts, lambda: (0,)),
    (asserts, lambda: (1,)),
    (frames, lambda: (1,)),
    (makes_class, lambda: (1,)),
    (Derived.__init__, lambda: (object.__new__(Derived),)),
    (Derived.method, lambda: (Derived(), 3)),
    (Derived.cell_self, lambda: (Derived(), 3)),
    (Derived.hidden_super, lambda: (Derived(), 3)),
    (truths, lambda: (1,)),
    (truths, lambda: (0,)),
    (many_locals, lambda: (1,)),
]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call comes to: its result in words, or its exceptions with the lines their tracebacks
    name."""
    try:
        return describe(call())
    except Exception as error:
        return chain(error)


def describe(value: Any) -> str:
    """repr without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def chain(error: BaseException | None) -> Any:
    if error is None:
        return None
    lines, entry = [], error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if code.co_filename == __file__ and code.co_name not in ("outcome", "<lambda>"):
            lines.append((code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return (
        type(error).__name__,
        describe(error.args),
        lines,
        chain(error.__cause__),
        chain(error.__context__),
    )
