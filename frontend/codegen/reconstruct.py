"""Emits code that pushes a value: how each family of values is loaded or made again in generated
code."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import sys
import types
from collections.abc import Callable, Generator
from typing import Any

import torch

from ...errors import GraphBreak
from ...guards.iterators import advance
from ...guards.source import SequenceItem, SlotSource, Source
from ..pycode.code_builder import CodeBuilder, dummy_closure
from ..pycode.resume import ResumePoint, Unresumable, generator_code
from ..values.base import Null, Value
from ..values.constant import Constant, ConstantMethod
from ..values.containers.deque import DequeIterator, DequeValue
from ..values.containers.instance_dict import Namespace
from ..values.containers.mapping import DictIterator, DictValue, ViewValue
from ..values.containers.mapping_proxy import MappingProxyValue
from ..values.containers.range import RangeValue
from ..values.containers.sequence import (
    BoundBuiltin,
    BuiltinContainer,
    ListValue,
    SliceValue,
    TupleValue,
)
from ..values.containers.set import SetIterator, SetValue
from ..values.deferred_literal import DeferredLiteral
from ..values.functions.attribute_getter import GetterValue
from ..values.functions.function import (
    BuiltinValue,
    CellValue,
    FunctionValue,
    MethodValue,
    PartialValue,
)
from ..values.iterators.generator import GeneratorValue
from ..values.iterators.iterator import (
    BackwardItems,
    CallIterator,
    Enumerate,
    Filter,
    ItemIterator,
    ListedIterator,
    Map,
    RangeIterator,
    SequenceIterator,
    Zip,
)
from ..values.models.itertools import Count, Flat, OneFrameIterator, Pooled, Repeat, Slice
from ..values.modes.mode_manager import (
    GRAD_MODES,
    ManagerMethod,
    ModeManager,
    NullManager,
    NullMethod,
    set_grad_manager,
)
from ..values.modes.profiler_range import Annotation
from ..values.objects.class_value import ClassValue, lookup
from ..values.objects.current_exception import HandledException, LastInstruction
from ..values.objects.exception import ExceptionValue
from ..values.objects.frozen_object import FrozenObject
from ..values.objects.nn_module import ModuleValue
from ..values.objects.python_module import PythonModule
from ..values.objects.user_object import SuperValue, UserObject
from ..values.tensor.backward_hook import HookSetUp
from ..values.tensor.symbolic_number import SymbolicNumber
from ..values.tensor.tensor import TensorMethod, TensorValue
from ..values.tensor.tensor_subclass import TensorObject, wrap_as_instance

REASONS = {
    ExceptionValue: "exception-leaves",
    HookSetUp: "unknown-call",
}  # of breaks before such values were made


class CannotReconstruct(Exception):
    """A value that rebuilt code cannot make. `born` is the step of the root frame that made it,
    None if unknown."""

    def __init__(self, value: Value) -> None:
        super().__init__(value.describe())
        self.born: int | None = getattr(value, "born", None)
        self.reason = (
            "unknown-call"
            if isinstance(value, OneFrameIterator)
            else REASONS.get(type(value), "generator")
        )


class Reconstructor:
    """Emits the making of values. Each is made once and kept in a temporary, so identities stay
    what they were."""

    def __init__(self, builder: CodeBuilder, entry: str, globals_: dict[str, Any]) -> None:
        self.b, self.entry, self.globals = builder, entry, globals_
        self.lifted: dict[Source, int] = {}
        self.outputs: dict[torch.fx.Node, int] = {}  # the temporaries that hold the graph's outputs
        self.results: list[int] = []  # the same, as the graph returns them
        self.temps: dict[int, int] = {}
        self._making: set[int] = set()
        self._kept: list[Value] = []

    def load(self, source: Source) -> None:
        """Pushes the object at the end of a path, as it was when the guards ran."""
        b = self.b
        if (
            isinstance(source, SlotSource)
            and self.entry == "args"
            and source.index not in b.decoded.cells
        ):
            b.load_slot(source.index)  # a cell may hold something else by now
        elif (
            isinstance(source, SequenceItem)
            and self.entry == "state"
            and isinstance(source.of, SlotSource)
        ):
            b.load_state()
            b.load_const(source.index)
            b.subscr()
        else:
            index = self.lifted.setdefault(source, len(self.lifted))
            b.load_lifted()
            b.load_const(index)
            b.subscr()

    def literal(self, obj: Any) -> None:
        """Pushes an object that code holds. A string that CPython would take for another, which it
        has interned, lies in a list."""
        if (
            type(obj) is str
            and obj.isascii()
            and obj.replace("_", "a").isalnum()
            and sys.intern(obj) is not obj
        ):
            self.b.load_const([obj])
            self.b.load_const(0)
            self.b.subscr()
        else:
            self.b.load_const(obj)

    def reload(self, value: Value) -> None:
        """Pushes a value."""
        if isinstance(value, BuiltinContainer) and value.outer is not None:
            value = value.outer
        if isinstance(value, Null):
            self.b.push_null()
            return
        key = id(value)
        temp = self.temps.get(key)
        if temp is not None:
            self.b.load_slot(temp)
            return
        if isinstance(
            value,
            Constant | ClassValue | BuiltinValue | LastInstruction | RangeValue | FrozenObject,
        ):
            self.literal(
                value.real
                if isinstance(value, BuiltinValue | FrozenObject) and not value.is_constant()
                else value.constant()
            )
            return
        self._kept.append(value)  # ids stay taken while temps refer to them
        if key in self._making:
            raise CannotReconstruct(value)
        self._making.add(key)
        if value.source is not None and not isinstance(value, FunctionValue):
            self.load(value.source)
        else:
            maker = MAKERS.get(type(value))
            if maker is None:
                raise CannotReconstruct(value)
            maker(self, value)
        self._making.discard(key)
        if key not in self.temps:
            self.keep(value)

    def method(self, value: TensorMethod) -> None:
        """Pushes a method to be called, as the two items under the arguments of CALL."""
        self.reload(value.receiver)
        self.b.load_method(value.name)

    def keep(self, value: Value) -> None:
        """Remembers that the top of the stack is `value`, and leaves it there."""
        temp = self.temps[id(value)] = self.b.temp()
        self.b.copy(1)
        self.b.store_slot(temp)

    def call(
        self, callee: Any, arguments: list[Callable[[], None]], names: tuple[str, ...] = ()
    ) -> None:
        """Calls a constant with arguments that push themselves."""
        self.b.push_null_before_callee()
        self.b.load_const(callee)
        self.b.push_null_after_callee()
        for argument in arguments:
            argument()
        self.b.call(len(arguments), names)

    def push(self, value: Value) -> Callable[[], None]:
        return lambda: self.reload(value)

    def const(self, obj: Any) -> Callable[[], None]:
        return lambda: self.b.load_const(obj)

    def all(self, values: list[Value]) -> None:
        for value in values:
            self.reload(value)


MAKERS: dict[type, Callable[[Reconstructor, Any], None]] = {}


def makes(*families: type) -> Callable[[Any], Any]:
    def register(maker: Any) -> Any:
        for family in families:
            if family in MAKERS:
                raise ValueError(f"two makers for {family.__name__}")
            MAKERS[family] = maker
        return maker

    return register


@makes(TensorValue)
def make_tensor(r: Reconstructor, value: TensorValue) -> None:
    temp = r.outputs.get(value.node)
    if temp is None:
        temp = r.outputs[value.node] = r.b.temp()
        r.results.append(temp)
    r.temps[id(value)] = temp
    r.b.load_slot(temp)


@makes(DeferredLiteral)
def make_deferred_literal(r: Reconstructor, value: DeferredLiteral) -> None:
    r.call(value.function, [r.push(operand) for operand in value.operands])


@makes(SymbolicNumber)
def make_number(r: Reconstructor, value: SymbolicNumber) -> None:
    """By the program's own arithmetic where there is one, so that it is Python's number to the last
    bit."""
    if value.function is not None:
        r.call(value.function, [r.push(operand) for operand in value.operands])
    elif value.node is not None:
        make_tensor(r, value)
    else:
        function, operands = value.owner.calculation(value)
        r.call(function, [r.push(operand) for operand in operands])


@makes(ListValue)
def make_list(r: Reconstructor, value: ListValue) -> None:
    if any(item is value for item in value.items):
        raise CannotReconstruct(value)
    r.all(value.items)
    r.b.build_list(len(value.items))


@makes(DequeValue)
def make_deque(r: Reconstructor, value: DequeValue) -> None:
    r.call(collections.deque, [lambda: make_list(r, value), r.const(value.maxlen)])


@makes(TupleValue)
def make_tuple(r: Reconstructor, value: TupleValue) -> None:
    def items() -> None:
        r.all(value.items)
        r.b.build_tuple(len(value.items))

    if value.cls is tuple:
        items()
    elif hasattr(value.cls, "_make"):
        r.call(tuple.__new__, [r.const(value.cls), items])
    else:  # torch.Size and torch.return_types
        r.call(value.cls, [items])


@makes(SliceValue)
def make_slice(r: Reconstructor, value: SliceValue) -> None:
    r.all(value.parts)
    r.b.build_slice(3)


def _pairs(r: Reconstructor, value: DictValue) -> None:
    for key, item in (value.entries or {}).values():
        r.reload(key)
        r.reload(item)
    r.b.build_map(len(value.entries or {}))


@makes(DictValue)
def make_dict(r: Reconstructor, value: DictValue) -> None:
    if value.cls is dict:
        _pairs(r, value)
    elif value.cls is collections.defaultdict:
        r.call(
            value.cls, [r.push(value.default_factory or Constant(None)), lambda: _pairs(r, value)]
        )
    else:
        r.call(value.cls, [lambda: _pairs(r, value)])
    if value.attributes:
        _give_attributes(r, value)


def _give_attributes(r: Reconstructor, value: Any) -> None:
    """To the new object on top of the stack, those that the program has stored in it."""
    r.keep(value)
    for name, attribute in value.attributes.items():
        r.b.copy(1)
        r.reload(attribute)
        r.b.swap(2)
        r.b.store_attr(name)


@makes(MappingProxyValue)
def make_mapping_proxy(r: Reconstructor, value: MappingProxyValue) -> None:
    r.call(types.MappingProxyType, [r.push(value.shown)])


@makes(SetValue)
def make_set(r: Reconstructor, value: SetValue) -> None:
    def members() -> None:
        try:
            order = value.making() if value.has_order() else list(value.members)
        except GraphBreak:  # comparing them once more, in Python, cannot be captured any more
            order = None
        if order is None:
            raise CannotReconstruct(value)
        r.all([value.members[key] for key in order])
        r.b.build_set(len(order))

    if value.is_known():  # a copy iterates in the same order
        r.call(set.copy, [r.const(set(value.order))]) if value.cls is set else r.b.load_const(
            value.order
        )
    else:
        members() if value.cls is set else r.call(frozenset, [members])


@makes(ViewValue)
def make_view(r: Reconstructor, value: ViewValue) -> None:
    r.call(getattr(value.of.cls, value.what), [r.push(value.of)])


# functions


@makes(FunctionValue)
def make_function(r: Reconstructor, value: FunctionValue) -> None:
    if value.real is not None:
        r.load(value.source) if value.source is not None else r.b.load_const(value.real)
        return
    if value.globals is r.globals:
        _make_here(r, value)
    else:
        _make_elsewhere(r, value)
    _give_attributes(r, value)


def _make_here(r: Reconstructor, value: FunctionValue) -> None:
    parts = []
    if value.defaults:
        r.all(value.defaults)
        r.b.build_tuple(len(value.defaults))
        parts.append("defaults")
    if value.kwdefaults:
        push_named(r, value.kwdefaults)
        parts.append("kwdefaults")
    if value.annotations is not None:
        r.reload(value.annotations)
        parts.append("annotations")
    if value.closure:
        r.all(list(value.closure))
        r.b.build_tuple(len(value.closure))
        parts.append("closure")
    r.b.load_const(value.code)
    r.b.make_function(parts)


def _make_elsewhere(r: Reconstructor, value: FunctionValue) -> None:
    def tuple_of(values: list[Any]) -> Callable[[], None]:
        def push() -> None:
            r.all(values)
            r.b.build_tuple(len(values))

        return push if values else r.const(None)

    name = value.code.co_name
    parts = [
        r.const(value.code),
        r.const(value.globals),
        r.const(name),
        tuple_of(value.defaults),
        tuple_of(value.closure),
    ]
    r.call(types.FunctionType, parts)
    if value.kwdefaults:
        r.b.copy(1)
        push_named(r, value.kwdefaults)
        r.b.swap(2)
        r.b.store_attr("__kwdefaults__")
    if isinstance(value.annotations, TupleValue) and "__annotations__" not in value.attributes:
        r.b.copy(1)
        r.all(value.annotations.items)
        r.b.build_map(len(value.annotations.items) // 2)
        r.b.swap(2)
        r.b.store_attr("__annotations__")


def push_named(r: Reconstructor, values: dict[str, Value]) -> None:
    for name, item in values.items():
        r.b.load_const(name)
        r.reload(item)
    r.b.build_map(len(values))


@makes(CellValue)
def make_cell(r: Reconstructor, value: CellValue) -> None:
    if value.slot is not None:
        r.b.load_cell(value.slot)
        return
    r.call(types.CellType, [])
    r.keep(value)  # before its contents, which may be a function that closes over it
    if value.contents is not None:
        r.b.copy(1)
        r.reload(value.contents)
        r.b.swap(2)
        r.b.store_attr("cell_contents")


@makes(MethodValue)
def make_method(r: Reconstructor, value: MethodValue) -> None:
    if isinstance(value.function, BuiltinValue) and isinstance(
        value.function.real, types.ClassMethodDescriptorType
    ):
        r.call(value.function.real.__get__, [r.const(None), r.push(value.receiver)])
    elif isinstance(
        value.function, BuiltinValue
    ):  # by the function itself: a class below may have another one of that name
        r.call(
            value.function.real.__get__,
            [r.push(value.receiver), r.const(value.receiver.python_type())],
        )  # without: 3.11 may crash
    else:
        r.call(types.MethodType, [r.push(value.function), r.push(value.receiver)])


@makes(BoundBuiltin)
def make_bound_builtin(r: Reconstructor, value: BoundBuiltin) -> None:
    outer = value.receiver.outer if isinstance(value.receiver, BuiltinContainer) else None
    if outer is None:
        make_bound(r, value)
    else:  # the container's own method, past the one that the object's class may have
        r.call(
            getattr(value.receiver.python_type(), value.name).__get__,
            [r.push(outer), r.const(outer.python_type())],
        )


@makes(ConstantMethod, TensorMethod)
def make_bound(r: Reconstructor, value: Any) -> None:
    r.reload(value.receiver)
    r.b.load_attr(value.name)


@makes(PartialValue)
def make_partial(r: Reconstructor, value: PartialValue) -> None:
    arguments = [r.push(v) for v in (value.function, *value.args, *value.kwargs.values())]
    r.call(functools.partial, arguments, tuple(value.kwargs))
    _give_attributes(r, value)


@makes(GetterValue)
def make_getter(r: Reconstructor, value: GetterValue) -> None:
    r.call(
        value.cls, [r.push(v) for v in (*value.args, *value.kwargs.values())], tuple(value.kwargs)
    )


@makes(SuperValue)
def make_super(r: Reconstructor, value: SuperValue) -> None:
    r.call(super, [r.const(value.cls), r.push(value.receiver)])


@makes(PythonModule)
def make_module(r: Reconstructor, value: PythonModule) -> None:
    r.b.load_const(value.real)


# objects


@makes(UserObject, ModuleValue, ExceptionValue)
def make_object(r: Reconstructor, value: UserObject) -> None:
    if isinstance(value, ExceptionValue):
        if value.born is not None:
            raise CannotReconstruct(value)
        builtin: Any = builtin_exception(value.cls)
        r.call(builtin.__new__, [r.const(value.cls), *(r.push(arg) for arg in value.args)])
    else:
        laid_out = types.SimpleNamespace if issubclass(value.cls, types.SimpleNamespace) else object
        maker = laid_out.__new__ if value.base is None else value.base.python_type().__new__
        items = [lambda: make_tuple(r, value.base)] if isinstance(value.base, TupleValue) else []
        r.call(maker, [r.const(value.cls), *items])
    r.keep(value)
    if isinstance(
        value, ExceptionValue
    ):  # some builtin exceptions take their arguments apart there
        r.call(
            builtin.__init__,
            [lambda: r.b.load_slot(r.temps[id(value)]), *(r.push(arg) for arg in value.args)],
        )
        r.b.pop_top()
    if isinstance(value.base, DictValue):
        if value.base.default_factory is not None:
            r.call(
                collections.defaultdict.__init__,
                [lambda: r.b.load_slot(r.temps[id(value)]), r.push(value.base.default_factory)],
            )
            r.b.pop_top()
        for key, item in (value.base.entries or {}).values():
            r.call(
                value.base.cls.__setitem__,
                [lambda: r.b.load_slot(r.temps[id(value)]), r.push(key), r.push(item)],
            )
            r.b.pop_top()
    elif isinstance(value.base, ListValue):
        r.call(
            list.extend,
            [lambda: r.b.load_slot(r.temps[id(value)]), lambda: make_list(r, value.base)],
        )
        r.b.pop_top()
    for name, stored in value.attrs.items():
        if stored is not None:
            store_attribute(r, value, name, stored)


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def builtin_exception(cls: type) -> type:
    """The nearest exception class made in C, whose __new__ and __init__ lay out an instance."""
    return next(
        base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE or base in C_HEAP_EXCEPTIONS
    )


C_HEAP_EXCEPTIONS = (ExceptionGroup,)  # made by a call in C, so a heap type


def store_in_dictionary(obj: Any, name: str, item: Any) -> None:
    object.__getattribute__(obj, "__dict__")[name] = item


def store_attribute(r: Reconstructor, obj: UserObject, name: str, item: Value) -> None:
    """object.__setattr__(obj, name, item); exceptions keep some attributes where only setattr
    reaches, and behind a descriptor that takes stores for itself what the program stored lies in
    the object's dictionary."""
    in_class = lookup(obj.cls, name)[1]
    hidden = not isinstance(in_class, types.MemberDescriptorType) and hasattr(
        type(in_class), "__set__"
    )
    setter = (
        setattr
        if isinstance(obj, ExceptionValue)
        else store_in_dictionary
        if hidden
        else object.__setattr__
    )
    r.call(setter, [r.push(obj), r.const(name), r.push(item)])
    r.b.pop_top()


