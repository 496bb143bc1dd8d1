"""Trace: one capture's TraceContext - graph, guards, effects, and what is known of the objects met so far."""
from __future__ import annotations

import collections
import importlib
import math
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from ...backends.graph.backward_hooks import HookEntry, HookExit
from ...errors import GraphBreak, SkipFrame
from ...guards.guard import Guard, Kind
from ...guards.iterators import iterated_container
from ...guards.source import (
    WALKED,
    AttrSource,
    DictItem,
    GlobalsSource,
    HandledOutside,
    InstanceDict,
    IteratorPart,
    ModuleSource,
    Source,
    TorchStateSource,
)
from ...guards.torch_state import TorchState
from ...options import Options
from ...phases import Clock
from ..pycode.call_completion import AS_IS, CallCompletion
from ..pycode.passthrough import PassthroughFrame
from ..values import operators as operate
from ..values.base import Lazy, ObservedException, Value
from ..values.constant import Constant
from ..values.containers.instance_dict import Namespace
from ..values.containers.mapping import DictValue
from ..values.containers.mapping_proxy import unwrap_proxy
from ..values.containers.sequence import BoundBuiltin, BuiltinContainer, ListValue, Sequence, TupleValue
from ..values.functions.function import CellValue, FunctionValue, MethodValue
from ..values.iterators.existing_iterator import ExistingIterator
from ..values.iterators.generator import GeneratorValue
from ..values.iterators.iterator import ItemIterator, take
from ..values.models import ensure_models, torch_policy
from ..values.modes.mode_manager import Modes
from ..values.objects.class_value import MISSING, ClassValue, bind, lookup, raw_attribute, stored_in_class, type_path
from ..values.objects.comparison_key import ComparisonKey
from ..values.objects.enum_member import EnumMember
from ..values.objects.exception import ExceptionValue
from ..values.objects.nn_module import ModuleValue
from ..values.objects.python_module import PythonModule
from ..values.objects.user_object import UserObject
from ..values.registry import accepts, method_of
from ..values.tensor.backward_hook import break_here
from ..values.tensor.random_state import RandomState
from ..values.tensor.tensor import Identity, TensorValue
from ..values.tensor.tensor_subclass import SubclassMethod, TensorObject
from ..values.wrap import wrap
from .capture import BrokenFrame
from .construct import construct, new_object
from .cuda_guard import settle
from .effect_log import EffectLog
from .fake_execution import CaptureFakeMode, load_torch
from .generator_close import ReachabilityCache
from .graph_builder import GraphBuilder, is_symbolic
from .inline import inline
from .outcome import BreakReached, Restart
from .released_objects import may_be_gone
from .variation import Variation

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .shapes import Shapes

# Kinds of which one source may carry several guards that differ in what they expect.
REPEATABLE = frozenset({Kind.ABSENT, Kind.PRESENT, Kind.HASATTR, Kind.SAME, Kind.DISTINCT, Kind.PYTHON, Kind.SHAPE})


CONTAINERS = (list, dict, set, bytearray, collections.deque)
DICTS_ITER = vars(dict)["__iter__"]
OPERATION = 200  # instructions that cost as much as an operation on fake tensors, or on symbols
# What is left to Python: loops (id of the code object, index of the loop's start), and branches of which one side was expected in vain
# (the same of the branch, negative).
Loops = set[tuple[int, int]]


@dataclass
class LoopIterations:
    """A loop in one frame: the work done before its first turn, the place of that (outcome.py), and turns so far."""

    work: int
    place: int
    count: int = 0


class SortItem:
    """An item of a sort: compared, in the order in which Python's own sort does it, by what the program says of its key."""

    def __init__(self, tx: Trace, key: Value, of: Value) -> None:
        self.tx, self.key, self.of = tx, key, of

    def __lt__(self, other: SortItem) -> bool:
        try:
            if isinstance(self.key, ComparisonKey) and isinstance(other.key, ComparisonKey):
                answer = self.key.compare.call(self.tx, [self.key.of, other.key.of], {})
                return operate.compare(self.tx, "<", answer, Constant(0)).truth(self.tx)
            return operate.compare(self.tx, "<", self.key, other.key).truth(self.tx)
        except ObservedException as error:
            raise GraphBreak("unknown-call", "a sort that fails half-way") from error


