"""Recipes of functions that are made at run time."""

from __future__ import annotations

import functools

from framejit.rebuild import made_by, recipe_of


def adder(amount):
    return made_by(lambda x: x + amount, adder, amount)


def test_a_recipe_makes_an_equal_function():
    recipe = recipe_of(adder(3))
    assert recipe.factory(*recipe.arguments)(1) == 4


def test_a_wrapper_does_not_take_over_the_recipe_of_what_it_wraps():
    add = adder(3)

    @functools.wraps(add)
    def wrapper(x):
        return add(x) * 2

    assert recipe_of(add) is not None
    assert recipe_of(wrapper) is None