@makes(TensorObject)
def make_tensor_object(r: Reconstructor, value: TensorObject) -> None:
    r.call(wrap_as_instance, [r.push(value.plain), r.const(value.cls)])
    r.keep(value)
    for name, item in value.attrs.items():
        if item is not None:
            store_attribute(r, value, name, item)


@makes(Namespace)
def make_namespace(r: Reconstructor, value: Namespace) -> None:
    r.call(object.__getattribute__, [r.push(value.of), r.const("__dict__")])


# context managers


@makes(ModeManager)
def make_manager(r: Reconstructor, value: ModeManager) -> None:
    named = value.keywords
    if value.prev is not None:
        r.call(
            set_grad_manager,
            [r.const(GRAD_MODES[value.cls](value.arguments, named)), r.const(value.prev)],
        )
        return
    r.call(
        value.cls,
        [*(r.const(a) for a in value.arguments), *(r.const(a) for a in named.values())],
        tuple(named),
    )


@makes(ManagerMethod)
def make_manager_method(r: Reconstructor, value: ManagerMethod) -> None:
    r.reload(value.manager)
    r.b.load_attr(value.name)


@makes(NullManager)
def make_null_manager(r: Reconstructor, value: NullManager) -> None:
    r.call(contextlib.nullcontext, [r.push(value.result)])