class Trace:
    """What values may ask of the capture they live in; see values/context.py."""

    def __init__(
        self, options: Options, function: types.FunctionType, variation: Variation, loops: Loops, clock: Clock, stop_at: int = -1
    ) -> None:
        with clock.phase("imports"):
            ensure_models()
            settle()
            load_torch()
            fake_mode = CaptureFakeMode()
        self.options = options
        self.clock = clock
        self.variation = variation
        self.numbers: dict[Source, Any] = {}  # ints and floats that the program was given
        self._numbers: dict[Source, Value] = {}
        self._shapes: Shapes | None = None
        self.function = function  # whose globals are the root frame's
        self.graph = GraphBuilder(self, fake_mode)
        self.effects = EffectLog()
        self.random = RandomState()
        self.modes = Modes()
        self.guards: dict[Any, Guard] = {}
        self.class_paths: dict[int, Source | None] = {}
        self.handled: Value | None = None  # the exception that is being handled
        self._outside = sys.exc_info()[1]  # ... around the frame
        self.frames: list[Interpreter] = []  # innermost last
        self.given: list[Value | None] = []  # the outermost one's slots at its start
        self.instructions = 0
        self.stop_at = stop_at  # the place of the break, where it is known beforehand (outcome.py)
        self.loops = loops
        self.turns: dict[tuple[Interpreter, int], LoopIterations] = {}
        self.representing: list[tuple[Value, Value]] = []  # calls of recursive_repr's wrappers: function and object
        self.waiting: dict[GeneratorValue, None] = {}  # generators that have yielded
        self.leads = ReachabilityCache()
        self.raised_at: dict[Value, int] = {}  # places of exceptions that were raised and caught
        self.keyed: dict[type, set[int]] = {}  # by type, ids of the objects that were keys by their identity
        self._known: dict[int, tuple[Any, Value]] = {}
        self._globals_paths: dict[int, Source | None] = {}
        self.guard(TorchStateSource(), Kind.TORCH_STATE, TorchState.now())
        if options.capture_scalar_outputs or options.capture_dynamic_output_shape_ops:
            self._shapes = self.shapes  # operators ask for symbols from the first one on

    # facts

    def guard(self, source: Source | None, kind: Kind, expected: Any) -> None:
        if source is None:
            return
        key: Any = (source, kind)
        if kind in REPEATABLE:
            key = (source, kind, expected if kind is not Kind.PYTHON else expected[0])
        if key not in self.guards:
            self.guards[key] = Guard(source, kind, expected, self.where())

    def guard_remaining(self, source: Source, count: int, cls: type, *, exactly: bool) -> None:
        """Relies on how many items an iterator has left; a later call of this says more than an earlier one."""
        self.guards[source, Kind.REMAINING] = Guard(source, Kind.REMAINING, (count, exactly, cls), self.where())

    def waits(self, generator: GeneratorValue) -> None:
        """A generator has yielded: once nothing leads to it, it is closed."""
        self.waiting.setdefault(generator, None)

    def ended(self, generator: GeneratorValue) -> None:
        """A generator waits no more."""
        self.waiting.pop(generator, None)

    def running(self, generator: GeneratorValue) -> bool:
        """Whether a generator's own body is what asks."""
        return generator.frame in self.frames

    def changed_under(self, iterator: Any) -> bool:
        """Whether the traced program has changed the container that an existing iterator walks."""
        container = iterated_container(iterator)
        value = None if container is iterator else self.known(container)
        return value in self.effects.changed or (isinstance(value, UserObject) and value.base in self.effects.changed)

    def replaced_under(self, iterator: Any) -> Value | None:
        """The dictionary that an existing iterator walks, if the traced program has changed values under its keys only."""
        value = self.known(iterated_container(iterator))
        return value if isinstance(value, DictValue) and value.keeps_keys() else None

    def forget_guards(self, mark: int) -> None:
        """Drops what was relied on since there were `mark` guards: a break took back what relied on it."""
        for key in list(self.guards)[mark:]:
            del self.guards[key]

    def count_instruction(self) -> None:
        self.instructions += 1
        if self.instructions > self.options.trace_budget:
            raise GraphBreak("too-long", str(self.options.trace_budget))

    def forget(self) -> None:
        """Lets go of the program's objects: a trace lies in reference cycles, and what it has met should die when Python says."""
        self._known.clear()
        self.raised_at.clear()
        self.turns.clear()
        self.waiting.clear()
        self.leads.of.clear()
        self.effects.changed.clear()
        self.effects.outputs.clear()
        self.effects.expected.clear()
        self.effects.globals.clear()
        self._outside = None
        self.frames.clear()
        self.given.clear()
        self.graph.forget()

    def turn(self, frame: Interpreter, target: int) -> None:
        """A frame goes back to the start of a loop: left to Python when unrolling it has become too much."""
        loop = (id(frame.decoded.code), target)
        if loop in self.loops:
            raise GraphBreak("long-loop", str(self.options.unroll_turns))
        work = self.instructions + OPERATION * (len(self.graph.nodes) + (self.shapes.asked if self.has_shapes else 0))
        turns = self.turns.get((frame, target))
        if turns is None:
            turns = self.turns[frame, target] = LoopIterations(work, self.place())
        turns.count += 1
        if turns.count > self.options.unroll_turns and work - turns.work > self.options.unroll_budget:
            self.loops.add(loop)
            raise Restart(turns.place, GraphBreak("long-loop", str(self.options.unroll_turns)))

    def place(self) -> int:
        """The latest place so far where a break can be made."""
        return next(frame.place for frame in reversed(self.frames) if frame.resumable)

    def broken_frames(self) -> tuple[BrokenFrame, ...]:
        """The frames in which a break can be made, as they are."""
        found = [frame for frame in self.frames if frame.resumable]
        return tuple(
            BrokenFrame(f.decoded, f.globals, f.group, f.place, tuple(f.stack), tuple(f.slots), f.through, f.completion) for f in found
        )

    def reached(self, frame: Interpreter) -> Exception:
        """What ends the capture in this frame, where it has come to the place of the break."""
        if not frame.resumable:
            return SkipFrame("a second capture went another way than the first")
        return BreakReached(self.broken_frames())

    def line(self) -> tuple[int, types.CodeType]:
        """The line being interpreted, and the code object it is in."""
        frame = self.frames[-1]
        return frame.current.line or frame.decoded.code.co_firstlineno, frame.decoded.code

    def innermost_globals(self) -> dict[str, Any]:
        return self.frames[-1].globals

    def where(self) -> str:
        """The user's line being interpreted."""
        return self.frames[-1].where() if self.frames else ""

    def whole_where(self) -> tuple[str, ...]:
        """The same of each frame, innermost first."""
        return tuple(frame.where() for frame in reversed(self.frames))

    @property
    def subclasses_off(self) -> bool:
        """Whether the program has switched __torch_function__ of tensor subclasses off here."""
        return bool(self.modes.subclasses_off)

    # numbers that vary

    @property
    def shapes(self) -> Shapes:
        """The symbols of this capture; their module is loaded by the first capture that has any."""
        if self._shapes is None:
            with self.clock.phase("imports"):
                module = importlib.import_module(".shapes", __package__)
            self._shapes = module.Shapes(self.options, self.graph.fake_mode, self.where)
        return self._shapes

    @property
    def has_shapes(self) -> bool:
        """Whether anything is symbolic so far."""
        return self._shapes is not None

    def is_symbolic(self, source: Source, number: int | float) -> bool:
        """Whether a number that the program is given is to be a symbol."""
        options = self.options
        self.numbers[source] = number
        static = (options.specialize_int if type(number) is int else options.specialize_float) or not has_symbol(number)
        if static or options.dynamic is False or not options.automatic_dynamic_shapes:
            return False
        return self.variation.varies(source, number)

    def number_input(self, number: int | float, source: Source) -> Value:
        """The symbol of a number at a path; one symbol a path."""
        if source not in self._numbers:
            self._numbers[source] = self.shapes.input(number, source)
        return self._numbers[source]

    # objects

    def wrap(self, obj: Any, source: Source | None) -> Value:
        known = self._known.get(id(obj))
        if known is not None and not isinstance(known[1], FunctionValue | CellValue):
            value = known[1]
            if source is not None and value.source is not None and value.source != source:
                self.guard(source, Kind.SAME, value.source)
            return value
        return wrap(self, obj, source)

    def wrap_global(self, obj: Any, source: Source | None) -> Value:
        """An object found in a module's or function's globals; a store made by the traced program wins."""
        if self.effects.globals and isinstance(source, DictItem):
            for (_, name), (where, value) in self.effects.globals.items():
                if name == source.key and isinstance(where, dict) and where.get(name, self) is obj and value is not None:
                    return value
        return self.wrap(obj, source)

    def look(self, value: Value) -> Value:
        if type(value) is Lazy:
            return self.wrap_held(value.object, value.source)
        return value

    def may_be_gone(self, obj: Any) -> bool:
        return may_be_gone(self, obj)

    def wrap_held(self, obj: Any, source: Source | None) -> Value:
        """As wrap, of what an existing object holds: a copy of a container that no path leads to would take its changes."""
        if source is None and isinstance(obj, CONTAINERS) and self.known(obj) is None:
            raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
        return self.wrap(obj, source)

    def known(self, obj: Any) -> Any:
        found = self._known.get(id(obj))
        return found and found[1]

    def real(self, value: Value) -> Any:
        """The existing object that a value stands for; None where no path led to one."""
        if isinstance(value, ClassValue):
            return value.cls
        if isinstance(value, (TensorValue, FunctionValue, PythonModule)):
            return value.real
        return next((obj for obj, known in self._known.values() if known is value), None)

    def remember(self, obj: Any, value: Value) -> Any:
        self._known[id(obj)] = (obj, value)
        return value

    def identity(self, value: Value, real: Any) -> Identity:
        """The key of an object that is equal to itself alone."""
        if real is not None:
            self.keyed.setdefault(value.python_type(), set()).add(id(real))
        return Identity(value if real is None else real)

    def misplaced(self) -> Restart | None:
        """The break to be made before the first output that may end in a list which the program uses itself, so that its time counts;
        or before the first expectation, where the graph writes into its inputs, which then could not start over; or before backward hooks
        are set up, which counts handles, where the program counts some, too."""
        uses_lists = any(isinstance(value, ListValue) and value.source is not None for _, value in self._known.values())
        listed = next((output.place for output in self.effects.outputs if output.listed and uses_lists), None)
        if listed is not None:
            return Restart(listed, GraphBreak("output", "a warning recorded in a list"))
        if self.effects.expected and any(item.mutated for item in self.graph.inputs):
            return Restart(self.effects.expected[0].place, GraphBreak("data-dependent-branch", ", in code that writes into its inputs,"))
        if (id(RemovableHandle), "next_id") in self.effects.globals:
            for node in self.graph.nodes:
                if isinstance(node.target, HookEntry | HookExit):
                    return Restart(node.target.hooks.born, break_here())
        return None

    def may_expect(self, tested: TensorValue) -> bool:
        """Whether a graph can hand out the truth of a tensor."""
        plain = torch._C._functorch.maybe_current_level() is None and not is_symbolic(tested.fake)
        return plain and tested.fake.numel() == 1

    def expect(self, tested: TensorValue, truth: bool, branch: tuple[int, int] | None) -> bool:
        """Goes on as if a tensor were true, or false."""
        fact = self.graph.call("call_function", torch.ne if truth else torch.eq, [tested, Constant(0)], {})
        assert isinstance(fact, TensorValue)
        self.effects.expect(fact.node, self.place(), None if self.options.fullgraph else branch)
        return truth

    def apart(self) -> list[list[Source]]:
        """Paths to existing objects that must not be one object: a change of one would be a change of the other, or as keys they
        would be one. One list a type of which something was changed, or several were keys."""
        types_ = [value.python_type() for value in self.effects.changed if value.source is not None]
        by_type: dict[type, list[Source]] = {cls: [] for cls in (*types_, *(cls for cls, keys in self.keyed.items() if len(keys) > 1))}
        walked: dict[int, Source] = {}  # paths to containers that were met under iterators alone
        for _, value in list(self._known.values()):
            if value.source is not None and value.python_type() in by_type:
                by_type[value.python_type()].append(value.source)
            if isinstance(value, ExistingIterator) and type(value.walked) in by_type:
                walks, known = IteratorPart(value.source, WALKED), self.known(value.walked)
                same = walked.setdefault(id(value.walked), walks) if known is None else known.source
                if same is walks:
                    by_type[type(value.walked)].append(walks)
                elif same is not None:
                    self.guard(walks, Kind.SAME, same)
        for item in self.graph.inputs:
            if item.value.python_type() in by_type and (item.source, Kind.TENSOR) in self.guards:
                by_type[item.value.python_type()].append(item.source)
        return [list(dict.fromkeys(sources)) for sources in by_type.values()]

    # paths

    def attr_source(self, source: Source | None, name: str) -> Source | None:
        return source and AttrSource(source, name)

    def dict_item(self, source: Source, key: Any) -> Source:
        return DictItem(source, key)

    def globals_path(self, globals_: dict[str, Any], function: FunctionValue | None = None) -> Source | None:
        """A path to a globals dictionary."""
        key = id(globals_)
        if key not in self._globals_paths:
            path: Source | None = None
            module = sys.modules.get(globals_.get("__name__", ""))
            if globals_ is self.function.__globals__:
                path = GlobalsSource()
            elif module is not None and vars(module) is globals_:
                path = InstanceDict(ModuleSource(globals_["__name__"]))
            elif function is not None and function.source is not None:
                path = AttrSource(function.source, "__globals__")
            self._globals_paths[key] = path
        return self._globals_paths[key]

    def root_place(self) -> int:
        return self.frames[0].place

    # calls

    def inline(
        self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value], through: tuple[PassthroughFrame, ...] | None = None,
        completion: CallCompletion = AS_IS,
    ) -> Value:  # fmt: skip
        return inline(self, function, args, kwargs, through, completion)

    def keeps_globals(self, globals_: dict[str, Any]) -> bool:
        """Whether a globals dictionary can be found again from a frame that goes on after a break."""
        module = sys.modules.get(globals_.get("__name__", ""))
        return globals_ is self.function.__globals__ or (module is not None and vars(module) is globals_)

    def construct(self, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return construct(self, cls, args, kwargs)

    def class_method(self, receiver: Value, cls: type, name: str) -> Value:
        """The function `name` of a class, bound to a receiver."""
        raw, source = raw_attribute(self, cls, name, type_path(self, receiver))
        return MethodValue(receiver, self.wrap(raw, source))

    def is_plain_new(self, function: Any) -> bool:
        """Whether a __new__ written in Python does what object.__new__ does."""
        return function is typing.Generic.__dict__.get("__new__")

    def new_object(self, cls: type, args: list[Value]) -> Value:
        return new_object(self, cls, args)

    def bound(self, receiver: Value, name: str) -> Value:
        return BoundBuiltin(receiver, name)

    def builtin_method(self, receiver: Value, descriptor: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method of a C class, called on a value: `dict.get(d, k)`, `object.__setattr__(o, n, v)`, `torch.Tensor.add(a, b)`."""
        owner, name = descriptor.__objclass__, descriptor.__name__
        if isinstance(receiver, TensorObject) and owner is not object:
            return SubclassMethod(receiver, name).call(self, args, kwargs)
        if isinstance(receiver, UserObject):
            if owner is object or issubclass(owner, BaseException):
                return self._object_method(receiver, name, args)
            if receiver.base is not None:
                return self._owners_method(receiver.base, owner, name, args, kwargs)
            raise GraphBreak("unknown-call", f"{owner.__name__}.{name}")
        return self._owners_method(receiver, owner, name, args, kwargs)

    def _owners_method(self, receiver: Value, owner: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """The method of this very class, past what the receiver's own class has under the name."""
        if owner is dict and receiver.python_type() is collections.OrderedDict and name in vars(collections.OrderedDict):
            raise GraphBreak("unknown-call", f"dict.{name}() of an OrderedDict, past the order that it keeps")
        handler = method_of(owner, name) if isinstance(receiver, BuiltinContainer) else None
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(self, receiver, *args, **kwargs)
        return receiver.method(self, name, args, kwargs)

    def _object_method(self, receiver: UserObject, name: str, args: list[Value]) -> Value:
        if name == "__setattr__":
            receiver.generic_set_attribute(self, args[0].constant(), args[1])
            return Constant(None)
        if name == "__getattribute__":
            return receiver.generic_attribute(self, args[0].constant())
        if name == "__delattr__":
            receiver.generic_del_attribute(self, args[0].constant())
            return Constant(None)
        if name == "__init__":
            plain_new = receiver.cls.__new__ is object.__new__  # as object.__init__ asks
            if args and not isinstance(receiver, ExceptionValue) and (receiver.cls.__init__ is not object.__init__ or plain_new):
                raise GraphBreak("exception-leaves", "TypeError: object.__init__() takes exactly one argument")
            if isinstance(receiver, ExceptionValue):
                if receiver.source is not None:
                    raise GraphBreak("unknown-call", f"{receiver.cls.__name__}.__init__ of an exception that existed before")
                self.effects.change(receiver)
                receiver.args = args
            return Constant(None)
        if name in ("__eq__", "__ne__"):
            return Constant(name == "__eq__") if self.same(receiver, args[0]) else Constant(NotImplemented)
        if name == "__str__":
            return receiver.text(self) if isinstance(receiver, ExceptionValue) else receiver.method(self, "__repr__", [], {})
        if isinstance(receiver, ExceptionValue) and name in ("__repr__", "add_note", "with_traceback"):
            return self._exception_method(receiver, name, args)
        if name == "__format__" and args[0].is_constant() and args[0].constant() == "":
            return receiver.method(self, "__str__", [], {})
        raise GraphBreak("unknown-call", f"object.{name}")

    def _exception_method(self, receiver: ExceptionValue, name: str, args: list[Value]) -> Value:
        if name == "__repr__":
            return receiver.representation(self)
        if name == "add_note":
            receiver.add_note(self, args[0])
            return Constant(None)
        if receiver.source is not None or not args[0].is_constant() or args[0].constant() is not None:  # one made here has none yet
            raise GraphBreak("unknown-call", "with_traceback()")
        return receiver

    def goes_into_graph(self, function: Any) -> bool:
        return torch_policy.goes_into_graph(function)

    def is_pure(self, function: Any) -> bool:
        return torch_policy.is_pure(function)

    def is_plain_metaclass(self, meta: type) -> bool:
        return torch_policy.is_plain_metaclass(meta)

    # exceptions

    def handled_outside(self) -> Value:
        """The exception that is being handled around the frame, or None; relied on."""
        return self.wrap(self._outside, HandledOutside())

    def throw(self, cls: type[BaseException], *args: Any) -> ObservedException:
        return self.throw_value(cls, [self.wrap(arg, None) for arg in args])

    def throw_value(self, cls: type[BaseException], args: list[Value]) -> ObservedException:
        error = ExceptionValue(cls, args)
        error.happens_during(self, self.handled)
        return ObservedException(error)

    def exception(self, value: Value) -> Value:
        """What `raise value` raises: an instance."""
        if value.is_constant() and isinstance(value.constant(), type) and issubclass(value.constant(), BaseException):
            return value.call(self, [], {})
        if issubclass(value.python_type(), BaseException):
            return value
        raise self.throw(TypeError, "exceptions must derive from BaseException")

    def same(self, left: Value, right: Value) -> bool:
        """`left is right`; that two objects of one type which existed before are distinct is guarded."""
        if left.same(right):
            if left is not right and may_be_two(left, right) and left.source is not None and right.source is not None:
                self.guard(left.source, Kind.SAME, right.source)
            return True
        if isinstance(left, TupleValue) and isinstance(right, TupleValue) and left.real is not None and right.real is not None:
            one = left.real is right.real
            self.guard(left.source, Kind.SAME if one else Kind.DISTINCT, right.source if one else (right.source,))
            return one
        alike = left.python_type() is right.python_type() and (not left.is_constant() or may_be_two(left, right))
        if alike and left.source is not None and right.source is not None:
            self.guard(left.source, Kind.DISTINCT, (right.source,))
        return False

    # small pieces of Python's semantics that several families share

    def equal(self, left: Value, right: Value) -> bool:
        return operate.equal(self, self.look(left), self.look(right))

    def unpack(self, iterable: Value) -> list[Value]:
        """All items of an iterable, as a loop gives them."""
        if isinstance(iterable, Sequence):
            return iterable.all(self)
        return take(self, iterable.iterator(self))

    def listed(self, iterable: Value) -> list[Value]:
        """list(iterable): as unpack, but an object is asked for its length, too."""
        if not isinstance(iterable, UserObject | ItemIterator):
            return self.unpack(iterable)
        iterator = iterable.iterator(self)
        operate.ask_length(self, iterable if isinstance(iterable, UserObject) else iterable.of)
        return take(self, iterator)

    def mapping_pairs(self, mapping: Value) -> list[tuple[Value, Value]]:
        """The (key, value) pairs that dict(mapping) would take."""
        if isinstance(mapping, UserObject) and isinstance(mapping.base, DictValue) and lookup(mapping.cls, "__iter__")[1] is DICTS_ITER:
            mapping = mapping.base  # C takes its items past what the class has for keys() and __getitem__
        mapping = unwrap_proxy(mapping)
        if isinstance(mapping, DictValue):
            return mapping.pairs(self)
        if isinstance(mapping, UserObject) and hasattr(mapping.cls, "keys"):
            return [(key, mapping.item(self, key)) for key in self.unpack(mapping.method(self, "keys", [], {}))]
        pairs = [self.unpack(pair) for pair in self.unpack(mapping)]
        if any(len(pair) != 2 for pair in pairs):
            raise GraphBreak("exception-leaves", "ValueError of a dictionary's update, half-way")
        return [(key, value) for key, value in pairs]

    def sort(self, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
        """sorted(items, key=key, reverse=reverse)."""
        by_value = key is None or (key.is_constant() and key.constant() is None)
        keys = items if by_value else [key.call(self, [item], {}) for item in items]
        backwards = reverse is not None and reverse.truth(self)
        if not all(key.is_constant() for key in keys):
            return [item.of for item in sorted((SortItem(self, k, i) for k, i in zip(keys, items, strict=True)), reverse=backwards)]
        decorated = [key.constant() for key in keys]
        try:
            order = sorted(range(len(items)), key=decorated.__getitem__, reverse=backwards)
        except TypeError as error:
            raise self.throw(TypeError, *error.args) from None
        return [items[i] for i in order]

    def build_tuple(self, items: list[Value]) -> Value:
        return TupleValue(items)

    def build_list(self, items: list[Value]) -> Value:
        return ListValue(items)

    def build_dict(self, pairs: list[tuple[Value, Value]]) -> DictValue:
        entries: dict[Any, tuple[Value, Value]] = {}
        for key, value in pairs:  # of equal keys the first stays, with the last value
            hashed = key.key(self)
            old = entries.get(hashed)
            entries[hashed] = (old[0] if old else key, value)
        return DictValue(entries)

    def namespace(self, of: UserObject | FunctionValue | EnumMember) -> Value:
        return Namespace(of)

    def table(self, module: ModuleValue, name: str) -> DictValue:
        """A module's _parameters, _buffers or _modules."""
        value = module.own_attribute(self, name)
        assert isinstance(value, DictValue)
        return value

    def class_attribute(self, receiver: Value, cls: type, name: str) -> Value:
        """An attribute that the class of a named tuple has, bound to one."""
        path = type_path(self, receiver)
        stored = stored_in_class(self, cls, name, path)
        if stored is not MISSING:
            return stored
        raw, source = raw_attribute(self, cls, name, path)
        if raw is MISSING:
            raise self.throw(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        if isinstance(raw, types.MethodDescriptorType | types.WrapperDescriptorType):
            raise GraphBreak("unknown-call", f"{cls.__name__}.{name}")
        return bind(self, raw, receiver, ClassValue(cls, path), source)


def has_symbol(number: int | float) -> bool:
    """Whether a symbol can stand for a number: torch's ints have 64 bits, sympy's floats are finite and of zeros they have one."""
    if type(number) is int:
        return number.bit_length() < 64
    return math.isfinite(number) and (number != 0 or math.copysign(1.0, number) > 0)


def may_be_two(left: Value, right: Value) -> bool:
    """Whether two values are literals of which equal ones may be different objects."""
    if not (type(left) is type(right) is Constant):
        return False
    one, other = left.object, right.object
    return type(one) is type(other) and type(one) in (str, bytes, int, float, complex) and one == other
