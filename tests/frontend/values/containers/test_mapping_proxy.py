"""types.MappingProxyType, what gives one (a Signature's parameters, an enumeration's members), and
views made elsewhere."""

from __future__ import annotations

import collections
import collections.abc
import enum
import inspect
import types

import framejit
import pytest
import torch

from ...semantics.harness import check, vec


class Color(enum.Enum):
    RED = 1
    BLUE = 2
    CRIMSON = 1


def scaled(h, mask=None, *, scale=1.0):
    return h * scale


class Processor:
    def __call__(self, h, mask=None, *, scale=1.0):
        return h * scale


TABLE = {"a": 1, "b": 2.0}
PROXY = types.MappingProxyType(TABLE)
SIGNATURE = inspect.signature(scaled)
PROCESSOR = Processor()


def reads(x):
    return (
        x * PROXY["a"] + PROXY.get("zz", 3) + len(PROXY) + sum(PROXY.values()),
        "a" in PROXY,
        [*PROXY],
        list(PROXY.items()),
    )


def members(x):
    return (
        x * Color.__members__["BLUE"].value,
        list(Color.__members__),
        Color.__members__["CRIMSON"] is Color.RED,
    )


def parameters(x):
    names = set(inspect.signature(PROCESSOR.__call__).parameters.keys())
    return PROCESSOR(
        x, **{k: v for k, v in {"scale": 2.0, "other": 1}.items() if k in names}
    ), sorted(names)


def defaults(x):
    return x * 2, [p.default for p in SIGNATURE.parameters.values() if p.default is not p.empty]


def made(x):
    table = {"k": x + 1}
    proxy = types.MappingProxyType(table)
    table["l"] = x * 2
    return proxy["k"] * proxy["l"], proxy, dict(proxy), {**proxy}, list(reversed(proxy))


def shared(x):
    table = {"k": x + 1}
    return table, types.MappingProxyType(table)


def operators(x):
    proxy = types.MappingProxyType({"r": 2})
    return (
        x * 2,
        proxy == {"r": 2},
        proxy != PROXY,
        {"r": 2} == proxy,
        proxy | {"s": 3},
        {"t": 1} | proxy,
        proxy == 3,
        proxy | PROXY,
    )


def updated(x):
    table = {"z": 0}
    table.update(PROXY)
    table |= types.MappingProxyType({"y": 1})
    return x + len(table), table, scaled(x, **types.MappingProxyType({"scale": 3}))


def kinds(x):
    return (
        x * 2,
        isinstance(PROXY, collections.abc.Mapping),
        type(PROXY) is types.MappingProxyType,
        bool(types.MappingProxyType({})),
        hasattr(PROXY, "pop"),
    )


def matched(x):
    match PROXY:
        case {"none": _}:
            return x
        case {"a": one, **rest}:
            return x + one, rest


def refused(x):
    errors = []
    for change in (lambda: PROXY.__setitem__("a", 1), lambda: PROXY.pop("a")):
        try:
            change()
        except AttributeError as error:
            errors.append(str(error))
    try:
        PROXY["a"] = 3
    except TypeError as error:
        errors.append(str(error))
    try:
        del PROXY["a"]
    except TypeError as error:
        errors.append(str(error))
    return x + 1, errors


def absent(x):
    try:
        return x, PROXY["none"]
    except KeyError as error:
        return x + 1, error.args


KEYS, VALUES, ITEMS, ORDERED = (
    TABLE.keys(),
    TABLE.values(),
    TABLE.items(),
    collections.OrderedDict(z=1).values(),
)


def views(x):
    read = (
        x * len(KEYS) + sum(VALUES),
        [*KEYS],
        list(ITEMS),
        "a" in KEYS,
        7 in VALUES,
        list(ORDERED),
        [*reversed(VALUES)],
        bool(KEYS),
    )
    return (
        read,
        KEYS & {"a"},
        KEYS,
        VALUES,
        KEYS == TABLE.keys(),
        KEYS is TABLE.keys(),
        type(ORDERED).__name__,
    )


WHOLE = (members, parameters, made, shared)
# those that were there before the frame; `|` of one
LEFT_TO_PYTHON = (
    views, reads, defaults, operators, updated, kinds, matched, refused, absent,
)  # fmt: skip


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: fn.__name__)
def test_captured_whole(fn):
    check(fn, vec())


@pytest.mark.parametrize("fn", LEFT_TO_PYTHON, ids=lambda fn: fn.__name__)
def test_left_to_python(fn):
    check(fn, vec(), graphs=None, breaks=None)


@pytest.mark.parametrize("fn", [reads, views], ids=lambda fn: fn.__name__)
def test_what_is_shown_is_guarded(monkeypatch, fn):
    monkeypatch.setattr(framejit.config, "strict", True)
    handle, x = framejit.compile(fn, backend="eager"), torch.ones(3)
    for change in ({"a": 4}, {"c": 1}, {"b": -1.0}):
        before = dict(TABLE)
        assert str(handle(x)) == str(fn(x))
        TABLE.update(change)
        try:
            assert str(handle(x)) == str(fn(x))
        finally:
            TABLE.clear()
            TABLE.update(before)


def test_a_proxy_made_inside_shows_what_its_dictionary_becomes():
    def watched(x, table):
        return x * 2, types.MappingProxyType(table)

    table = {"i": 1}
    _, proxy = framejit.compile(watched, backend="eager")(torch.ones(2), table)
    table["j"] = 2
    assert proxy == {"i": 1, "j": 2}


def test_a_class_namespace_is_read_by_python():
    def own(x):
        return x + 1, Processor.__dict__["__call__"].__kwdefaults__["scale"]

    check(own, vec(), breaks=None, graphs=None)


class Metric:
    def __init__(self, update):
        self.signature = inspect.signature(update)

    def accepted(self, **given):
        known = self.signature.parameters
        varying = any(one.kind == inspect.Parameter.VAR_KEYWORD for one in known.values())
        return given if varying else {name: given[name] for name in given if name in known}


def test_the_parameters_of_a_signature_that_an_object_keeps():
    def f(x, metric):
        return scaled(x, **metric.accepted(scale=2.0, other=3)), metric.signature.parameters

    metric = Metric(scaled)
    handle = framejit.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        result, parameters = handle(vec(), metric)
        assert result.equal(vec() * 2) and parameters is metric.signature.parameters
    other = Metric(lambda h: h)
    assert handle(vec(), other)[0].equal(vec()) and handle.framejit.compiles == 2


def test_a_proxy_shows_what_its_dictionary_holds_in_each_call():
    table = {"a": 1.0}
    proxy = types.MappingProxyType(table)

    def f(x, proxy):
        return x * sum(proxy.values()), len(proxy)

    handle = framejit.compile(f, backend="eager", fullgraph=True)
    for name in ("b", "c"):
        assert repr(handle(vec(), proxy)) == repr(f(vec(), proxy))
        table[name] = 2.0
    table["a"] = 5.0
    assert repr(handle(vec(), proxy)) == repr(f(vec(), proxy))