@makes(NullMethod)
def make_null_method(r: Reconstructor, value: NullMethod) -> None:
    r.reload(value.manager)
    r.b.load_attr(value.name)


@makes(Annotation)
def make_annotation(r: Reconstructor, value: Annotation) -> None:
    r.call(
        torch.ops.profiler._record_function_enter_new, [r.push(value.name), r.push(value.arguments)]
    )


# iterators


@makes(SequenceIterator, DequeIterator)
def make_sequence_iterator(r: Reconstructor, value: SequenceIterator) -> None:
    if value.step == 1:
        r.reload(value.sequence) if value.index >= 0 else r.b.load_const(
            ()
        ) if value.sequence.cls is tuple else r.b.build_list(0)
        r.b.get_iter()
    else:
        r.call(reversed, [r.push(value.sequence)])
    r.b.copy(1)
    temp = r.b.temp()
    r.b.store_slot(temp)
    if isinstance(value, DequeIterator) and not value.is_current:
        raise CannotReconstruct(value)
    if isinstance(value.sequence, DequeValue):  # its iterators can only be walked
        walked = value.index if value.step == 1 else len(value.sequence.items) - 1 - value.index
        r.call(advance, [lambda: r.b.load_slot(temp), r.const(walked), r.const(False)])
    else:
        r.call(setstate, [lambda: r.b.load_slot(temp), r.const(value.index)])
    r.b.pop_top()
    r.b.delete_slot(temp)


