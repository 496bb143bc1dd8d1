"""A break undoes what its statement looked at: behind it the values of this call are used, not those
of the call that was compiled."""

from __future__ import annotations

import framejit
import pytest
import torch

X = torch.ones(2)
SEEN = []


class Meta(type):
    def __new__(mcls, name, bases, namespace, /, **options):
        torch.ones(2) + 1
        return super().__new__(mcls, name, bases, namespace, **options)


@framejit.disable
def opaque(*args, **kwargs):
    SEEN.append((args, kwargs))


def star(x, name, **options):
    y = x + 1
    opaque(*(name, 1), **options)
    return y


def double_star(x, name):
    y = x + 1
    opaque(**{"text": name})
    return y


def in_a_list(x, name):
    y = x + 1
    given = [1, name]
    opaque(*given)
    return y, given


def changed_list(x, name):
    given = [x, name]
    given.append(name)
    opaque(*given[1:])
    return given[1:]


def in_a_cell(x, name):
    def inner():
        return name

    y = x + 1
    opaque(inner(), *inner())
    return y, inner()


def in_a_dict(x, name):
    y = x + 1
    given = {"a": name, "b": 1}
    opaque(*given.values())
    return y, given


@pytest.mark.parametrize(
    "function", [star, double_star, in_a_list, changed_list, in_a_cell, in_a_dict]
)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_arguments_of_a_broken_call(function, backend):
    handle = framejit.compile(function, backend=backend)
    for name in ("first", "second", "third"):
        SEEN.clear()
        expected, told = function(X, name), list(SEEN)
        SEEN.clear()
        actual = handle(X, name)
        assert SEEN == told
        assert repr(actual) == repr(expected)


def test_class_made_by_a_metaclass():
    with framejit.config.patch(strict=True):
        make = framejit.compile(Meta.__new__, backend="eager")
    assert [make(Meta, name, (), {}).__name__ for name in "abc"] == ["a", "b", "c"]
