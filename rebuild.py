"""How a function that was made at run time is made again in another process: by a factory and its
arguments. A function without such a recipe cannot be stored."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Made = TypeVar("Made", bound=Callable[..., Any])
ATTRIBUTE = "_framejit_recipe"


@dataclass(frozen=True)
class Recipe:
    """`factory(*arguments)` makes the function again; the factory is a function of a module.
    made: the function, as functools.wraps copies attributes to others."""

    factory: Callable[..., Any]
    arguments: tuple[Any, ...]
    made: weakref.ref[Any]


def made_by(made: Made, factory: Callable[..., Any], *arguments: Any) -> Made:
    """The function `made`, with the recipe for making it again."""
    setattr(made, ATTRIBUTE, Recipe(factory, arguments, weakref.ref(made)))
    return made


def recipe_of(function: Any) -> Recipe | None:
    """The recipe of a function; None for one that cannot be made again."""
    recipe: Recipe | None = getattr(function, ATTRIBUTE, None)
    return recipe if recipe is not None and recipe.made() is function else None
