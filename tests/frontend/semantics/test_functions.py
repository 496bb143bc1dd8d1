"""Functions: arguments of every kind, closures, nested functions, methods, decorators,
recursion."""

from __future__ import annotations

import collections
import functools
import weakref

import pytest
import torch

from .harness import check, strict_compile, vec

SCALE = 3
TABLE = {"k": 2}
LOG: list = []
COUNT = 0


def helper(x, *, scale=2):
    return x * scale


def collects(x, *rest, flag=True, **named):
    return x + len(rest), rest, flag, named


def mutable_default(x, seen=[]):  # noqa: B006 - the point
    seen.append(1)
    return x + len(seen)


def three_deep(x, n):
    return x + n if n == 0 else three_deep(x * 2, n - 1)


def counting():
    global COUNT
    COUNT += 1
    return COUNT


def test_defaults_and_keywords():
    def f(x, a=1, *args, b=2, **kwargs):
        return x + a + b, args, kwargs

    check(f, vec(2))
    check(f, vec(2), 5, 6, 7, kwargs={"b": 3, "z": 9})


def test_positional_only():
    def f(x, /, y, *, z):
        def g(a, /, b=2, **rest):
            return a + b, rest

        return g(x, a=4, b=y), z

    check(f, vec(2), 3, kwargs={"z": 1})


def test_calls_with_stars():
    def f(x, items, table):
        return collects(x, *items, 4, flag=False, **table, extra=x), collects(*[x, 1])

    check(f, vec(2), [1, 2], {"q": 1})


def test_wrong_arguments_are_a_type_error():
    def f(x):
        return helper(x, 3)

    check(f, vec(2), graphs=None, breaks=None)


def test_missing_argument():
    def two(a, b):
        return a + b

    def f(x):
        return two(x)

    check(f, vec(2), graphs=None, breaks=None)


def test_multiple_values_caught():
    def one(a):
        return a

    def f(x):
        try:
            return one(x, a=3)
        except TypeError as error:
            return str(error), x + 1

    check(f, vec(2), graphs=None, breaks=("exception-leaves",))


@pytest.mark.parametrize(
    "call",
    [
        "few(x)",
        "few(x, 1, 2, 3)",
        "few(x, 1, z=2)",
        "none(1)",
        "kw(x)",
        "few(1, 2, b=3)",
        "posonly(a=1)",
    ],
)
def test_texts_of_argument_errors(call):
    def few(a, b):
        return a

    def none():
        return 1

    def kw(a, *, need):
        return a

    def posonly(a, /):
        return a

    scope = {"few": few, "none": none, "kw": kw, "posonly": posonly}
    exec(
        f"def f(x, few, none, kw, posonly):\n    try:\n        return {call}\n    except TypeError as e:\n        return str(e), x + 1",
        scope,
    )
    check(scope["f"], vec(2), few, none, kw, posonly, graphs=None, breaks=("exception-leaves",))


def test_global_read_and_written():
    def f(x):
        return x * counting(), COUNT

    check(f, vec(2), globals=("COUNT",))


def test_global_list_appended():
    def f(x):
        LOG.append(x + 1)
        return len(LOG)

    check(f, vec(2), globals=("LOG",))


def test_global_dict_written():
    def f(x):
        TABLE["new"] = x + 1
        return TABLE["k"]

    check(f, vec(2), globals=("TABLE",))


def test_global_bound_first_time():
    def f(x):
        global FRESH
        FRESH = x + 1
        return FRESH

    check(f, vec(2), globals=("FRESH",))


def test_global_changed_between_calls():
    global SCALE
    from .harness import strict_compile

    def f(x):
        return x * SCALE

    g = strict_compile(f)
    x = vec(3)
    assert torch.equal(g(x), x * 3)
    SCALE = 4
    try:
        assert torch.equal(g(x), x * 4)
    finally:
        SCALE = 3


