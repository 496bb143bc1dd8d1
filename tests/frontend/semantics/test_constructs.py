"""Every construct of Python proper, one line or block each: captured in one graph without a break,
and equal to eager.

A block of TABLE is the body of a function of a tensor `x` and a list `log`; breaks at the end hold
what a break is made for.
"""

# ruff: noqa: F401, B006, B007, B018, B904, E701, E702, E731, F811, F821, F841, RUF005, RUF012
from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import logging
import math
import operator
import os
import re
import sys
import typing

import pytest
import torch

from .harness import check, vec


class Pt:
    def __init__(s, a):
        s.a = a


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def low(self):
        return self.name.lower()

    def go(self, x):
        return x + self.value


class Num(enum.IntEnum):
    A = 1
    B = 2


class Flg(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class DC:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.c = self.a + 1


@dataclasses.dataclass(frozen=True, order=True)
class FDC:
    a: int = 1
    b: float = 2.0


@dataclasses.dataclass(slots=True, kw_only=True)
class SDC:
    a: int = 1


NT = collections.namedtuple("NT", "a b", defaults=(5,))


class TNT(typing.NamedTuple):
    a: int
    b: int = 2

    def s(self):
        return self.a + self.b


class Desc:
    def __set_name__(self, owner, name):
        self.n = "_" + name

    def __get__(self, obj, cls):
        return self if obj is None else getattr(obj, self.n, 0)

    def __set__(self, obj, v):
        setattr(obj, self.n, v)


class NDesc:
    def __get__(self, obj, cls):
        return 7


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class GA:
    def __getattr__(self, n):
        if n == "dyn":
            return 3
        raise AttributeError(n)


class GAB:
    def __init__(self):
        self.q = 1

    def __getattribute__(self, n):
        if n == "z":
            return 9
        return object.__getattribute__(self, n)


class Ops:
    def __init__(self, v):
        self.v = v

    def __add__(self, o):
        return Ops(self.v + (o.v if isinstance(o, Ops) else o))

    def __radd__(self, o):
        return Ops(o + self.v)

    def __iadd__(self, o):
        self.v = self.v + o
        return self

    def __mul__(self, o):
        return NotImplemented

    def __rmul__(self, o):
        return Ops(o * self.v)

    def __neg__(self):
        return Ops(-self.v)

    def __eq__(self, o):
        return isinstance(o, Ops) and True

    def __lt__(self, o):
        return True

    def __hash__(self):
        return 5

    def __len__(self):
        return 3

    def __bool__(self):
        return True

    def __contains__(self, i):
        return i == 2

    def __iter__(self):
        return iter([1, 2, 3])

    def __getitem__(self, i):
        return i

    def __setitem__(self, i, v):
        self.v = (i, v)

    def __delitem__(self, i):
        self.v = i

    def __call__(self, x, *a, k=1, **kw):
        return x + k

    def __matmul__(self, o):
        return o

    def __index__(self):
        return 2

    def __float__(self):
        return 2.0

    def __int__(self):
        return 2

    def __round__(self, n=None):
        return 2

    def __abs__(self):
        return 4

    def __divmod__(self, o):
        return 1, 2

    def __pow__(self, o, m=None):
        return 8

    def __enter__(self):
        return self

    def __exit__(self, *a):
        return False

    def __repr__(self):
        return "Ops!"

    def __format__(self, s):
        return "fmt" + s

    def __reversed__(self):
        return iter([3, 2])

    def __invert__(self):
        return 1


class SeqOld:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i


class Meta(type):
    def __getitem__(cls, k):
        return k + 1

    @property
    def nick(cls):
        return cls.__name__ + "!"

    def make(cls):
        return cls()


class WithMeta(metaclass=Meta):
    N = 3


class A:
    def who(self):
        return 1

    @classmethod
    def cm(cls):
        return cls.K

    @staticmethod
    def sm(k):
        return k * 2

    K = 1


class B(A):
    def who(self):
        return super().who() + 10

    K = 2


class C(A):
    def who(self):
        return super().who() + 100


class D(B, C):
    def who(self):
        return super().who() + 1000

    @property
    def p(self):
        return self._p

    @p.setter
    def p(self, v):
        self._p = v

    @p.deleter
    def p(self):
        del self._p

    @functools.cached_property
    def cp(self):
        return 42


class LSub(list):
    def total(self):
        return sum(self)


class DSub(dict):
    def __missing__(self, k):
        return k * 2


class MyErr(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@functools.lru_cache
def cached(n):
    return n * 2


@functools.lru_cache(maxsize=None)
def cached_t(n):
    return n


@functools.singledispatch
def sd(x):
    return "obj"


@sd.register
def _(x: int):
    return "int"


@sd.register(list)
def _(x):
    return "list"


class SDM:
    @functools.singledispatchmethod
    def m(self, x):
        return 0

    @m.register
    def _(self, x: int):
        return 1


class PM:
    def go(self, k, x):
        return x * k

    twice = functools.partialmethod(go, 2)


@functools.total_ordering
class TO:
    def __init__(s, v):
        s.v = v

    def __eq__(s, o):
        return s.v == o.v

    def __lt__(s, o):
        return s.v < o.v


def deco(fn):
    @functools.wraps(fn)
    def inner(*a, **k):
        return fn(*a, **k) + 1

    return inner


@deco
def decorated(x):
    return x * 2


def deco_args(n):
    def d(fn):
        def inner(x):
            return fn(x) * n

        return inner

    return d


@contextlib.contextmanager
def cmgr(log):
    log.append("in")
    try:
        yield 5
    finally:
        log.append("out")


@contextlib.contextmanager
def swallow():
    try:
        yield
    except ValueError:
        pass


class Mgr:
    def __init__(s, log):
        s.log = log

    def __enter__(s):
        s.log.append("e")
        return s

    def __exit__(s, t, v, tb):
        s.log.append(t and t.__name__)
        return t is ValueError


G = 0
GL = []
GD = {}


class ABCBase(abc.ABC):
    @abc.abstractmethod
    def m(self): ...


class ABCImpl(ABCBase):
    def m(self):
        return 2


@typing.runtime_checkable
class RProto(typing.Protocol):
    def m(self) -> int: ...


TV = typing.TypeVar("TV")


class Gen(typing.Generic[TV]):
    def __init__(self, v):
        self.v = v


class DescUser:
    v = Desc()
    n = NDesc()


class NewC:
    def __new__(cls, v):
        self = super().__new__(cls)
        self.w = v
        return self

    def __init__(self, v):
        self.v = v + self.w


class Reg:
    tag = 0

    def __init_subclass__(cls, **k):
        cls.tag = 5


class SubReg(Reg):
    pass


class Callable_:
    def __call__(self, n):
        return n


class CountIt:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


def fn_many(x, a, b=2, *c, k=1, **kw):
    return x + a + b + sum(c) + k + kw["z"]


def fn_pos(a, b, /, c):
    return a + b + c


LOG = logging.getLogger("off")
LOG.setLevel(logging.ERROR)

LEFT_TO_PYTHON = r"""
it_cycle: c = itertools.cycle([1, 2]); return x + next(c) + next(c) + next(c)
it_take: return x + 1, list(itertools.takewhile(lambda v: v < 3, [1, 2, 5, 1])), list(itertools.dropwhile(lambda v: v < 3, [1, 2, 5, 1]))
it_groupby: return x + 1, [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3], key=lambda v: v % 2)]
it_groupby2: return x + 1, {k: len(list(g)) for k, g in itertools.groupby("aabc")}
it_tee: a, b = itertools.tee([1, 2]); return x + next(a), list(b), list(a)
it_batched: return x + 1, list(itertools.batched([1, 2, 3], 2)) if hasattr(itertools, "batched") else 0
it_compress: return x + 1, list(itertools.compress([1, 2, 3], [1, 0, 1])), list(itertools.filterfalse(lambda v: v > 1, [1, 2]))
heaps: h = [3, 1, 2]; heapq.heapify(h); heapq.heappush(h, 0); return x * heapq.heappop(h), h
next_by_name: it = iter([1, 2]); return x + it.__next__(), it.__iter__() is it
next_of_a_generator: g = (v for v in [1, 2]); return x + g.__next__()
object_equality: p = Pt(1); return x + 1, object.__eq__(p, p), object.__ne__(p, 1)
receiver_of_a_method: l = [1]; return x + 1, l.append.__self__ is l, l.append.__name__
frozenset_as_key: d = {frozenset((1, 2)): x}; return d[frozenset((2, 1))] + 1
partial_as_key: p = functools.partial(int); return {p: x}[p] + 1
missing_by_name: d = collections.defaultdict(list); return x + 1, d.__missing__("a"), d
"""  # no model needs these captured: each call is a break

TABLE = r"""
comprehensions: y = [i * x for i in range(3) if i]; z = {i: x + i for i in range(2)}; s = {i for i in range(3)}; g = sum(i for i in range(4)); return y, z, s, g, [[a + b for a in range(2)] for b in range(2)]
walrus: 
    if (n := len(log)) == 0: return x + n, n
star_unpack: a, *b, c = [1, 2, 3, 4]; return x + a, b, c, [*b, *range(2)], {**{"a": 1}, "b": 2}, (*b,), {*b}
chained_cmp: return x + (1 < 2 < 3), 1 < 3 > 2, not 1 == 1 != 2
slices: l = list(range(9)); l[1:3] = [9]; del l[0]; return x[0:1], l[::2], l[::-1], "abc"[1:], l[-1]
fstrings: n = 3; s = "q"; return x + 1, f"{n} {n!r:>5} {s:{n}} {n=} {3.14159:.2f} {x.shape} {s!a}"
match_all:
    r = []
    for v in (1, "a", [1, 2, 3], {"k": 1, "z": 2}, Pt(3), (1, 2), None, 3.5, FDC(1, 2.0), NT(1, 2), Colour.RED, DC(4)):
        match v:
            case 1 | 2: r.append("int")
            case [a, *rest] if len(rest) == 2: r.append(rest)
            case (a, b): r.append(a)
            case None: r.append(None)
            case Colour.RED: r.append("red")
            case _: r.append("other")
    return x + 1, r
lambdas: f = lambda a, b=2, *c, d=4, **e: a + b + d; return f(x), f(x, 1, 2, d=3, q=2)
nested_fn:
    n = 1
    def g(a, /, b, *, c=3):
        nonlocal n
        n += 1
        return a + b + c + n
    return g(x, 2), g(x, b=1, c=0), n
decorators: return decorated(x)
deco_made_inside:
    @deco_args(3)
    def h(x): return x + 1
    return h(x)
varargs:
    def g(*a, **k): return a, k
    return g(1, *[2, 3], **{"z": x + 1}), g()
while_else:
    i = 0
    while i < 3:
        i += 1
        if i == 2: continue
        x = x + i
    else: x = x * 2
    for j in range(3):
        if j == 1: break
    else: x = x * 100
    return x, i, j
for_everything:
    t = 0
    for i in range(3): t += i
    for i in [1, 2]: t += i
    for i in (1, 2): t += i
    for k in {"a": 1}: t += len(k)
    for k, v in {"a": 1}.items(): t += v
    for v in {"a": 1}.values(): t += v
    for v in sorted({3, 4}): t += v
    for a, b in zip([1], [2]): t += a * b
    for i, a in enumerate([5], 1): t += i * a
    for a in reversed([1, 2]): t = t * 2 + a
    for a in map(lambda q: q + 1, [1]): t += a
    for a in filter(None, [0, 1]): t += a
    for a in filter(lambda q: q > 1, [1, 2]): t += a
    for c in "ab": t += ord(c)
    for a in iter([1, 2].__iter__, 3): break
    for row in x: t = t + row
    for a in reversed({"q": 1}): t = t + len(a)
    for a in frozenset([4]): t = t + a
    for a in b"ab": t = t + a
    return t
iter_sentinel: it = iter([1, 2, 3]); r = [v for v in iter(lambda: next(it), 3)]; return x + 1, r
it_chain: return [x + i for i in itertools.chain([1], (2,))], list(itertools.chain.from_iterable([[1], [2]]))
it_product: return x + 1, list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2))
it_combinations: return x + 1, list(itertools.permutations([1, 2, 3], 2)), list(itertools.combinations(range(3), 2)), list(itertools.combinations_with_replacement([1, 2], 2))
it_islice: return x + 1, list(itertools.islice(itertools.count(2, 3), 2, 6, 2)), list(itertools.islice([1, 2, 3], 2))
it_repeat: return [x * i for i in itertools.repeat(2, 3)]
it_accumulate: return list(itertools.accumulate([x, x, x])), list(itertools.accumulate([1, 2, 3], operator.mul, initial=2))
it_starmap: return list(itertools.starmap(lambda a, b: x * a + b, [(1, 2), (3, 4)]))
it_zip_longest: return x + 1, list(itertools.zip_longest([1, 2], [3], fillvalue=0))
it_pairwise: return x + 1, list(itertools.pairwise([1, 2, 3]))
try_forms:
    r = []
    try: r.append(1)
    except ValueError: r.append(2)
    else: r.append(3)
    finally: r.append(4)
    try:
        try: raise KeyError("k")
        finally: r.append(5)
    except (KeyError, ValueError) as e: r.append(e.args)
    try:
        try: raise ValueError(1)
        except ValueError as e: raise TypeError("t") from e
    except TypeError as e: r.append((str(e), type(e.__cause__).__name__))
    try: assert len(r) > 99, "msg"
    except AssertionError as e: r.append(str(e))
    try: {}["q"]
    except KeyError as e: r.append(repr(e))
    try: [][1]
    except IndexError as e: r.append(str(e))
    try: 1 / 0
    except ZeroDivisionError as e: r.append(str(e))
    try: int("q")
    except ValueError as e: r.append(str(e))
    try: None.foo
    except AttributeError as e: r.append(str(e))
    try: undefined_name
    except NameError as e: r.append(str(e))
    return x + 1, r
custom_exc:
    try: raise MyErr(3)
    except MyErr as e: return x + e.code, str(e), e.args
exc_groups:
    r = []
    try: raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as eg: r.append(len(eg.exceptions))
    except* TypeError as eg: r.append(eg.exceptions[0].args)
    return x + 1, r
exc_group_plain:
    try: raise ExceptionGroup("g", [ValueError(1)])
    except ExceptionGroup as e: return x + len(e.exceptions), e.message
exc_notes:
    try:
        e = ValueError(1); e.add_note("n"); raise e
    except ValueError as q: return x + 1, q.__notes__
exc_with_tb:
    try: raise ValueError(1).with_traceback(None)
    except ValueError as e: return x + 1, e.__context__, e.__suppress_context__
exc_reraise:
    try:
        try: raise ValueError(1)
        except ValueError: raise
    except ValueError as e: return x + e.args[0]
exc_finally_return:
    def g():
        try: return 1
        finally: log.append(2)
    def h():
        for i in range(3):
            try: continue
            finally: log.append(i)
        try: raise ValueError
        except Exception: return 5
    return x + g() + h()
with_user:
    with Mgr(log) as m: y = x + 1
    with Mgr(log): raise ValueError(1)
    with Mgr(log) as a, Mgr(log) as b: y = y + 1
    return y
with_gen:
    with cmgr(log) as v: y = x + v
    return y
with_gen_exc:
    with swallow(): raise ValueError(1)
    try:
        with cmgr(log): raise KeyError(1)
    except KeyError: log.append("k")
    return x + 1
with_torch:
    with torch.no_grad(): y = x + 1
    with torch.enable_grad(): z = x + 2
    with torch.autocast("cpu", enabled=False): w = x + 3
    with torch.inference_mode(): q = x + 1
    with torch.set_grad_enabled(False): w = w + 1
    return y, z, w
with_stdlib:
    with contextlib.nullcontext(3) as n: y = x + n
    with contextlib.suppress(KeyError): {}["a"]
    return y
with_exitstack:
    with contextlib.ExitStack() as st:
        st.enter_context(Mgr(log)); st.callback(log.append, "cb")
        y = x + 1
    return y
with_closing:
    class_ = Mgr(log)
    with contextlib.ExitStack(): pass
    with contextlib.redirect_stdout(None) if False else contextlib.nullcontext(): return x + 1
deco_no_grad:
    @torch.no_grad()
    def g(x): return x * 2
    return g(x)
generators:
    def gen(n):
        for i in range(n):
            got = yield i
            if got: log.append(got)
        return 9
    def outer():
        r = yield from gen(2)
        yield r
    g = gen(3); a = next(g); b = g.send("hi"); g.close()
    return x + a + b, list(outer()), sum(v for v in gen(3)), [*gen(2)], max(gen(3))
gen_throw:
    def gen():
        try: yield 1
        except ValueError: yield 2
        finally: log.append("f")
    g = gen(); next(g); v = g.throw(ValueError()); g.close()
    return x + v
gen_class_iter:
    class_it = Ops(1)
    return [x + i for i in class_it], list(class_it), 2 in class_it
list_methods: l = [3, 1, 2]; l.sort(); l.sort(key=lambda v: -v, reverse=True); l.insert(0, 9); l.extend((4, 5)); l.pop(0); l.remove(4); l.reverse(); i = l.index(5); c = l.count(1); l2 = l.copy(); l += [1]; l *= 2; m = l + [1]; n = [0] * 3; l.clear(); return x + i + c, l2, l, m, n, [1, 2] < [1, 3], [1] == [1]
list_index_range: l = [1, 2, 1]; return x + l.index(1, 1), l == [1, 2, 1], 2 in l
dict_methods: d = {"a": 1}; d["b"] = 2; d.update(c=3); d.setdefault("z", 5); v = d.pop("a"); d.popitem(); e = d | {"q": 1}; d |= {"r": 2}; k = list(d.keys()); it = list(d.items()); g = d.get("no", 7); del d["b"]; f = dict.fromkeys([1, 2], 0); h = dict([(1, 2)], z=3); return x + v + g, d, e, k, it, f, h, "c" in d, len(d), d == {"c": 3}, list(reversed(d)), d.copy(), d.items() <= e.items()
dict_clear: d = {"a": 1}; d.clear(); d["q"] = x + 1; return d, {**d}, [*d]
set_methods: s = {1, 2}; s.add(3); s.discard(9); s.remove(1); t = s | {7}; u = s & {2}; w = s - {2}; z = s ^ {2}; s.update([4]); s |= {5}; i = s.issubset({1, 2, 3, 4, 5}); p = s.isdisjoint({99}); f = frozenset(s); c = s.copy(); s.intersection_update({2, 3}); return x + len(s), sorted(t), u, sorted(w), sorted(z), i, p, sorted(f), sorted(c), s <= {2, 3}, s == {2, 3}, s.union([1]), s.difference({2}), s.symmetric_difference({3})
set_pop: s = {5}; return x + s.pop(), len(s), f"{len(s)}"
tuple_methods: t = (1, 2, 1); return x + t.count(1) + t.index(2), t + (3,), t * 2, t < (2,), hash(t) == hash((1, 2, 1)), t[1:], 1 in t
str_methods: s = "Hello, World"; return x + len(s), s.upper().split(", "), s.replace("l", "L"), ",".join(["a", "b"]), s.startswith("He"), s.find("W"), "%s-%d" % ("a", 3), "{} {k}".format(1, k=2), s.strip("d"), s[::-1], s * 2, s.encode(), "a" < "b", s.partition(","), "1".zfill(3), s.isalpha(), "a b".title(), s.center(20), s.removeprefix("He"), "ab".translate({97: "x"}), "%05.2f" % 2.5
int_float: n = 5; f = 2.5; return x + n.bit_length(), f.is_integer(), n.to_bytes(2, "big"), int("12"), int("ff", 16), float("1.5"), round(2.567, 1), divmod(7, 2), 7 // 2, -7 % 3, 2 ** 10, abs(-3), pow(2, 3, 5), complex(1, 2).imag, (3+4j).conjugate(), f.hex(), n.real, 5 & 3, 5 | 3, 5 ^ 1, ~5, 1 << 3, bool(0), True + 1, hex(255), bin(3), oct(8), chr(97), ord("a"), n.numerator, f.as_integer_ratio(), float("inf"), int.from_bytes(b"ab", "big"), max(1, 2), min([3, 1]), sum([1, 2], 3)
slice_range: s = slice(1, 5, 2); r = range(2, 10, 3); return x + s.start, s.indices(4), list(r), r[1], len(r), 5 in r, r.index(5), r.start, r[::-1], r == range(2, 10, 3), list(reversed(r)), r.count(2), min(r)
deque_: d = collections.deque([1, 2], maxlen=3); d.append(3); d.append(4); d.appendleft(0); v = d.pop(); w = d.popleft(); d.rotate(1); d.extend([7, 8]); d.extendleft([9]); return x + v + w, list(d), len(d), d[0], d.maxlen, 8 in d, d
ordered: o = collections.OrderedDict(a=1, b=2); o.move_to_end("a"); v = o.popitem(last=False); return x + v[1], o, list(o)
defaultdict_: d = collections.defaultdict(list); d["a"].append(x + 1); d["b"]; n = collections.defaultdict(int); n["q"] += 2; return d, n, len(d), d.default_factory
counter_: c = collections.Counter("aab"); c.update("b"); c["z"] += 1; return x + c["a"], c.most_common(1), c["none"], c + collections.Counter("a"), sorted(c.elements()), c.total()
namedtuple_: t = NT(1); u = TNT(3); return x + t.a, t.b, t._replace(a=4), t._asdict(), NT._fields, u.s(), NT._make([1, 2]), t == (1, 5), [*t], u[0]
dataclass_: d = DC(3); d.b.append(1); f = FDC(); s = SDC(a=4); return x + d.c + s.a, d, f < FDC(2), f == FDC(), dataclasses.replace(f, a=3), dataclasses.asdict(d), dataclasses.astuple(f), [q.name for q in dataclasses.fields(d)], hash(f) == hash(FDC()), repr(f), dataclasses.is_dataclass(d)
enum_: return x + Colour.RED.value, Colour(2), Colour["RED"], Colour.RED is Colour.RED, Colour.RED == Colour.BLUE, Colour.RED.name, list(Colour), Colour.RED.low, Colour.BLUE.go(x), Num.A + 1, Num.B > Num.A, Colour.RED in {Colour.RED: 1}, len(Colour), isinstance(Colour.RED, Colour)
enum_flag: return x + 1, Flg.A | Flg.B, Flg.A in (Flg.A | Flg.B), Flg(1)
frozenset_: f = frozenset([1, 2]); return x + len(f), f | {3}, 1 in f, sorted(f), f == {1, 2}, f.union([5]), hash(f) == hash(frozenset([1, 2]))
properties: d = D(); d.p = 4; v = d.p; del d.p; return x + v + d.cp, d.cp, hasattr(d, "p")
descriptors:
    class_ = DescUser(); class_.v = 5
    return x + class_.v + class_.n, DescUser.v is not None
slots_: s = Slots(); s.b = x + 1; return s.a, s.b, hasattr(s, "c")
getattr_: g = GA(); return x + g.dyn, hasattr(g, "no"), getattr(g, "no", 5)
getattribute_: g = GAB(); return x + g.z + g.q
operators: a = Ops(1); b = a + 2; c = 3 + a; a += 1; d = 2 * a; e = -a; return x + b.v + c.v + a.v + d.v + e.v, a == b, a != b, a < b, a > b, len(a), bool(a), 2 in a, a[5], a(x), a @ 3, a(x, 1, k=2, q=3)
operators2: a = Ops(1); a[1] = 2; del a[3]; return x + abs(a), divmod(a, 1), a ** 2, ~a, float(a), int(a), round(a), list(reversed(a)), repr(a), f"{a:z}", [1, 2, 3][a], str(a)
old_iter: return [x + i for i in SeqOld()], 1 in SeqOld(), list(SeqOld())
call_methods: return x + A.cm() + B.cm() + A.sm(2) + B().sm(1)
super_: return x + D().who()
mro: return x + 1, [c.__name__ for c in D.__mro__], D.__name__, D.__bases__, D.__module__, type(D()).__qualname__
metaclass: return x + WithMeta[3], WithMeta.nick, WithMeta.make().N, type(WithMeta) is Meta, isinstance(WithMeta, Meta)
inst_queries: return x + 1, isinstance(x, torch.Tensor), isinstance(1, (int, str)), issubclass(D, A), hasattr(x, "shape"), getattr(x, "nope", 3), callable(print), type(1) is int, isinstance(D(), A), type(x) is torch.Tensor, isinstance(None, type(None)), isinstance([], list | dict), isinstance(1, typing.Union[int, str]) if False else 1
abc_: return x + ABCImpl().m(), isinstance(ABCImpl(), ABCBase), isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping)
protocol: return x + 1, isinstance(ABCImpl(), RProto)
generic: g = Gen[int](3); h = Gen(4); return x + g.v + h.v, typing.Optional[int] is not None
f_partial: p = functools.partial(torch.add, x, alpha=2); q = functools.partial(p, x); return q(), p(x), p.func is torch.add, p.keywords
f_reduce: return functools.reduce(lambda a, b: a + b, [x, x, x]), functools.reduce(operator.mul, [1, 2, 3], 2)
f_lru: return x + cached(3) + cached(3), cached_t("t")
f_lru_info: cached(5); return x + 1, cached.__wrapped__(2)
f_wraps:
    def w(fn):
        @functools.wraps(fn)
        def inner(*a): return fn(*a)
        return inner
    g = w(decorated); return g(x), g.__name__
f_sd: return x + 1, sd(1), sd([]), sd("s")
f_sdm: return x + SDM().m(1) + SDM().m("s")
f_pm: return PM().twice(x)
f_total: return x + 1, TO(1) <= TO(2), TO(1) >= TO(2), TO(2) > TO(1)
op_getters: g = operator.itemgetter(1); h = operator.itemgetter(0, 2); a = operator.attrgetter("shape"); m = operator.methodcaller("sum", 0); return x + g([1, 2, 3]), h([1, 2, 3]), a(x), m(x), operator.attrgetter("a")(Pt(3)), operator.attrgetter("a.a")(Pt(Pt(3)))
op_funcs: return operator.add(x, 1), operator.mul(2, x), operator.getitem([1, 2], 1), operator.not_(0), operator.truth(1), operator.concat([1], [2]), operator.index(3), operator.length_hint([1]), operator.iadd([1], [2]), operator.contains([1], 1), operator.countOf([1, 1], 1), operator.indexOf([1, 2], 2), operator.is_(x, x), operator.matmul(x, x), operator.neg(x), operator.pow(x, 2), operator.lt(1, 2), operator.floordiv(7, 2), operator.abs(-1), operator.inv(1)
math_: return x + math.sqrt(4) + math.pi, math.floor(2.5), math.ceil(2.1), math.prod([1, 2]), math.gcd(4, 6), math.isclose(1.0, 1.0), math.log(2), math.inf, math.isnan(math.nan), math.factorial(4), math.comb(4, 2), math.fsum([.1, .2]), math.hypot(3, 4), math.trunc(2.5), math.copysign(1, -2), math.dist([0, 0], [3, 4]), math.radians(180)
copy_: p = Pt([1, x]); q = copy.copy(p); r = copy.deepcopy([1, {"a": [2]}]); return x + 1, q.a is p.a, r, copy.copy([1]), copy.deepcopy((1, 2)), copy.copy({1: 2})
copy_obj: p = Pt([1, 2]); q = copy.deepcopy(p); q.a.append(3); return x + 1, p, q, p.a is q.a
typing_: 
    v: int = 3
    def g(a: int) -> typing.Optional[int]: return a
    return x + typing.cast(int, g(v)), typing.TYPE_CHECKING
log_:
    y = x + 1
    logging.getLogger("q").info("a %s", 1)
    return y * 2
log_off:
    y = x + 1
    LOG.debug("a %s", 1)
    if LOG.isEnabledFor(logging.DEBUG): y = y + 1
    return y * 2
list_sub: l = LSub([1, 2]); l.append(3); return x + l.total(), len(l), l[0], sorted(l), isinstance(l, list), list(l), l
dict_sub: d = DSub(a=1); d["b"] = 2; return x + d["zz"].__len__(), d["a"], len(d), dict(d), list(d), d
global_mut:
    global G
    G = 3
    G += 1
    GL.append(x + 1); GD["k"] = 2
    return x + G, len(GL) and 1
attr_mut: p = Pt(1); p.a += 1; p.b = p.c = x; p.a, p.d = 3, 4; A.K; return p, x + p.a
module_attr:
    import types as ty
    sysm = sys.modules[__name__]
    sysm.GX = 3
    return x + sysm.GX
del_global:
    global GDEL
    GDEL = 1
    del GDEL
    return x + 1
local_import:
    import math as m
    from collections import OrderedDict as O
    import torch.nn.functional as F
    return F.relu(x) + m.pi, O
dunder_name: return x + 1, __name__
str_of_obj: return x + 1, str([1, "a"]), repr({"a": (1, 2)}), str((1,)), repr(DC(1)), str(Colour.RED), repr(Colour.RED), str(None), str(x.shape), str(torch.float32), repr({1, 2}), str(x.device)
str_tensor_list: return x + 1, len(str([1, 2.5, None, True]))
sorted_tensors: return sorted([3, 1, 2]), sorted(["b", "a"], key=str.lower), sorted({"b": 1, "a": 2}.items(), key=lambda kv: kv[1]), x + 1, sorted([(1, "b"), (1, "a")])
min_max: return x + max([1, 3, 2]), min(3, 1), max("abc"), max([1, 2], key=lambda v: -v), max([], default=0), torch.max(x), any([0, 1]), all([1, 1]), any(v > 2 for v in [1, 3]), sum([[1], [2]], [])
zip_strict: return x + 1, list(zip([1], [2], strict=True)), dict(zip("ab", [1, 2])), list(zip(*[(1, 2), (3, 4)]))
any_all_gen: return x + 1, all(isinstance(v, int) for v in [1, 2]), any(v is None for v in [1])
print_flush_false: return x + 1
nested_data: d = {"a": [{"b": (x, x + 1)}]}; d["a"][0]["c"] = d["a"]; return d["a"][0]["b"][1] * 2
aug_assign: l = [1]; m = l; l += [2]; d = {"a": 1}; d["a"] += 1; y = x.clone(); y += 1; y *= 2; return l is m, d, y
del_forms: l = [1, 2, 3]; del l[0]; d = {1: 2}; del d[1]; p = Pt(1); del p.a; a = 1; del a; return x + len(l), hasattr(p, "a")
ternary: return (x if len(log) == 0 else x + 1) + 1, None or 3, 0 and 5, not None
str_iter: return x + 1, [c for c in "abc"], "".join(c.upper() for c in "abc"), list(enumerate("ab")), dict(enumerate("ab"))
unpack_nested: (a, (b, *c)), d = (1, (2, 3, 4)), 5; return x + a + b + d, c
unpack_str: a, b = "xy"; (c,) = {3}; d, e = {"k": 1, "z": 2}; return x + c, a, b, d, e
unpack_tensor: a, b = x; c, *d = x; return a + b + c, d
unpack_gen: a, b = (i for i in range(2)); a1, b1 = map(int, "12"); return x + a + b + a1
comp_scope: n = 5; return [n + i + x for i in range(2)], [y for y in (n, n + 1)], [(lambda: i)() for i in range(2)]
late_bind: fs = [lambda: i for i in range(3)]; return x + sum(f() for f in fs)
fn_attrs:
    def g(): return 1
    g.k = 3
    return x + g.k, g.__name__, g.__defaults__
fn_defaults_mut:
    def g(a, l=[]):
        l.append(a); return l
    g(1); return x + len(g(2))
closure_loop:
    fs = []
    for i in range(3):
        def g(i=i): return x + i
        fs.append(g)
    return [f() for f in fs]
bound_store: f = log.append; f(1); g = x.add; return g(1), log
method_compare: p = Ops(1); return x + 1, p.__len__ == p.__len__, p.__len__() == 3
obj_key: p = Pt(1); d = {p: 1, x.dtype: 2, None: 3, (1, "a"): 4}; return x + d[p], d[(1, "a")], p in d
tensor_key: d = {x: 1}; return x + d[x], x in d, list(d)[0] is x
set_of_objs: p = Pt(1); s = {p, p}; return x + len(s), p in s
setobj_cls: s = {int, str}; return x + 1, int in s, type(1) in s
bisect_: import bisect; return x + bisect.bisect([1, 3, 5], 3)
sys_: return x + 1, sys.version_info >= (3, 8), sys.maxsize > 0, sys.byteorder
sys_exc: 
    try: raise ValueError(1)
    except ValueError: return x + 1, sys.exc_info()[0] is ValueError
hash_: return x + 1, hash("a") == hash("a"), hash(1), hash((1, 2)) == hash((1, 2)), hash(None) == hash(None)
type_call: return x + type("a" * 2)(3) .__len__() if False else x + int.__add__(1, 2), str.upper("a"), list.append(log, 1), dict.get({"a": 1}, "a"), object.__eq__(1, 1) is True
new_override:
    p = NewC(3); return x + p.v
init_subclass: return x + SubReg.tag
class_call: return x + Callable_()(2)
iter_next_cls: return [x + v for v in CountIt(3)], list(CountIt(2))
slots_dc: s = SDC(a=2); s.a = 5; return x + s.a, s
many_args: return fn_many(x, 1, 2, *[3], k=4, **{"z": 5})
posonly: return fn_pos(1, 2, c=x)
operator_changes:
    d = {"a": x}
    operator.setitem(d, "b", 1); operator.delitem(d, "a")
    return x + d["b"], operator.is_not(d, None), d
enum_member_in_class: return x + 1, Colour.RED in Colour, Flg.A in Flg
ended_iterators:
    ends = iter([]), iter(()), iter({1}), iter({1: 2}), itertools.islice([1], 1)
    return x + 1, [(next(one, None), next(one, None), next(one, None)) for one in ends], ends[:2]
keyword_defaults_elsewhere: return x + 1, functools.wraps(fn_pos)(lambda *a, k=2: a)(1)
context_of_chain:
    a, b = ValueError("a"), KeyError("b")
    try:
        try: raise a from b
        except ValueError: raise b
    except KeyError as e: return x + 1, e.__context__ is a, a.__cause__ is b, a.__suppress_context__, a.__context__
parameters_of_a_signature: p = inspect.signature(fn_many).parameters; return x + 1, "k" in p, "nothing" in p, len(p), list(p)
fields_of_the_system: return x + len(sys.version_info), 3 in sys.version_info[:1], [n for n in sys.float_info][:2]
receiving_class: return x + 1, torch.zeros(2, dtype=float), x.to(float)
binary_type_error:
    try: return x + 1 + (1 - "a")
    except TypeError as e: return x + 1, str(e)
"""


def blocks(table: str) -> dict[str, str]:
    """A table by name, as bodies."""
    found: dict[str, list[str]] = {}
    for line in table.strip("\n").split("\n"):
        if line.startswith(" "):
            found[name].append(line)
        else:
            name, _, body = line.partition(":")
            found[name] = ["    " + body.strip()] if body.strip() else []
    return {name: "\n".join(lines) for name, lines in found.items()}


BLOCKS = blocks(TABLE)
# Rows with a use that Python runs at a break.
BROKEN = frozenset(
    "counter_ op_getters it_combinations it_starmap it_zip_longest f_sdm f_sd for_everything iter_sentinel exc_groups exc_group_plain exc_notes dataclass_ str_of_obj metaclass protocol del_global copy_ copy_obj it_accumulate it_pairwise".split()
)
PYTHONS = blocks(LEFT_TO_PYTHON)


@pytest.mark.parametrize("name", BLOCKS)
def test_construct(name, tmp_path):
    file = tmp_path / f"{name}.py"  # so that tracebacks have their lines
    file.write_text(f"def f(x, log):\n{BLOCKS[name]}\n")
    exec(compile(file.read_text(), str(file), "exec"), globals())
    broken = name in BROKEN
    check(
        globals()["f"],
        vec(2),
        [],
        globals=("G", "GL", "GD", "GX"),
        graphs=None if broken else 1,
        breaks=None if broken else (),
    )


@pytest.mark.parametrize("name", PYTHONS)
def test_what_is_left_to_python_breaks_and_is_right(name, tmp_path):
    file = tmp_path / f"{name}.py"
    file.write_text(f"def f(x, log):\n{PYTHONS[name]}\n")
    exec(compile(file.read_text(), str(file), "exec"), globals())
    handle = check(globals()["f"], vec(2), [], graphs=None, breaks=None)
    if name != "it_batched" or hasattr(itertools, "batched"):
        breaks = {one.id for one in handle.framejit.explain().breaks}
        assert breaks & {"unknown-call", "generator", "unsupported-value"}


def test_items_of_a_signature():
    def f(x, log):
        parameters = inspect.signature(fn_pos).parameters
        return x + 1, parameters["c"].name, list(parameters), sys.version_info[0]

    check(f, vec(2), [])


class WithSignature:
    def method(self, a, /, b: int, c=2, *rest, d, e="e", **others: typing.Any) -> None: ...


@pytest.mark.parametrize(
    "given",
    [WithSignature().method, WithSignature.method, fn_pos],
    ids=["bound", "method", "function"],
)
def test_parameters_of_a_function(given):
    def f(x):
        found = inspect.getfullargspec(given)
        found.args.append("more")
        return x + len(found.args), tuple(found), type(found)

    check(f, vec(2))


KINDS = frozenset({tuple, collections.namedtuple, dict})  # noqa: PYI024


def test_a_set_with_functions_in_it():
    def f(x):
        return x + (tuple in KINDS) + 2 * (collections.namedtuple in KINDS) + 4 * (list in KINDS)

    check(f, torch.ones(2))
