"""Results of calls that have no side effects."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..caches import cached_result
from ..encoded import Encoded
from .path import Source, path, safe_repr


@path
class CachedResult(Source):
    """The result of the `functools.lru_cache` function `of` for these literals. `types`: those of
    the arguments and keywords, as 1 and 1.0 may have different results."""

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