def test_mutable_default_grows():
    def f(x):
        return mutable_default(x)

    saved = list(mutable_default.__defaults__[0])
    from .harness import strict_compile

    g = strict_compile(f)
    x = vec(2)
    try:
        for n in range(1, 5):
            assert torch.equal(g(x), x + n + len(saved))
    finally:
        mutable_default.__defaults__[0][:] = saved


def test_own_mutable_default():
    def f(x, seen=[1]):  # noqa: B006
        seen.append(x)
        return len(seen), x + 1

    from .harness import strict_compile

    g = strict_compile(f)
    assert [g(vec(2))[0] for _ in range(3)] == [2, 3, 4]


def test_closure_read():
    k = 5
    t = vec(2)

    def f(x):
        return x * k + t

    check(f, vec(2))


def test_closure_written():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x + n

    check(f, vec(2))


def test_closure_list_and_tensor_written():
    seen = []
    state = vec(2)

    def f(x):
        nonlocal state
        seen.append(x * 2)
        state = state + x
        return state

    check(f, vec(2))


def test_nonlocal_through_inner_function():
    def f(x):
        total = 0

        def add(k):
            nonlocal total
            total = total + k
            return total

        add(1)
        add(x)
        return total, add(2)

    check(f, vec(2))


def test_returned_closure():
    def f(x):
        y = x + 1
        n = 0

        def inner(z):
            nonlocal n
            n += 1
            return y + z + n

        return inner, y

    check(f, vec(2))


def test_returned_closures_share_a_cell():
    def f(x):
        n = x + 1

        def get():
            return n

        def put(v):
            nonlocal n
            n = v

        put(x * 3)
        return get, put

    check(f, vec(2))


def test_returned_lambda_with_defaults():
    def f(x):
        return lambda a, b=x + 1, *, c=2: a + b + c

    check(f, vec(2))


def test_recursive_inner_function():
    def f(x):
        def down(n):
            return x if n == 0 else down(n - 1) + 1

        return down(3)

    check(f, vec(2))


def test_returned_recursive_function():
    def f(x):
        def down(n):
            return x if n == 0 else down(n - 1) + 1

        return down, x + 1

    check(f, vec(2))


def test_recursion():
    def f(x):
        return three_deep(x, 4)

    check(f, vec(2))


def test_lambdas_in_a_loop_share_the_variable():
    def f(x):
        fs = [lambda: i + x for i in range(3)]
        return [g() for g in fs]

    check(f, vec(2))


class Named:
    """It has a method to be wrapped."""

    def scaled(self, x, k: int = 2):
        """Scales."""
        return x * k

    scaled.tag = "t"  # type: ignore[attr-defined]

    @classmethod
    def made(cls, x):
        return x - 1


def test_a_bound_method_wrapped():
    def f(x):
        def wrapper(*args):
            return method(*args) + 1

        made = []
        for method in (Named().scaled, Named.made):
            wrapped = functools.wraps(method)(wrapper)
            made += [
                wrapped(x),
                wrapped.__name__,
                wrapped.__qualname__,
                wrapped.__doc__,
                wrapped.__module__,
                wrapped.__wrapped__(x),
                vars(wrapped).keys(),
            ]
        return made[:6], made[7:13], "tag" in made[6], wrapper.__annotations__

    check(f, vec(2))


def test_decorators():
    def twice(g):
        @functools.wraps(g)
        def inner(*args, **kwargs):
            return g(*args, **kwargs) * 2

        return inner

    @twice
    def add(x, k=1):
        return x + k

    def f(x):
        @twice
        def local(y):
            return y - 1

        return add(x, k=4), local(x), local.__name__, add.__wrapped__(x)

    check(f, vec(2))


def test_partial():
    def f(x, p):
        q = functools.partial(helper, scale=4)
        return p(x), q(x), q.keywords, functools.partial(q, x)()

    check(f, vec(2), functools.partial(helper, scale=5))


