"""How a callable that was made at run time is made again in another process: by a factory and its
arguments. A callable without such a recipe cannot be stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Made = TypeVar("Made", bound=Callable[..., Any])
ATTRIBUTE = "_framejit_recipe"


@dataclass(frozen=True)
class Recipe:
    """`factory(*arguments)` makes the callable again; the factory is a function of a module."""

    factory: Callable[..., Any]
    arguments: tuple[Any, ...]


def made_by(made: Made, factory: Callable[..., Any], *arguments: Any) -> Made:
    """The function `made`, with the recipe for making it again."""
    setattr(made, ATTRIBUTE, Recipe(factory, arguments))
    return made


def recipe_of(made: Any) -> Recipe | None:
    """The recipe of a function; None for one that cannot be made again."""
    return getattr(made, ATTRIBUTE, None)
