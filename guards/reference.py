"""The meaning of guards, in Python: slow, obvious, and the oracle of the native evaluator.

In: a guard and a frame. Out: whether the guard holds, or why not. A guard on a path that ends early
fails.
"""

from __future__ import annotations

from .failure import Failure
from .guard import Guard
from .kinds import kind_of
from .source import FrameView, PathEnds


def check(guard: Guard, frame: FrameView) -> bool:
    """Whether the guard holds for the frame. Never raises."""
    kind = kind_of(guard)
    try:
        subjects = [source.load(frame) for source in kind.subjects(guard)]
        return bool(kind.holds(guard.expected, *subjects))
    except Exception:  # the meaning of any error in a check is: no
        return False


def explain(guard: Guard, frame: FrameView) -> Failure:
    """The failure of this guard, in words."""
    kind = kind_of(guard)
    for source in kind.subjects(guard):
        try:
            source.load(frame)
        except PathEnds:
            return Failure(guard, source.name, kind.old(guard), "gone")
    subjects = [source.load(frame) for source in kind.subjects(guard)]
    try:
        return Failure(guard, *kind.difference(guard, *subjects))
    except Exception as error:  # a user's __repr__ or attribute; the report must not raise
        return Failure(
            guard, guard.source.name, kind.old(guard), f"unreadable ({type(error).__name__})"
        )