def test_partial_returned():
    def f(x):
        return functools.partial(helper, x + 1, scale=4)

    check(f, vec(2))


def test_reduce_map_filter():
    def f(x):
        return (
            functools.reduce(lambda a, b: a + b, [x, x, x]),
            list(map(lambda v: v * 2, [x, 1])),
            list(filter(None, [0, 1, 2])),
        )

    check(f, vec(2))


def test_function_as_argument():
    def f(x, g):
        return g(x)

    check(f, vec(2), lambda x: x + 1)


def test_function_attributes():
    def g(x):
        return x * g.factor

    g.factor = 3

    def f(x):
        return g(x)

    check(f, vec(2))


def test_bound_methods():
    class Thing:
        def __init__(self, k):
            self.k = k

        def apply(self, x):
            return x * self.k

    def f(x, thing, method):
        m = thing.apply
        return m(x), method(x), m.__self__ is thing, thing.apply == method, [m, method]

    thing = Thing(3)
    check(f, vec(2), thing, thing.apply)


def test_lru_cache():
    @functools.lru_cache
    def size(n):
        return n * 2

    def f(x):
        return x * size(3)

    check(f, vec(2))


def test_immediately_called_and_shadowed_names():
    def f(x):
        x = (lambda x: x + 1)(x)
        len = 3  # noqa: A001
        return x * len

    check(f, vec(2))


def test_unbound_local_caught_and_deleted_name():
    def f(x):
        y = x + 1
        del y
        try:
            return y
        except UnboundLocalError as error:
            return str(error), x * 2

    check(f, vec(2))


def test_annotations_and_docstrings():
    def f(x):
        def g(a: int, b: "str" = "q") -> torch.Tensor:
            """Adds."""
            return x + a

        return g(1), g

    check(f, vec(2))


def test_unused_arguments_are_not_guarded():
    from .harness import strict_compile

    def f(x, unused):
        return x + 1

    g = strict_compile(f)
    for unused in (1, "a", [1], None, vec(3)):
        g(vec(2), unused)
    assert g.framejit.compiles == 1


def test_type_queries():
    def f(x, obj):
        return (
            isinstance(x, torch.Tensor),
            isinstance(obj, int | str),
            issubclass(bool, int),
            callable(f),
            type(obj).__name__,
            hasattr(obj, "real"),
            x + 1,
        )

    f_ = f
    del f_
    check(f, vec(2), 3)


def test_the_dictionary_of_a_function_made_inside():
    def f(x):
        def made(y):
            return y * 2

        made.a = 1
        held = made.__dict__
        held["b"] = x
        held.pop("missing", None)
        seen = dict(held)
        del held["a"]
        made.__dict__.update(c=3)
        return (
            made(x),
            seen,
            hasattr(made, "a"),
            made.__dict__ is held,
            len(held),
            "b" in vars(made),
            made,
        )

    check(f, vec(2))


def test_builtins_made_of_equal_parts_are_equal():
    class Alone:
        pass

    def f(x, code, twin):
        equal = (
            Alone.__init_subclass__ == Alone.__init_subclass__,
            code == twin,
            Alone.__init_subclass__ != Alone.__subclasshook__,
        )
        same = Alone.__init_subclass__ is Alone.__init_subclass__, code is twin
        return (
            x + 1,
            equal,
            same,
            {Alone.__init_subclass__: 1}.get(Alone.__init_subclass__),
            len({code, twin}),
        )

    check(f, vec(2), f.__code__, f.__code__.replace())


@functools.lru_cache
def table(n):
    return torch.arange(float(n))


@functools.lru_cache
def parts(n, kind="list"):
    return [n, kind]


FACTOR = [1]


@functools.lru_cache
def scaled(n):
    return n * FACTOR[0]


