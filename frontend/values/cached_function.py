"""Functions under functools.lru_cache: what they keep is theirs, and what they do they do once."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import GraphBreak
from ...guards.caches import cached_result
from ...guards.kinds.equality import same_constant
from ...guards.source import CachedResult, Source
from .base import Observed, Value
from .constant import foldable, is_literal
from .function import MethodValue
from .klass import lookup
from .sequence import TupleValue
from .symbolic_number import SymbolicNumber
from .tensor import Identity, TensorValue

if TYPE_CHECKING:
    from .context import TraceContext


class CachedFunction(Value):
    """A function under functools.lru_cache. On literals it is called for real: its maker says that equal arguments give
    equal results, and what it does on the way it would do once in eager too. What is no literal is the object that the cache
    holds, whoever changes it. Where it could see what the frame has changed, or is given objects, what it wraps is interpreted:
    it may change nothing, and give nothing that has an identity."""

    __slots__ = ("real", "inner", "given")

    def __init__(self, real: Any, inner: Value, source: Source | None) -> None:
        super().__init__(source)
        self.real, self.inner = real, inner
        self.given: dict[Source, Value] = {}  # by this capture so far

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        return f"cached function {self.real.__qualname__}"

    def key(self, tx: TraceContext) -> Any:
        return Identity(self.real)

    def truth(self, tx: TraceContext) -> bool:
        return True

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__wrapped__":
            return self.inner
        if name == "__get__":
            return tx.bound(self, name)
        if name in vars(self.real):
            return tx.wrap(getattr(self.real, name), tx.attr_source(self.source, name))
        try:
            getattr(self.real, name)
        except AttributeError as error:
            raise tx.throw(AttributeError, *error.args) from None
        raise self.unsupported(f"attribute {name}")

    def method(self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__get__" and args:
            through_class = args[0].is_constant() and args[0].constant() is None
            return self if through_class else MethodValue(args[0], self)
        return super().method(tx, name, args, kwargs)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        args, kwargs = [whole(tx, arg) for arg in args], {name: whole(tx, arg) for name, arg in kwargs.items()}
        if any(lookup(arg.python_type(), "__hash__")[1] is None for arg in (*args, *kwargs.values())):
            raise GraphBreak("exception-leaves", f"TypeError: an argument of {self.describe()} has no hash")
        if not foldable(args, kwargs):
            return self._interpreted(tx, args, kwargs)
        path = self._path(args, kwargs)
        if path in self.given:
            return self.given[path]
        if tx.effects.may_be_seen() or tx.modes.open:
            return self._interpreted(tx, args, kwargs)
        try:
            result = cached_result(self.real, path.args, path.kwargs)
        except Exception as error:
            raise self._left("which raises") from error
        if is_literal(result):
            return tx.wrap(result, None)
        if self.source is None:
            raise self._left("which keeps what it makes")
        self.given[path] = tx.wrap(result, path)
        return self.given[path]

    def _left(self, why: str) -> GraphBreak:
        return GraphBreak("unknown-call", f"{self.describe()}, {why},")

    def _path(self, args: list[Value], kwargs: dict[str, Value]) -> CachedResult:
        """The path to what it gives for literals."""
        literals, named = tuple(a.constant() for a in args), tuple((name, a.constant()) for name, a in kwargs.items())
        return CachedResult(self.source, literals, named, tuple(map(type, (*literals, *(value for _, value in named)))))

    def _interpreted(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """What the function gives now, where nobody can tell that from what the cache gives."""
        if not all(has_own_key(tx, arg) for arg in (*args, *kwargs.values())):
            raise self._left("which keeps its arguments")
        calls = tx.graph.mark()
        try:
            with tx.effects.only_its_own(self._left("which does something once")):
                result = whole(tx, self.inner.call(tx, args, kwargs))
        except Observed as error:
            raise self._left("which raises") from error
        if tx.graph.mark() > calls or not is_plain(result):
            raise self._left("which keeps what it makes")
        given, named = [real(tx, arg) for arg in args], {name: real(tx, arg) for name, arg in kwargs.items()}
        if not varies(result) and not any(arg is UNKNOWN for arg in (*given, *named.values())):
            self._fill(result.constant(), given, named)
        return result

    def _fill(self, result: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Lets the cache hold a result that what the frame has changed has no part in."""
        try:
            alike = same_constant(result, self.real.__wrapped__(*args, **kwargs)) and same_constant(result, self.real(*args, **kwargs))
        except Exception as error:
            raise self._left("which raises") from error
        if not alike:
            raise self._left("which sees what the frame has changed")


UNKNOWN = object()


def whole(tx: TraceContext, value: Value) -> Value:
    """A value, its items looked at."""
    value = tx.look(value)
    for item in value.all(tx) if isinstance(value, TupleValue) else ():
        whole(tx, item)
    return value


def has_own_key(tx: TraceContext, arg: Value) -> bool:
    """Whether an argument is a literal, a number, or an object that was there and is equal to itself alone."""
    if isinstance(arg, TupleValue):
        return all(has_own_key(tx, item) for item in arg.items)
    cls = arg.python_type()
    alone = lookup(cls, "__hash__")[1] is object.__hash__ and lookup(cls, "__eq__")[1] is object.__eq__
    return arg.is_constant() or (alone and not isinstance(arg, TensorValue) and tx.real(arg) is not None)


def is_plain(result: Value) -> bool:
    """Whether it makes no difference which of equal results a call gives."""
    return all(map(is_plain, result.items)) if isinstance(result, TupleValue) else result.is_constant()


def varies(value: Value) -> bool:
    """Whether there are numbers in it that vary between calls."""
    return any(map(varies, value.items)) if isinstance(value, TupleValue) else isinstance(value, SymbolicNumber)


def real(tx: TraceContext, arg: Value) -> Any:
    """The object itself, of an argument with a key of its own; UNKNOWN where only the run knows it."""
    if varies(arg):
        return UNKNOWN
    if isinstance(arg, TupleValue) and not arg.is_constant():
        items = [real(tx, item) for item in arg.items]
        return tuple(items) if arg.cls is tuple else UNKNOWN
    return arg.constant() if arg.is_constant() else tx.real(arg)
