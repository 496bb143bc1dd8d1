"""Functions under functools.lru_cache whose arguments vary, as einops keeps its recipes, and those
that write a message once."""

import functools
import logging

import pytest
import torch

from ...semantics.harness import strict_compile


class Recipe:
    def __init__(self, pattern):
        self.order = [int(digit) for digit in pattern]


@functools.lru_cache
def recipe_of(pattern):
    return Recipe(pattern)


@functools.lru_cache
def applied(recipe, shape):
    return recipe.order, [shape[axis] for axis in recipe.order], recipe


@pytest.fixture(autouse=True)
def empty_caches():
    applied.cache_clear(), recipe_of.cache_clear()


def test_a_cached_result_may_hold_a_list_that_its_argument_holds():
    def f(x):
        order, sizes, _ = applied(recipe_of("10"), tuple(x.shape))
        return x.permute(order) * sizes[0]

    handle = strict_compile(f, backend="eager")
    for rows in (2, 3, 4, 5, 3):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        torch.testing.assert_close(handle(x), f(x))
    assert not handle.framejit.explain().breaks and handle.framejit.compiles == 2


@pytest.mark.parametrize("use", [
    lambda recipe, made: made[0] is recipe.order and made[2] is recipe,
    lambda recipe, made: made[0].reverse(),
    lambda recipe, made: recipe.order.reverse(),
    lambda recipe, made: made[0],
    lambda recipe, made: made[2],
], ids=["compared", "list changes", "argument changes", "list is given", "argument is given"])  # fmt: skip
def test_what_a_cached_result_shares_with_its_argument_is_one_object(use):
    def f(x):
        recipe = recipe_of("10")
        made = applied(recipe, tuple(x.shape))
        used = use(recipe, made)
        return x * len(made[0]), used

    def outcomes(run):
        applied.cache_clear(), recipe_of.cache_clear()
        recipe, found = recipe_of("10"), []
        for rows in (2, 3, 4, 4, 2):
            y, used = run(torch.ones(rows, 3))
            found.append((y.tolist(), used is recipe, used is recipe.order, used is True))
        return found, recipe.order, [applied(recipe, (n, 3))[0] is recipe.order for n in (2, 3, 4)]

    assert outcomes(strict_compile(f, backend="eager")) == outcomes(f)


@functools.lru_cache
def warn_once(logger, message):
    logger.warning(message)


def test_a_message_that_a_cache_lets_through_once_is_written_in_order_without_a_break(caplog):
    """As transformers' logger.warning_once, in a frame that has changed an object before."""
    logger = logging.getLogger("framejit.tests.cached")

    def f(x, calls):
        calls.append("called")
        logger.warning("before")
        warn_once(logger, "once")
        logger.warning("behind")
        return x + 1

    def messages(run):
        warn_once.cache_clear(), caplog.clear()
        calls, found = [], []
        for _ in range(3):
            torch.testing.assert_close(run(torch.ones(2), calls), torch.full((2,), 2.0))
            texts = [r.getMessage() for r in caplog.records if r.name == logger.name]
            found.append((list(calls), texts))
        return found

    handle = strict_compile(f, backend="eager")
    assert messages(handle) == messages(f)
    assert not handle.framejit.explain().breaks and handle.framejit.compiles == 1


class Counter:
    value = 0


@functools.lru_cache
def warn_of_global(logger):
    logger.warning("%d", COUNTED.value)


@functools.lru_cache
def warn_of_argument(logger, counter):
    logger.warning("%d", counter.value)


COUNTED = Counter()


@pytest.mark.parametrize(
    "warn",
    [warn_of_global, lambda logger: warn_of_argument(logger, COUNTED)],
    ids=["global", "argument"],
)
def test_a_message_of_what_the_frame_changes_has_the_values_of_its_place(warn, caplog):
    logger = logging.getLogger("framejit.tests.cached")

    def f(x):
        COUNTED.value += 1
        warn(logger)
        COUNTED.value += 1
        return x + 1

    def messages(run):
        warn_of_global.cache_clear(), warn_of_argument.cache_clear(), caplog.clear()
        COUNTED.value = 0
        for _ in range(2):
            run(torch.ones(2))
        return [record.getMessage() for record in caplog.records if record.name == logger.name]

    assert messages(strict_compile(f, backend="eager")) == messages(f) == ["1"]