def test_a_cache_holds_one_object():
    def f(x, n):
        kept, held, next_one, other = parts(n), table(n), table(n + 1), parts(n, kind="other")
        held.add_(1)
        kept.append(x * 2)
        return x + table(n), held is table(n), next_one, kept is parts(n), other

    handle = strict_compile(f, backend="eager")
    for run in (f, handle):
        table.cache_clear(), parts.cache_clear()
        for turn in (1, 2, 3):
            results = run(vec(3), 3)
            torch.testing.assert_close(results[0], vec(3) + torch.arange(3.0) + turn)
            assert results[1:2] + results[3:] == (True, True, [3, "other"])
            assert results[2] is table(4) and len(parts(3)) == 2 + turn
    assert handle.framejit.compiles == 1 and not handle.framejit.explain().breaks


CALLED: list = []


@functools.lru_cache
def noting(n):
    CALLED.append(n)
    return n * 2


@functools.lru_cache
def plain(n, by=3):
    made = []
    made.append(n * by)
    return made[0]


@functools.lru_cache
def doubled(x):
    return x * 2


class Sized:
    factor = 3

    @functools.lru_cache  # noqa: B019
    def times(self, n):
        return self.factor * n

    @functools.lru_cache  # noqa: B019
    def ones(self, n):
        return torch.ones(n) * self.factor

    @functools.lru_cache  # noqa: B019
    def halved(self, sizes, kept=()):
        made = {}
        for index, size in enumerate(sizes):
            made[index] = size // 2
        return tuple(made.values()), kept, None


SIZED = Sized()
CACHED = (scaled, noting, plain, doubled, Sized.times, Sized.ones, Sized.halved)


def changing(use):
    def f(x):
        FACTOR[0] = 7
        return use(x)

    return f


def without_gradients(use):
    def f(x):
        with torch.no_grad():
            return use(x)

    return f


@pytest.mark.parametrize("use, before, breaks", [
    (changing(lambda x: x * noting(3)), None, 1),
    (changing(lambda x: x * scaled(3)), None, 1),
    (changing(lambda x: x * scaled(3)), lambda: scaled(3), 0),
    (changing(lambda x: x * plain(3) * plain(3, by=4)), None, 0),
    (changing(lambda x: x * SIZED.times(4)), None, 0),
    (changing(lambda x: x * SIZED.times(4)), lambda: (SIZED.times(4), setattr(SIZED, "factor", 5)), 0),
    (changing(lambda x: x + noting(2 + plain(1))), lambda: noting(5), 0),
    (without_gradients(lambda x: x * noting(3)), None, 1),
    (without_gradients(lambda x: x * plain(3)), None, 0),
    (lambda x: x * SIZED.times(4) * Sized.times(SIZED, 5), None, 0),
    (lambda x: x * [SIZED.times][0](4), None, 0),
    (lambda x: (x + SIZED.ones(2), SIZED.ones(2) is SIZED.ones(2)), None, 0),
    (lambda x: x * SIZED.halved((4, 6), kept=(SIZED, 2))[0][1], None, 0),
    (lambda x: x * SIZED.halved((4, 6), kept=(3, 2))[0][1], None, 0),
    (lambda x: (doubled(x) is doubled(x), doubled(x)), None, 3),
    (lambda x: x * noting([3]), None, 1),
    (lambda x: (x * 2, scaled.__name__, scaled.__wrapped__(3), hasattr(scaled, "nothing"), scaled is scaled.__get__(None, Sized)), None, 0),
], ids=lambda use: "")  # fmt: skip
def test_a_cache_holds_what_python_lets_it_hold(use, before, breaks):
    def asked(run):
        for function in CACHED:
            function.cache_clear()
        CALLED.clear()
        FACTOR[0], SIZED.factor = 1, 3
        if before is not None:
            before()
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append(run(vec(2)))
            except Exception as error:
                outcomes.append((type(error), str(error)))
        infos = [function.cache_info() for function in CACHED]
        return repr(outcomes), list(CALLED), [(info.misses, info.currsize) for info in infos]

    expected = asked(use)
    handle = strict_compile(use, backend="eager")
    assert asked(handle) == expected and asked(handle)[:2] == expected[:2]
    assert len(handle.framejit.explain().breaks) == breaks


