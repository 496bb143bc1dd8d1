"""Results of calls without side effects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..caches import cached_result
from ..encoded import Encoded
from .path import Source, path, safe_repr


@path
class CachedResult(Source):
    """The result of the `functools.lru_cache` function `of` for these literals, or what the
    `dispatch` of a single dispatch chooses for a class. `types`: those of the arguments and
    keywords, as 1 and 1.0 may have different results."""

    of: Source
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    types: tuple[type, ...]

    @property
    def name(self) -> str:
        keywords = (f"{name}={safe_repr(value)}" for name, value in self.kwargs)
        return f"{self.of.name}({', '.join([*map(safe_repr, self.args), *keywords])})"

    def read(self, of: Any) -> Any:
        return cached_result(of, self.args, self.kwargs)

    def encode(self) -> Encoded:
        call = partial(cached_result, args=self.args, kwargs=self.kwargs)
        return Encoded("CALL", call, runs_python=True)


@path
class CalculatedNumber(Source):
    """A number calculated from the number `of`: `function` called with literals before and after
    it. `text` distinguishes literals that are equal (1 and 1.0)."""

    cost = 100
    of: Source
    function: Callable[..., Any]
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    text: str = ""

    @property
    def name(self) -> str:
        operands = [*map(safe_repr, self.before), self.of.name, *map(safe_repr, self.after)]
        return f"{getattr(self.function, '__name__', self.function)}({', '.join(operands)})"

    def read(self, of: Any) -> Any:
        return self.function(*self.before, of, *self.after)

    def encode(self) -> Encoded:
        return Encoded("CALL", self.read)
