"""Generators that wait inside of `try` or `with`: forgotten half-way, Python closes them, which runs what is left of those blocks.

In: the frames as they are between two instructions. Here a generator is forgotten when nothing leads to it from them, from what the
program has changed outside, or from the exception being handled. Where it cannot be said when Python would close it, Python runs the frame.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import GraphBreak, SkipFrame
from ..pycode.instr import Op
from ..values.base import ObservedException, Value
from ..values.iterators.generator import GeneratorValue
from ..values.objects.user_object import UserObject
from .effect_log import was_there
from .outcome import Restart

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .trace import Trace

PASSED_ON = (Op.STOPITERATION_ERROR, Op.CLEANUP_THROW)  # handlers that a generator has without any in its source
OUTSIDE = frozenset({"source", "real", "object", "cls", "sym", "fake", "node", "owner", "code", "globals"})  # what holds no values


def close_unreachable_generators(tx: Trace, leaving: Interpreter | None = None, kept: Iterable[Value] = ()) -> None:
    """Closes what nothing leads to any more; `leaving`: a frame that is done, but for what it returns."""
    waiting = suspended_generators(tx)
    if all(tx.leads.holds(tx, generator, leaving) for generator in waiting):
        return
    frames = [frame for frame in tx.frames if frame is not leaving]
    found = find_reachable((*kept, *held_outside(tx), *(item for frame in frames for item in items(frame))))
    tx.leads.learn([generator for generator in waiting if id(generator) in found], frames, found)
    forgotten = [generator for generator in waiting if id(generator) not in found]
    if not forgotten:
        return
    if len(forgotten) > 1:
        within = {id(other) for one in forgotten for other in forgotten if other is not one and id(other) in find_reachable([one])}
        forgotten = [generator for generator in forgotten if id(generator) not in within]
    if len(forgotten) != 1 or not forgotten[0].made_here:
        raise SkipFrame("generators that are forgotten half-way")
    close(tx, forgotten[0])
    close_unreachable_generators(tx, leaving, kept)


def close(tx: Trace, generator: GeneratorValue) -> None:
    try:
        generator.method(tx, "close", [], {})
    except (ObservedException, GraphBreak, Restart) as error:
        raise SkipFrame(f"{generator.describe()} is forgotten half-way") from error


def refuse_unreachable_generators(tx: Trace, frames: Iterable[Iterable[Value | None]], what: str) -> None:
    """Leaves the frame to Python where a generator is still there, and nothing leads to it from these items."""
    waiting = suspended_generators(tx)
    if waiting:
        found = find_reachable((*held_outside(tx), *(item for held in frames for item in held)))
        if any(id(generator) not in found for generator in waiting):
            raise SkipFrame(f"a generator that is forgotten half-way, {what}")


def suspended_generators(tx: Trace) -> list[GeneratorValue]:
    return [generator for generator in tx.waiting if generator.frame not in tx.frames and close_runs_code(generator)]


def close_runs_code(generator: GeneratorValue) -> bool:
    """Whether closing a generator runs anything of its program."""
    if generator.finished or not generator.started:
        return False
    frame = generator.frame
    instrs, handler = frame.decoded.instrs, frame.decoded.handlers[frame.pc - 1]
    if handler is not None and instrs[handler.target].op not in PASSED_ON:
        return True
    if instrs[frame.pc - 2].op is not Op.SEND:
        return False
    inner = frame.stack[-1]
    return close_runs_code(inner) if isinstance(inner, GeneratorValue) else isinstance(inner, UserObject)


def held_outside(tx: Trace) -> Iterator[Value | None]:
    yield tx.handled
    yield from (value for value in tx.effects.changed if was_there(value))
    yield from (value for _, value in tx.effects.globals.values())


def items(frame: Interpreter) -> Iterator[Value | None]:
    yield from frame.stack
    yield from frame.slots


class ReachabilityCache:
    """By which values generators were reached last, and which frame held the first of these, so that looking again is quick."""

    def __init__(self) -> None:
        self.of: dict[GeneratorValue, tuple[Interpreter, list[Any]]] = {}

    def holds(self, tx: Trace, generator: GeneratorValue, leaving: Interpreter | None) -> bool:
        """Whether the same way still leads there."""
        if generator not in self.of:
            return False
        frame, way = self.of[generator]
        if frame is leaving or frame not in tx.frames:
            return False
        if frame is tx.frames[-1] and not any(item is way[0] for item in items(frame)):  # what others hold stays while they wait
            return False
        return all(any(child is after for child in held_values(before)) for before, after in itertools.pairwise(way))

    def learn(self, generators: Iterable[GeneratorValue], frames: Sequence[Interpreter], before: dict[int, Any]) -> None:
        for generator in generators:
            way = path_to(generator, before)
            holder = next((frame for frame in frames if any(item is way[0] for item in items(frame))), None)
            if holder is not None:
                self.of[generator] = holder, way


def find_reachable(roots: Iterable[Any]) -> dict[int, Any]:
    """The ids of all values that lead can be followed to, each with the value before it, None for a root."""
    todo = list(roots)
    before: dict[int, Any] = {id(root): None for root in todo}
    while todo:
        following = []
        for one in todo:
            for child in held_values(one):
                if isinstance(child, Value | dict | list | tuple | set) and id(child) not in before:
                    before[id(child)] = one
                    following.append(child)
        todo = following
    return before


def path_to(end: Any, before: dict[int, Any]) -> list[Any]:
    found = [end]
    while before[id(found[-1])] is not None:
        found.append(before[id(found[-1])])
    return found[::-1]


def held_values(one: Any) -> Iterable[Any]:
    """What a value holds."""
    if isinstance(one, dict):
        return [*one.values(), *one]
    if isinstance(one, list | tuple | set):
        return one
    if isinstance(one, GeneratorValue):
        return [*items(one.frame)]
    if not isinstance(one, Value):
        return ()
    cls: Any = type(one)
    return [getattr(one, name, None) for name in value_fields(cls)]


@functools.cache
def value_fields(cls: type[Any]) -> tuple[str, ...]:
    """The attributes of a class of values that hold values."""
    return tuple(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()) if name not in OUTSIDE)
