"""How functions that are made at run time are made again."""

from __future__ import annotations

import functools

from framejit.factory_call import factory_call_of, record_factory


def adder(amount):
    return record_factory(lambda x: x + amount, adder, amount)


def test_a_factory_call_makes_an_equal_function():
    call = factory_call_of(adder(3))
    assert call.factory(*call.arguments)(1) == 4


def test_a_wrapper_does_not_take_over_the_factory_call_of_what_it_wraps():
    add = adder(3)

    @functools.wraps(add)
    def wrapper(x):
        return add(x) * 2

    assert factory_call_of(add) is not None
    assert factory_call_of(wrapper) is None
