"""Value: the facts that a capture has about one Python object, and the operations that a family of
values implements.

A value uses a TraceContext (see context.py), never the interpreter. The methods here are defaults:
most of them break the graph.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from ...errors import GraphBreak
from ...guards.source import Source
from ..pycode.passthrough import PassthroughFrame
from .context import TraceContext
from .emitter import Emitter
from .objects.mro import lookup
from .operation import Operation, UnaryOperation


class ObservedException(Exception):
    """The traced program raised: `value` is the symbolic exception, `cls` its class."""

    def __init__(self, value: Value) -> None:
        self.value = value
        # where a break before it could be made (tracing/interpreter/outcome.py)
        self.position: int | None = None
        super().__init__(value)

    @property
    def cls(self) -> type:
        return self.value.python_type()


class Value:
    """The facts about one object. `source` is the path to it when it existed before the frame, else
    None."""

    __slots__ = ("source",)
    cls: Any  # the class of the object, where a family has one or an instance knows it
    is_code_constant = False  # whether generated code holds the object among its constants
    break_reason = "generator"  # id of the break before an object that code cannot make

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    @property
    def known_source(self) -> Source:
        """The source; only for values of objects that existed before the frame."""
        assert self.source is not None
        return self.source

    def python_type(self) -> type:
        """type(object)."""
        return self.cls

    def is_constant(self) -> bool:
        """Whether `constant()` has an answer."""
        return False

    def varies(self) -> bool:
        """Whether `constant()` specialises: the code would be for this call's number only."""
        return False

    def is_none(self) -> bool:
        """Whether it is None. The type answers that, so no number is specialised for it."""
        return self.python_type() is type(None)

    def is_not_implemented(self) -> bool:
        """Whether it is NotImplemented, which a special method returns to decline."""
        return self.python_type() is type(NotImplemented)

    def constant(self) -> Any:
        """The object itself, of a value that is one literal; raises GraphBreak for others."""
        raise GraphBreak("unsupported-value", f"{self.describe()} where a constant is needed")

    def literal(self, tx: TraceContext) -> Any:
        """A copy of the object that a pure function may read: a literal, or a builtin container of
        literals."""
        return self.constant()

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        """The object as an argument of a node, and as one of the call on fake tensors."""
        if self.is_constant():
            literal = self.constant()
            return literal, literal
        raise GraphBreak(
            "unsupported-value", f"{self.describe()} as an argument of a torch function"
        )

    def as_index(self, tx: TraceContext) -> Value:
        """The value that torch's operators take for it in an index of a tensor."""
        return self

    def describe(self) -> str:
        """A few words for messages."""
        where = f" '{self.source.name}'" if self.source is not None else ""
        return f"{self.python_type().__name__}{where}"

    def unsupported_use(self, what: str) -> GraphBreak:
        """The break for something this family does not capture."""
        return GraphBreak("unsupported-value", f"{self.describe()} ({what})")

    # questions, in Python's own terms; each returns a Value unless said otherwise
    def key(self, tx: TraceContext) -> Any:
        """A hashable that is equal for equal dictionary keys."""
        raise self.unsupported_use("as a dictionary key")

    def truth(self, tx: TraceContext) -> bool:
        """bool(object), as a Python bool. An object is true if its class defines neither `__bool__`
        nor `__len__`."""
        cls = self.python_type()
        if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
            raise self.unsupported_use("truth value")
        return True

    def attribute(self, tx: TraceContext, name: str) -> Value:
        raise self.unsupported_use(f"attribute {name}")

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")

    def del_attribute(self, tx: TraceContext, name: str) -> None:
        raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        pending = self.tail_call(tx, args, kwargs)
        if pending is None:
            raise GraphBreak("unknown-call", self.describe())
        return pending.callee.call(tx, pending.args, pending.kwargs)

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall | None:
        """The call that this call ends in and whose result it returns, such as that of a bound
        method's function; None if there is none."""
        return None

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        """object.name(*args, **kwargs)."""
        return self.attribute(tx, name).call(tx, args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        """iter(object)."""
        raise self.unsupported_use("iteration")

    def varies_in_length(self, tx: TraceContext) -> bool:
        """Whether a loop over the object had another number of iterations in earlier calls, so that
        unrolling it again would serve few other calls."""
        return False

    def reverse_iterator(self, tx: TraceContext) -> Value:
        """reversed(object)."""
        cls = self.python_type()
        if all(lookup(cls, name)[0] is None for name in ("__reversed__", "__getitem__")):
            raise tx.exceptions.new(TypeError, f"'{cls.__name__}' object is not reversible")
        return self.method(tx, "__reversed__", [], {})

    def iterates_in_python(self) -> bool:
        """Whether iter(object) calls a method that is written in Python."""
        return False

    def next(self, tx: TraceContext) -> Value | None:
        """next(object), None when it is exhausted."""
        raise self.unsupported_use("next()")

    def advance(self, tx: TraceContext) -> Value:
        """next(object), raising StopIteration (with its value) where the iterator is exhausted."""
        item = self.next(tx)
        if item is None:
            raise tx.exceptions.new(StopIteration)
        return item

    def unpack(self, tx: TraceContext) -> list[Value]:
        """The items, as a loop gives them."""
        return take(tx, self.iterator(tx))

    def list_items(self, tx: TraceContext) -> list[Value]:
        """The items of list(object). As unpack, but the length of an object of a class in Python is
        read first."""
        return self.unpack(tx)

    def ask_length(self, tx: TraceContext) -> None:
        """Calls __len__ or __length_hint__ for its side effects, as Python does before it makes a
        list."""

    def mapping_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """The (key, value) pairs that dict(object) takes."""
        pairs = [pair.unpack(tx) for pair in self.unpack(tx)]
        if any(len(pair) != 2 for pair in pairs):
            raise GraphBreak("exception-leaves", "ValueError of a dictionary's update, half-way")
        return [(key, value) for key, value in pairs]

    def length(self, tx: TraceContext) -> Value:
        raise self.unsupported_use("len()")

    def item(self, tx: TraceContext, key: Value) -> Value:
        raise self.unsupported_use("subscript")

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        raise GraphBreak("unsupported-mutation", f"of an item of {self.describe()}")

    def del_item(self, tx: TraceContext, key: Value) -> None:
        raise GraphBreak("unsupported-mutation", f"of an item of {self.describe()}")

    def contains(self, tx: TraceContext, item: Value) -> Value:
        raise self.unsupported_use("membership test")

    # operators between builtin objects: None where the family has no such operator

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """self op other."""
        return None

    def operate_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """other op self, where `other` has no such operator."""
        return None

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """self op other, for a comparison. Where both operands give None, `==` and `!=` compare
        identities."""
        return None

    def compare_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """other op self, for a comparison, where `other` has no such operator."""
        return None

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value | None:
        """-self, +self or ~self; None for literals, which are computed now."""
        return None

    def as_set(self, tx: TraceContext) -> Any:
        """The SetValue to use in a set comparison; None if this is neither a set nor a view."""
        return None

    def content(self) -> Value:
        """The builtin container inside an object of a class below one; else the value itself."""
        return self

    def is_same(self, other: Value) -> bool:
        """`self is other`, as a Python bool."""
        if self is other:
            return True
        if self.is_constant() and other.is_constant():
            return self.python_type() is other.python_type() and self.constant() is other.constant()
        return False

    def reconstruct(self, emit: Emitter) -> None:
        """Emits code that pushes the object, for one that the traced program made: an object with
        a source is loaded from there. Raises CannotReconstruct where code cannot make it."""
        raise CannotReconstruct(self)

    def reconstruct_bound(self, emit: Emitter, receiver: Value) -> None:
        """Emits code that pushes this callable as a method, bound to a receiver."""
        emit.call(types.MethodType, [self, receiver])


# The arguments of a call.
Args = list[Value]
Kwargs = dict[str, Value]


class CannotReconstruct(Exception):
    """Generated code cannot create the object of a value. `created_at`: the step of the root frame
    that made it, None if unknown. `reason`: the id of the break that is made there."""

    def __init__(self, value: Value) -> None:
        super().__init__(value.describe())
        self.created_at: int | None = getattr(value, "created_at", None)
        self.reason = value.break_reason


def none_if_stopped(get: Callable[[], Value | None]) -> Value | None:
    """Calls `get` as a next() in C does: StopIteration becomes None."""
    try:
        return get()
    except ObservedException as error:
        if issubclass(error.cls, StopIteration):
            return None
        raise


def take(tx: TraceContext, iterator: Value, most: float = math.inf) -> list[Value]:
    """Takes all items that an iterator still has, or the first `most`."""
    items: list[Value] = []
    while len(items) < most and (item := none_if_stopped(lambda: iterator.next(tx))) is not None:
        items.append(tx.look(item))
        tx.work.count()  # some have no end
    return items


def check_result_type(result: Value, cls: type, name: str) -> Value:
    """Returns the result of a special method if it has exactly the class that Python expects;
    breaks for others, which Python converts, warns about or rejects."""
    wrong = result.python_type() is not cls
    if wrong or (name == "__len__" and result.is_constant() and result.constant() < 0):
        raise GraphBreak("unknown-call", f"{name}() that gives {result.describe()}")
    return result


class PendingCall(NamedTuple):
    """A call to be made. `passthroughs`: the functions that Python would call on the way to it,
    outermost first."""

    callee: Value
    args: list[Value]
    kwargs: dict[str, Value]
    passthroughs: tuple[PassthroughFrame, ...] = ()


class Null(Value):
    """CPython's NULL on the stack or in a slot."""

    __slots__ = ()
    is_code_constant = True

    def describe(self) -> str:
        return "NULL"

    def reconstruct(self, emit: Emitter) -> None:
        emit.builder.push_null()


NULL = Null()


class LazyValue(Value):
    """An object that has not been looked at (realised): no guard relies on it. One without a source
    is held by an object to which no path leads."""

    __slots__ = ("object",)

    def __init__(self, obj: Any, source: Source | None) -> None:
        super().__init__(source)
        self.object = obj

    def python_type(self) -> type:
        return type(self.object)

    def is_none(self) -> bool:
        """Whether the object is None as far as that is known without a guard; False if it is not
        known."""
        return False

    def truth(self, tx: TraceContext) -> bool:
        raise self.unsupported_use("truth value")


def require_path(obj: Any, source: Source | None, name: str = "") -> Source:
    """Returns the path to an existing object. Breaks where there is none."""
    if source is None:
        what = name or type(obj).__name__
        raise GraphBreak("unsupported-value", f"a {what} that no variable or attribute leads to")
    return source