def setstate(iterator: Any, index: int) -> None:
    """Moves a list's or tuple's iterator to an index."""
    iterator.__setstate__(index)


@makes(RangeIterator)
def make_range_iterator(r: Reconstructor, value: RangeIterator) -> None:
    r.b.load_const(value.rest)
    r.b.get_iter()


@makes(ListedIterator)
def make_listed_iterator(r: Reconstructor, value: ListedIterator) -> None:
    r.all(value.rest)
    r.b.build_list(len(value.rest))
    r.b.get_iter()


@makes(SetIterator)
def make_set_iterator(r: Reconstructor, value: SetIterator) -> None:
    if value.over or not value.of.is_known():
        make_listed_iterator(r, value)
        return
    if not value.is_current:
        raise CannotReconstruct(value)
    r.reload(value.of)
    r.b.get_iter()
    skip_items(r, len(value.members) - len(value.rest))


@makes(DictIterator)
def make_dict_iterator(r: Reconstructor, value: DictIterator) -> None:
    if (
        value.index > len(value.keys)
        or list(value.start(value.of.entries or {})) != value.keys
        or value.deletions != value.of.deletions
    ):
        raise CannotReconstruct(value)
    r.call(value.start, [lambda: r.call(getattr(value.of.cls, value.what), [r.push(value.of)])])
    skip_items(r, value.index)


