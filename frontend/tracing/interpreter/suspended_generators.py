"""SuspendedGenerators: generators of the traced program that wait inside `try` or `with`.

Python closes such a generator when its last reference is dropped, which runs the rest of those
blocks. A capture does not count references. Where it ends (a return, a break, an exception that
leaves a frame) it checks that every such generator is still reachable; if one is not, Python runs
the function that made it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ....errors import GraphBreak, SkipFrame
from ...pycode.instr import Op
from ...pycode.unwinding import passes_handlers
from ...values.base import Value
from ...values.containers.list import ListValue
from ...values.context import InterpretedFrame, TraceContext
from ...values.iterators.generator import GeneratorValue
from ...values.mutable import Mutable
from ...values.objects.user_object import UserObject
from ..effect_log import was_there
from .outcome import Restart

# fields without values
OUTSIDE = frozenset(
    {"source", "real", "object", "cls", "sym", "fake", "node", "owner", "code", "globals"}
)

HOLDERS = (Value, dict, list, tuple, set)  # what may hold values
BY_EXCEPTION = "by an exception"


class SuspendedGenerators:
    """The generators that have yielded and are not finished, in the order of their first yield."""

    def __init__(self, tx: TraceContext) -> None:
        self._tx = tx
        self._generators: dict[GeneratorValue, None] = {}

    def __bool__(self) -> bool:
        return bool(self._generators)

    def add(self, generator: Mutable) -> None:
        """Adds a generator that has yielded."""
        assert isinstance(generator, GeneratorValue)
        self._generators.setdefault(generator, None)

    def remove(self, generator: Mutable) -> None:
        """Removes a generator that is finished."""
        assert isinstance(generator, GeneratorValue)
        self._generators.pop(generator, None)

    def is_running(self, generator: Mutable) -> bool:
        """Whether the generator's own frame is being interpreted."""
        assert isinstance(generator, GeneratorValue)
        return generator.frame in self._tx.frames

    def mark(self) -> dict[GeneratorValue, None]:
        return dict(self._generators)

    def rollback(self, mark: dict[GeneratorValue, None]) -> None:
        self._generators = dict(mark)

    def release_objects(self) -> None:
        self._generators.clear()

    def require_reachable(self, held: Iterable[Iterable[Value | None]], when: str) -> None:
        """Raises SkipFrame where a generator that runs code when it is closed cannot be reached
        from the live values."""
        suspended = [
            one
            for one in self._generators
            if not self.is_running(one) and runs_code_when_closed(one)
        ]
        if suspended:
            roots = (*itertools.chain.from_iterable(held), *self._held_outside())
            missing = find_unreachable(suspended, roots)
            if missing is not None:
                raise left_to_python(missing, when)

    def _held_outside(self) -> Iterator[Value | None]:
        tx = self._tx
        yield tx.exceptions.handled
        yield from (value for value in tx.effects.changed if was_there(value))
        yield from (value for _, value in tx.effects.globals.values())


def left_to_python(generator: GeneratorValue, when: str) -> Exception:
    """Has Python run the function that made a generator; the whole frame, where it is that or an
    exception's traceback may keep the generator for a while."""
    if generator.maker_called is None or when == BY_EXCEPTION:
        return SkipFrame(f"a generator is dropped inside `try` or `with` {when}; Python closes it")
    return Restart(
        generator.maker_called,
        GraphBreak("generator", "Python closes it, as it is dropped inside `try` or `with`"),
    )


def runs_code_when_closed(generator: GeneratorValue) -> bool:
    """Whether closing a generator runs code of the program."""
    if generator.finished or not generator.started:
        return False
    frame = generator.frame
    if not passes_handlers(frame.decoded, frame.pc - 1, GeneratorExit, frame.globals):
        return True
    if frame.decoded.instrs[frame.pc - 2].op is not Op.SEND:
        return False
    inner = frame.stack[-1]
    if isinstance(inner, GeneratorValue):
        return runs_code_when_closed(inner)
    return isinstance(inner, UserObject)


def frame_values(frame: InterpretedFrame) -> Iterator[Value | None]:
    yield from frame.stack
    yield from frame.slots


def find_unreachable(
    wanted: Sequence[GeneratorValue], roots: Iterable[Any]
) -> GeneratorValue | None:
    """The first of some generators to which no root leads; None where each is reachable. Searches
    breadth first, and no further than needed: variables lead to most generators in a few steps."""
    todo = list(roots)
    found = {id(root) for root in todo}
    missing = {id(one) for one in wanted} - found
    for one in todo:  # which grows
        if not missing:
            return None
        for child in held_values(one):
            if isinstance(child, HOLDERS) and id(child) not in found:
                found.add(id(child))
                missing.discard(id(child))
                todo.append(child)
    return next((one for one in wanted if id(one) in missing), None)


def held_values(one: Any) -> Iterable[Any]:
    """The values that a value holds."""
    if isinstance(one, dict):
        return [*one.values(), *one]
    if isinstance(one, list | tuple | set):
        return one
    if isinstance(one, GeneratorValue):
        return [*frame_values(one.frame)]
    if not isinstance(one, Value):
        return ()
    if isinstance(one, ListValue) and one.unread is not None:  # what it held before is no value yet
        return one.added
    cls: Any = type(one)
    return [getattr(one, name, None) for name in value_fields(cls)]


@functools.cache
def value_fields(cls: type[Any]) -> tuple[str, ...]:
    """The attributes of a class of values that hold values."""
    return tuple(
        name
        for base in cls.__mro__
        for name in getattr(base, "__slots__", ())
        if name not in OUTSIDE
    )