def test_a_cached_function_of_sizes_that_vary():
    def f(x):
        rows, _, _ = SIZED.halved(x.shape)
        return x.reshape(rows[0], 2).sum(1)

    handle = strict_compile(f, backend="eager")
    for size in (4, 6, 8, 10):
        torch.testing.assert_close(handle(vec(size)), f(vec(size)))
    assert handle.framejit.compiles == 2 and not handle.framejit.explain().breaks


class Recipe:
    """As libraries of tensor notations keep them: made of a pattern once, applied to shapes, both
    under a cache."""

    def __init__(self, pattern, axes):
        self.left, self.right = (side.split() for side in pattern.split("->"))
        self.axes, self.known = {name: index for index, name in enumerate(self.left)}, dict(axes)


@functools.lru_cache(256)
def recipe_of(pattern, axes, ndim):
    return Recipe(pattern, axes)


@functools.lru_cache(1024)
def applied(recipe, shape, axes):
    sizes = {name: shape[index] for name, index in recipe.axes.items()}
    return (
        [sizes[name] for name in recipe.left],
        [recipe.axes[name] for name in recipe.right],
        {name: sizes[name] for name in recipe.right},
        None,
    )


def rearranged(x, pattern):
    recipe = recipe_of(pattern, (("h", 2),), ndim=x.dim())
    first, order, sizes, _ = applied(recipe, tuple(x.shape), ())
    return x.reshape(first).permute(order) * sizes["b"]


@pytest.mark.parametrize("before", [None, "h b -> b h"], ids=["new", "kept"])
def test_a_cached_recipe_is_applied_to_sizes_that_vary_beside_changes(before):
    class Model:
        calls = 0

        def forward(self, x):
            self.calls += 1
            return rearranged(x, "h b -> b h") + rearranged(x.t(), "b h -> b h")

    applied.cache_clear(), recipe_of.cache_clear()
    if before is not None:
        rearranged(torch.ones(2, 3), before)
    model, own = Model(), Model()
    handle = strict_compile(Model.forward, backend="eager")
    for rows in (2, 3, 4, 5, 3):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        torch.testing.assert_close(handle(model, x), own.forward(x))
    assert (
        model.calls == own.calls
        and not handle.framejit.explain().breaks
        and handle.framejit.compiles <= 3
    )


@pytest.mark.parametrize("use", [
    lambda x, made: made[0].append(5),
    lambda x, made: made[2].update(c=1),
    lambda x, made: made[0],
    lambda x, made: {"in": made[2]},
    lambda x, made: made[0] is applied(recipe_of("h b -> b h", (), 2), tuple(x.shape), ())[0],
], ids=["list changes", "dictionary changes", "list is given", "dictionary is given", "compared"])  # fmt: skip
def test_what_a_cache_keeps_of_varying_sizes_is_one_object(use):
    def f(x):
        made = applied(recipe_of("h b -> b h", (), 2), tuple(x.shape), ())
        used = use(x, made)
        return x * made[2]["b"] * len(made[0]), used

    def asked(run):
        applied.cache_clear(), recipe_of.cache_clear()
        outcomes = [run(torch.ones(rows, 3)) for rows in (2, 3, 4, 4, 2)]
        kept = applied(recipe_of("h b -> b h", (), 2), (4, 3), ())
        return (
            repr(outcomes),
            repr(kept),
            [
                used is kept[0] or (isinstance(used, dict) and used["in"] is kept[2])
                for _, used in outcomes
            ],
        )

    assert asked(f) == asked(strict_compile(f, backend="eager"))