def skip_items(r: Reconstructor, steps: int) -> None:
    """Takes items from the iterator on top of the stack."""
    r.b.copy(1)
    temp = r.b.temp()
    r.b.store_slot(temp)
    r.call(advance, [lambda: r.b.load_slot(temp), r.const(steps), r.const(False)])
    r.b.pop_top()
    r.b.delete_slot(temp)


@makes(GeneratorValue)
def make_generator(r: Reconstructor, value: GeneratorValue) -> None:
    frame = value.frame
    if value.finished:
        r.call(finished_generator, [])
        return
    if any(isinstance(item, HandledException) for item in frame.stack):
        raise CannotReconstruct(value)
    decoded = frame.decoded
    index = (
        frame.pc if value.started else decoded.start + 2
    )  # behind RETURN_GENERATOR and its POP_TOP
    live = decoded.live_in[index - 1]
    slots = [slot for slot, held in enumerate(frame.slots) if held is not None and slot in live]
    kinds = tuple("null" if isinstance(item, Null) else "value" for item in frame.stack)
    try:
        code = generator_code(decoded, ResumePoint(index, kinds, frozenset(slots)), value.started)
    except Unresumable as error:
        raise CannotReconstruct(value) from error
    function = types.FunctionType(code, frame.globals, code.co_name, None, dummy_closure(code))
    function.__name__, function.__qualname__ = value.names
    bound = [value for value in (frame.slots[slot] for slot in slots) if value is not None]
    held = bound + [item for item in frame.stack if not isinstance(item, Null)]
    r.call(
        start_generator if value.started else function,
        [*([r.const(function)] if value.started else []), r.push(TupleValue(held))],
    )


