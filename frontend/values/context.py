"""TraceContext: all that values know of the capture they live in. tracing/trace.py is the one implementation."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...guards.guard import Kind
from ...guards.source import Source
from ..pycode.call_completion import AS_IS, CallCompletion
from ..pycode.passthrough import PassthroughFrame
from .base import ObservedException, Value

if TYPE_CHECKING:
    import types

    from ...options import Options
    from ..tracing.effect_log import EffectLog
    from ..tracing.graph_builder import GraphBuilder
    from ..tracing.shapes import Shapes
    from .containers.mapping import DictValue
    from .functions.function import FunctionValue
    from .iterators.generator import GeneratorValue
    from .modes.mode_manager import Modes
    from .objects.class_value import ClassValue
    from .objects.enum_member import EnumMember
    from .objects.nn_module import ModuleValue
    from .objects.user_object import UserObject
    from .tensor.random_state import RandomState


class TraceContext(Protocol):
    """One capture, as values see it."""

    options: Options
    graph: GraphBuilder
    effects: EffectLog
    random: RandomState
    modes: Modes
    handled: Value | None  # the exception that is being handled
    representing: list[tuple[Value, Value]]  # calls of reprs that watch for themselves: function and object
    class_paths: dict[int, Source | None]  # paths to classes, by id: a class may have no hash

    # facts

    def guard(self, source: Source | None, kind: Kind, expected: Any) -> None:
        """Relies on a fact about what lies at `source` (nothing to rely on when it is None)."""

    def guard_remaining(self, source: Source, count: int, cls: type, *, exactly: bool) -> None:
        """Relies on how many items an existing iterator of this type has left."""

    @property
    def subclasses_off(self) -> bool:
        """Whether the program has switched __torch_function__ of tensor subclasses off here."""

    def line(self) -> tuple[int, types.CodeType]:
        """The line being interpreted, and the code object it is in."""

    def innermost_globals(self) -> dict[str, Any]:
        """The globals of the frame being interpreted."""

    def place(self) -> int:
        """The latest place so far where a break can be made (tracing/outcome.py)."""

    def count_instruction(self) -> None:
        """A step of the program that costs something; raises GraphBreak when there were too many."""

    def waits(self, generator: GeneratorValue) -> None:
        """A generator has yielded: once nothing leads to it, it is closed."""

    def ended(self, generator: GeneratorValue) -> None:
        """A generator waits no more."""

    def running(self, generator: GeneratorValue) -> bool:
        """Whether a generator's own body is what asks."""

    def changed_under(self, iterator: Any) -> bool:
        """Whether the traced program has changed the container that an existing iterator walks."""

    def replaced_under(self, iterator: Any) -> Value | None:
        """The dictionary that an existing iterator walks, if the traced program has changed values under its keys only."""

    # numbers that vary

    @property
    def shapes(self) -> Shapes:
        """The symbols of this capture."""

    @property
    def has_shapes(self) -> bool:
        """Whether there are any."""

    def is_symbolic(self, source: Source, number: int | float) -> bool:
        """Whether a number that the program is given is to be a symbol."""

    def number_input(self, number: int | float, source: Source) -> Value:
        """The symbol of a number that the program is given."""

    # objects and paths

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an object: guarded when it has a source, a literal of the program when it has none."""

    def wrap_global(self, obj: Any, source: Source | None) -> Value:
        """As wrap, for what a module's namespace holds; a store made by the traced program wins."""

    def wrap_held(self, obj: Any, source: Source | None) -> Value:
        """As wrap, of what an existing object holds: a break where that is a container and no path leads to it."""

    def look(self, value: Value) -> Value:
        """The value itself, or what a Lazy stands for."""

    def may_be_gone(self, obj: Any) -> bool:
        """Whether an existing object may have died by now, but for what holds it until the frame is replayed."""

    def real(self, value: Value) -> Any:
        """The existing object that a value stands for, or None."""

    def known(self, obj: Any) -> Any:
        """The value that a mutable object is tied to, or None."""

    def same(self, left: Value, right: Value) -> bool:
        """`left is right`, relied on either way."""

    def remember(self, obj: Any, value: Value) -> Any:
        """Ties a mutable object to its value, so that every path to it meets the same one; returns the value."""

    def identity(self, value: Value, real: Any) -> Any:
        """The key of an object that is equal to itself alone; `real` is None for one that the trace has made."""

    def attr_source(self, source: Source | None, name: str) -> Source | None:
        """The path to an attribute of what lies at `source`, if there is a path."""

    def dict_item(self, source: Source, key: Any) -> Source:
        """The path to an item of the dictionary at `source`."""

    def root_place(self) -> int:
        """The latest place so far in the root frame where a break can be made."""

    # calls

    def inline(
        self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value], through: tuple[PassthroughFrame, ...] | None = None,
        completion: CallCompletion = AS_IS,
    ) -> Value:  # fmt: skip
        """Interprets a call of a Python function. through: given where the innermost frame's instruction is that call, what it
        passes on the way; completion: what the instruction makes of the result, which is left to the caller here."""

    def construct(self, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Makes an instance by __new__ and __init__."""

    def new_object(self, cls: type, args: list[Value]) -> Value:
        """Makes an instance without __init__."""

    def bound(self, receiver: Value, name: str) -> Value:
        """A method of a builtin type, bound to a value."""

    def builtin_method(self, receiver: Value, descriptor: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method of a C class called through the class: `dict.get(d, k)`."""

    def class_attribute(self, receiver: Value, cls: type, name: str) -> Value:
        """An attribute of a named tuple that only its class knows."""

    def goes_into_graph(self, function: Any) -> bool:
        """Whether a call of it is one node."""

    def is_pure(self, function: Any) -> bool:
        """Whether calling it on literals gives a literal and does nothing else."""

    def is_plain_metaclass(self, meta: type) -> bool:
        """Whether a metaclass makes instances as type does."""

    # exceptions of the traced program

    def handled_outside(self) -> Value:
        """The exception that is being handled around the frame, or None; relied on."""

    def throw(self, cls: type[BaseException], *args: Any) -> ObservedException:
        """The exception to raise when the traced program raises `cls(*args)`."""

    def throw_value(self, cls: type[BaseException], args: list[Value]) -> ObservedException:
        """As throw, with arguments that are values."""

    def exception(self, value: Value) -> Value:
        """The instance that `raise value` raises."""

    # pieces of Python's semantics that several families share

    def equal(self, left: Value, right: Value) -> bool:
        """`left is right or left == right`."""

    def unpack(self, iterable: Value) -> list[Value]:
        """All items of an iterable, as a loop gives them."""

    def listed(self, iterable: Value) -> list[Value]:
        """list(iterable): as unpack, but an object is asked for its length, too."""

    def mapping_pairs(self, mapping: Value) -> list[tuple[Value, Value]]:
        """The pairs that dict(mapping) would take."""

    def sort(self, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
        """sorted(items, key=key, reverse=reverse)."""

    def build_tuple(self, items: list[Value]) -> Value:
        """A new tuple."""

    def build_list(self, items: list[Value]) -> Value:
        """A new list."""

    def build_dict(self, pairs: list[tuple[Value, Value]]) -> DictValue:
        """A new dictionary."""

    def namespace(self, of: UserObject | FunctionValue | EnumMember) -> Value:
        """An object's __dict__."""

    def table(self, module: ModuleValue, name: str) -> DictValue:
        """A module's _parameters, _buffers or _modules."""