def test_a_cached_function_sees_what_the_frame_has_changed():
    def f(x, n):
        FACTOR[0] = n
        return x * scaled(2), scaled(3)

    handle = strict_compile(f, backend="eager")
    for run in (f, handle):
        scaled.cache_clear()
        assert run(vec(2), 5)[1] == 15


@functools.lru_cache
def unseen(n):
    return eval("n + 1")


def test_a_cached_function_sees_no_variables_that_the_frame_has_made():
    def f(x):
        factor = 1

        def scale():
            return factor

        factor = unseen(2)
        return x * scale() * unseen(3)

    check(f, vec(2))


def test_a_cached_function_sees_a_variable_that_was_there():
    def outer(x):
        factor = 1

        @functools.lru_cache
        def scaled(n):
            return n * factor

        def f(x):
            nonlocal factor
            factor = factor + 1
            return x * scaled(2), scaled(3), factor

        return f

    assert (
        strict_compile(outer(None), backend="eager")(vec(2))[1:]
        == outer(None)(vec(2))[1:]
        == (6, 2)
    )


def test_a_cache_made_inside():
    def f(x, n):
        @functools.lru_cache
        def sums(k):
            return k if k < 2 else sums(k - 1) + sums(k - 2)

        return x + sums(n)

    check(f, vec(2), 6, graphs=None, breaks=None, again=False)


def taking(a, b=2, /, c=3, *args, k=4, **kw):
    return a, b, c, args, k, kw


@pytest.mark.parametrize("wrong", [lambda x: taking(x, k=1, **{"k": 2}), lambda x: x.add(1, **{"alpha": 2}, **{"alpha": 3}), lambda x: taking(1, **x.dim())],
                         ids=["twice", "twice to a method", "no mapping"])  # fmt: skip
def test_keywords_that_python_refuses(wrong):
    def f(x):
        y = x * 2
        try:
            wrong(x)
        except TypeError as error:
            return y + 1, str(error)

    check(f, vec(2), graphs=None, breaks=None)


class Mapping:
    def keys(self):
        print("keys")
        return ["log"]

    def __getitem__(self, name):
        return name + "s"


CALLS = {
    "keywords": lambda m: taking(1, k=2, **m), "star": lambda m: taking(*[1], **m), "class": lambda m: dict(a=1, **m),
    "method": lambda m: "{log}".format(**m), "several": lambda m: taking(*(5, 1), **m, **{"d": 7}), "twice": lambda m: taking(1, log=2, **m),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_keywords_of_a_mapping_that_python_reads(call):
    def f(x):
        y = x * 2
        try:
            found = call(Mapping())
        except TypeError as error:
            found = str(error)
        return y + 1, found

    check(f, vec(2), graphs=None, breaks=None)


def test_partial_of_a_partial():
    def f(x, p):
        inner = functools.partial(taking, 1, k=2)
        outer = functools.partial(inner, x, k=3, z=4)
        return (
            x + 1,
            outer.func is taking,
            outer.args,
            outer.keywords,
            outer(5),
            functools.partial(p, 7).args,
            functools.partial(p, 7),
        )

    check(f, vec(2), functools.partial(taking, 1, k=2))


class Watched(collections.UserDict):
    """A dispatch cache that says what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def __getitem__(self, key):
        found = self.data[key]
        self.asked.append(key)
        return found


def test_a_single_dispatch_whose_cache_is_the_programs(monkeypatch):
    def f(x, general, watched):
        general([]), general({})
        before = list(watched.asked)
        general([])
        return x + 1, before, list(watched.asked), general.registry[object] is general.dispatch(int)

    def made():
        watched = Watched()
        with monkeypatch.context() as patch:
            patch.setattr(weakref, "WeakKeyDictionary", lambda: watched)
            return functools.singledispatch(lambda obj: "base"), watched

    handle, mine, yours = strict_compile(f, backend="eager"), made(), made()
    for _ in range(3):
        assert str(handle(vec(2), *yours)) == str(f(vec(2), *mine))