def start_generator(function: types.FunctionType, state: tuple[Any, ...]) -> types.GeneratorType:
    """A generator that waits where the one with this state did."""
    generator = function(state)
    next(generator)
    return generator


def empty_generator() -> Generator[None, None, None]:
    yield from ()


def finished_generator() -> Generator[None, None, None]:
    """A generator that gives nothing."""
    generator = empty_generator()
    generator.close()
    return generator


@makes(Enumerate)
def make_enumerate(r: Reconstructor, value: Enumerate) -> None:
    r.call(enumerate, [push_iterated(r, value.inner), r.const(value.index)])


@makes(Zip)
def make_zip(r: Reconstructor, value: Zip) -> None:
    r.call(
        zip,
        [*(push_iterated(r, inner) for inner in value.inners), r.const(value.strict)],
        ("strict",),
    )


def push_iterated(r: Reconstructor, inner: Value) -> Callable[[], None]:
    """What has been asked for its iterator already, and is one itself: its class must not be asked
    again."""
    if isinstance(inner, UserObject) and not isinstance(
        lookup(inner.cls, "__iter__")[1], types.WrapperDescriptorType
    ):
        return lambda: r.call(iterate, [r.push(inner)])
    return r.push(inner)


def iterate(obj: Any) -> Any:
    """An iterator of what next(obj) gives."""
    return map(next, itertools.repeat(obj))


