"""Chooses among the measured candidates."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .candidates import records, without_recording
from .measure import Timing

TIE = 0.01  # a candidate must be faster than eager by more than this fraction
SURELY = 0.6  # and in this fraction of the rounds


def choose(
    timed: Mapping[str, Timing], eager: str, forced: Collection[str] = (), varies: bool = False
) -> str:
    """The name of the fastest candidate; eager on a tie, and where no call could be repeated.
    forced: if one of these ran, the fastest of them. varies: whether sizes do; a recording serves
    few of the calls then, so the code that is fastest when it is not recorded is chosen first."""
    ran = {name: one for name, one in timed.items() if one.samples and not one.failure}
    if not ran:  # a graph may raise for inputs that its first call has written
        return eager
    wanted = {name: one for name, one in ran.items() if name in forced}
    among = wanted or ran
    codes = {name: code_of(name, eager) for name in among}
    if varies and all(code in timed for code in codes.values()):
        code = min(codes.values(), key=lambda code: timed[code].seconds_roughly)
        among = {name: one for name, one in among.items() if codes[name] == code}
    best = min(among, key=lambda name: among[name].seconds)
    if wanted or best == eager or eager not in ran:
        return best
    pairs = list(zip(ran[best].samples, ran[eager].samples, strict=False))
    wins = sum(one < other for one, other in pairs)
    clear = ran[best].seconds < (1 - TIE) * ran[eager].seconds and wins >= SURELY * len(pairs)
    return best if clear else eager


def code_of(name: str, eager: str) -> str:
    """The backend whose code runs where a candidate has no recording."""
    return (without_recording(name) or eager) if records(name) else name
