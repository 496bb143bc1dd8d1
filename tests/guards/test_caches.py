"""Results that functions under functools.lru_cache hold, read without calling them."""

from __future__ import annotations

import functools

import pytest
from framejit.guards.caches import holds

CALLS = [((1,), ()), (("a",), ()), ((1.0,), ()), ((True,), ()), ((1, 2), ()), ((), ()), ((), (("a", 1),)), ((1,), (("b", 2), ("a", 1))),
         (((1, 2),), ())]  # fmt: skip


@pytest.mark.parametrize("maxsize", [128, None, 1])
@pytest.mark.parametrize("typed", [False, True], ids=["", "typed"])
@pytest.mark.parametrize("args, kwargs", CALLS, ids=repr)
def test_holds(args, kwargs, maxsize, typed):
    called = []

    @functools.lru_cache(maxsize=maxsize, typed=typed)
    def keeping(*args, **kwargs):
        called.append(args)

    keeping.note = {args: 1}
    assert not holds(keeping, args, kwargs)
    keeping(*args, **dict(kwargs))
    assert holds(keeping, args, kwargs) and len(called) == 1
    assert not holds(keeping, (*args, "more"), kwargs) and not holds(
        keeping, args, (*kwargs, ("more", 1))
    )
    keeping.cache_clear()
    assert not holds(keeping, args, kwargs) and len(called) == 1


def test_types_count_where_the_cache_says_so():
    @functools.lru_cache(typed=True)
    def typed(value):
        return value

    @functools.lru_cache
    def plain(value):
        return value

    typed(1), plain(1)
    assert holds(plain, (1,), ()) and holds(plain, (True,), ()) == (plain(True) is not True)
    assert holds(typed, (1,), ()) and not holds(typed, (1.0,), ())