@makes(Map)
def make_map(r: Reconstructor, value: Map) -> None:
    r.call(map, [r.push(value.function), *(push_iterated(r, inner) for inner in value.inners)])


@makes(Filter)
def make_filter(r: Reconstructor, value: Filter) -> None:
    r.call(filter, [r.push(value.function), push_iterated(r, value.inner)])


@makes(CallIterator)
def make_call_iterator(r: Reconstructor, value: CallIterator) -> None:
    if value.exhausted:
        raise CannotReconstruct(value)
    r.call(iter, [r.push(value.function), r.push(value.sentinel)])


@makes(ItemIterator)
def make_item_iterator(r: Reconstructor, value: ItemIterator) -> None:
    if value.index < 0:
        raise CannotReconstruct(value)
    r.call(iterator_at, [r.push(value.of), r.const(value.index)])


@makes(BackwardItems)
def make_backward_items(r: Reconstructor, value: BackwardItems) -> None:
    cls: Any = value.of.python_type()
    if not cls.__len__.__module__.startswith("torch."):  # it is asked for once more
        raise CannotReconstruct(value)
    r.call(reversed, [r.push(value.of)])
    r.b.copy(1)
    temp = r.b.temp()
    r.b.store_slot(temp)
    r.call(setstate, [lambda: r.b.load_slot(temp), r.const(value.index)])
    r.b.pop_top()
    r.b.delete_slot(temp)


def iterator_at(obj: Any, index: int) -> Any:
    """iter(obj), by its items, at an index."""
    iterator = iter(obj)
    iterator.__setstate__(index)
    return iterator


@makes(Count)
def make_count(r: Reconstructor, value: Count) -> None:
    r.call(itertools.count, [r.push(value.value), r.push(value.step)])


@makes(Flat)
def make_flat(r: Reconstructor, value: Flat) -> None:
    rest = value.outer or SequenceIterator(TupleValue([]))
    if value.current is None:
        r.call(itertools.chain.from_iterable, [push_iterated(r, rest)])
    else:  # the iterable that is open, then the others
        current = value.current
        r.call(
            itertools.chain.from_iterable,
            [lambda: r.call(itertools.chain, [lambda: _one(r, current), push_iterated(r, rest)])],
        )


def _one(r: Reconstructor, value: Value) -> None:
    push_iterated(r, value)()
    r.b.build_list(1)


def make_and_skip(r: Reconstructor, steps: int, make: Callable[[], None]) -> None:
    """Makes an iterator and takes some items from it."""
    make()
    skip_items(r, steps)


@makes(Repeat)
def make_repeat(r: Reconstructor, value: Repeat) -> None:
    r.call(
        itertools.repeat,
        [r.push(value.repeated), *([] if value.left is None else [r.const(value.left)])],
    )


@makes(Pooled)
def make_pooled(r: Reconstructor, value: Pooled) -> None:
    pools = [r.push(TupleValue(list(pool))) for pool in value.pools]
    options = [r.const(option) for option in value.options.values()]
    make_and_skip(
        r, value.index, lambda: r.call(value.cls, [*pools, *options], tuple(value.options))
    )


@makes(Slice)
def make_slice_iterator(r: Reconstructor, value: Slice) -> None:
    if value.inner is None:
        r.call(itertools.islice, [r.const(()), r.const(0)])
        return
    stop = None if value.stop is None else max(0, value.stop - value.at)
    r.call(
        itertools.islice,
        [
            push_iterated(r, value.inner),
            r.const(value.wanted - value.at),
            r.const(stop),
            r.const(value.step),
        ],
    )
