"""What functions under functools.lru_cache keep."""
from __future__ import annotations

import functools
from typing import Any


def cached_result(function: Any, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> Any:
    """What a cached function gives: made now, if it is there no more, as the program would have it made."""
    if type(function) is not functools._lru_cache_wrapper:
        raise TypeError(f"{function!r} keeps nothing")
    return function(*args, **dict(kwargs))
