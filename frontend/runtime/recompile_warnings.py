"""The texts of warnings about a function that is compiled again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...events import Balance, Miss

REMEDY = "Keep it the same between calls, pass it as a tensor, or raise config.recompile_limit"


def limit_text(name: str, where: str, entries: int, misses: Iterable[Miss]) -> str:
    """The text for a function that runs in eager because its limit is reached: the guard
    that failed most, and what to do."""
    text = (
        f"{name} ({where}) was compiled {entries} times; calls that none of these versions "
        "serves run in eager from now on"
    )
    return f"{text}{most_frequent(miss for miss in misses if miss.function == name)}. {REMEDY}"


def compiling_text(name: str, balance: Balance, misses: Iterable[Miss]) -> str:
    """The text for a function that keeps compiling."""
    text = (
        f"{name} has compiled {balance.compiles} times in {balance.calls} calls, "
        f"{balance.seconds:.1f} s in all, {balance.again} times "
        "code that had been compiled before"
    )
    remedy = (
        "Keep it the same between calls, pass it as a tensor, put what does not work on tensors "
        "into a function with @framejit.disable, "
        "or bound this by options={'compile_budget': seconds}. framejit.explain and "
        "FRAMEJIT_LOG=recompiles say more"
    )
    return f"{text}{most_frequent(misses)}. {remedy}"


def most_frequent(misses: Iterable[Miss]) -> str:
    """The guard that failed most, with values and line; "" where there is none."""
    changes = [change for miss in misses for change in miss.changes[:1]]
    if not changes:
        return ""
    what, _ = Counter(change.what for change in changes).most_common(1)[0]
    last = next(change for change in reversed(changes) if change.what == what)
    line = f" at {last.line}" if last.line else ""
    return f". Most often `{what}` differed (last {last.new}, compiled for {last.old}){line}"
