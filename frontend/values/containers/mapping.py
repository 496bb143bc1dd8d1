"""Dictionaries (dict, OrderedDict, defaultdict, Counter)."""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, Source
from ..base import Args, CannotReconstruct, Kwargs, LazyValue, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..objects.mro import lookup
from ..operation import Operation
from ..registry import wraps
from .dict_contents import DictContents, Entries
from .dict_iterator import DictIterator
from .dict_keys import key_is_literal

PLAIN_METHODS = frozenset(
    "get keys values items pop popitem update setdefault clear move_to_end __setitem__ "
    "__getitem__ __len__".split()
)


class DictValue(DictContents):
    """A dictionary of the class `cls`: its operations, and the code that makes or changes it."""

    __slots__ = ("cls", "default_factory", "attributes")
    state = (*DictContents.state, "attributes", "default_factory")

    def __init__(
        self,
        entries: Entries | None,
        source: Source | None = None,
        real: dict[Any, Any] | None = None,
        cls: Any = dict,
        default_factory: Value | None = None,
    ) -> None:
        super().__init__(entries, source, real)
        self.cls = cls
        self.default_factory = default_factory
        # those that the program gave an OrderedDict it has made
        self.attributes: dict[str, Value] = {}

    def is_plain(self) -> bool:
        """Whether it is a dict and not of a subclass."""
        return self.cls is dict and self.outer is None

    def literal(self, tx: TraceContext) -> Any:
        if self.cls is not dict:
            raise self.unsupported_use("as an argument")
        return {key.literal(tx): value.literal(tx) for key, value in self.pairs(tx)}

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        pairs = {key.constant(): tx.graph.argument(item) for key, item in self.pairs(tx)}
        nodes = {key: node for key, (node, _) in pairs.items()}
        return nodes, {key: fake for key, (_, fake) in pairs.items()}

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if self.cls is Counter and name in COUNTERS_OWN:
            return tx.calls.class_method(self, Counter, name).call(tx, args, kwargs)
        if self.attributes and name not in PLAIN_METHODS:
            raise self.unsupported_use(f"{name}() of one with attributes")
        return super().method(tx, name, args, kwargs)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """A method, or what only some kinds of dictionary have: a default factory, and attributes
        of an OrderedDict."""
        if self.cls is Counter and name in COUNTERS_OWN:
            return tx.calls.class_method(self, Counter, name)
        if name == "default_factory" and self.default_factory is not None:
            return self.default_factory
        if name in self.attributes:
            return self.attributes[name]
        if (
            self.cls is OrderedDict
            and self.outer is None
            and self.source is not None
            and not hasattr(OrderedDict, name)
        ):
            path, own = InstanceDict(self.source), vars(self.real)
            if name in own:
                return tx.wrap(own[name], DictItem(path, name))
            tx.guards.add(path, Kind.ABSENT, name)
        return super().attribute(tx, name)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if (
            self.cls is not OrderedDict
            or self.source is not None
            or self.outer is not None
            or hasattr(OrderedDict, name)
        ):
            super().set_attribute(tx, name, value)
        tx.effects.change(self)
        self.attributes = {**self.attributes, name: value}

    def iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self, "keys", tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self, "keys", tx, reversed)

    def item(self, tx: TraceContext, key: Value) -> Value:
        """self[key]. For a missing key: the default factory, a Counter's 0, or a subclass's
        __missing__."""
        value = self.get(tx, key)
        if value is not None:
            return value
        if self.default_factory is not None and not self._no_factory():
            value = self.default_factory.call(tx, [], {})
            self.put(tx, key, value)
            return value
        if self.cls is Counter:
            return Constant(0)
        if self.outer is not None:
            of_classes = (
                vars(cls)["__missing__"]
                for cls in self.outer.python_type().__mro__
                if "__missing__" in vars(cls)
            )
            if not isinstance(next(of_classes, DICTS_OWN), types.MethodDescriptorType):
                missing = self.outer.special_method(tx, "__missing__")  # type: ignore[attr-defined]
                return missing.call(tx, [key], {})
        raise tx.exceptions.new_of_values(KeyError, [key])

    def _no_factory(self) -> bool:
        factory = self.default_factory
        return factory is not None and factory.is_none()

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        self.put(tx, key, value)

    def del_item(self, tx: TraceContext, key: Value) -> None:
        if self.drop(tx, key) is None:
            raise tx.exceptions.new_of_values(KeyError, [key])

    def reconstruct(self, emit: Emitter) -> None:
        def new_dict() -> None:
            emit.push_dict((self.entries or {}).values())

        if self.cls is dict:
            new_dict()
        elif self.cls is defaultdict:
            emit.call(self.cls, [self.default_factory or Constant(None), new_dict])
        else:
            emit.call(self.cls, [new_dict])
        if self.attributes:
            emit.give_attributes(self, self.attributes)

    def emit_fill(self, emit: Emitter, obj: Value) -> None:
        if self.default_factory is not None:
            emit.run(defaultdict.__init__, [obj, self.default_factory])
        for key, item in (self.entries or {}).values():
            emit.run(self.cls.__setitem__, [obj, key, item])

    def stored_items(self) -> list[tuple[Source, Value]]:
        if self.source is None or self.real is None:
            return []
        real = dict(dict.items(self.real))  # past methods of a subclass
        return [
            (DictItem(self.source, key), value)
            for key, (_, value) in self.known_entries.items()
            if key_is_literal(key) and not self._is_unchanged(real, key, value)
        ]

    def emit_changes(self, emit: Emitter) -> None:
        """Sets and deletes the items that differ. Fills the dictionary anew where that would give
        the wrong order."""
        if self.entries is None:
            for key, item in self.stores.values():
                emit.run(self.cls.__setitem__, [self, key, item])
            return
        try:
            self._emit_difference(emit, self.real_items(), self.entries)
        except GraphBreak as error:  # its order differs from that of its items
            raise CannotReconstruct(self) from error

    def _emit_difference(self, emit: Emitter, real: dict[Any, Any], entries: Entries) -> None:
        """Emits the deletions and stores that give the real dictionary these entries in this
        order."""
        kept = [key for key in real if key in entries and key not in self.dropped]
        new = [key for key in entries if key not in real or key in self.dropped]
        if [*kept, *new] != list(entries):
            emit.run(self.cls.clear, [self])
            changed = list(entries.values())
        else:
            for key in real:
                if key not in entries or key in self.dropped:
                    emit.run(self.cls.__delitem__, [self, emit.const(key)])
            changed = [
                entry
                for key, entry in entries.items()
                if key in self.dropped or not self._is_unchanged(real, key, entry[1])
            ]
        for key, item in changed:
            emit.run(self.cls.__setitem__, [self, key, item])

    def _is_unchanged(self, real: dict[Any, Any], key: Any, item: Value) -> bool:
        """Whether an item is the one that the real dictionary holds under the key."""
        if key not in real:
            return False
        if type(item) is LazyValue:
            return item.object is real[key]
        return item is self.seen.get(key) or (
            item.source is not None and item.source == DictItem(self.known_source, key)
        )

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not isinstance(other, DictValue):
            return None
        if self.cls is Counter:
            answer = self.method(tx, op.name, [other], {})
            if not answer.is_not_implemented():
                return answer
        return Constant(op.answer(equal_dictionaries(tx, self, other))) if op.is_equality else None


DICTS_OWN = vars(defaultdict)["__missing__"]
COUNTERS_OWN = frozenset(
    name for name, raw in vars(Counter).items() if isinstance(raw, types.FunctionType)
)


def default_factory_of(
    tx: TraceContext, obj: dict[Any, Any], source: Source | None
) -> Value | None:
    if not isinstance(obj, defaultdict):
        return None
    member = vars(defaultdict)["default_factory"]  # past what a class below may have under the name
    if type(obj) is not defaultdict and lookup(type(obj), "default_factory")[1] is not member:
        raise GraphBreak(
            "unsupported-value", f"a {type(obj).__name__}, whose default_factory is its own"
        )
    return tx.wrap(obj.default_factory, source and AttrSource(source, "default_factory"))


def holds_globals(obj: dict[Any, Any]) -> bool:
    """Whether a dictionary is the namespace of a module, or of other code."""
    return "__builtins__" in obj or ("__spec__" in obj and "__loader__" in obj)


@wraps(dict, OrderedDict, defaultdict, Counter)
def wrap_dict(tx: TraceContext, obj: dict[Any, Any], source: Source | None) -> Value:
    factory = default_factory_of(tx, obj, source)
    if source is not None and holds_globals(obj):
        raise GraphBreak("unsupported-value", "a dictionary of global variables")
    if source is None:
        entries = {
            (k := tx.wrap(key, None)).key(tx): (k, tx.wrap(item, None)) for key, item in obj.items()
        }
        return DictValue(entries, cls=type(obj), default_factory=factory)
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, DictValue(None, source, obj, type(obj), factory))


def builtin_base(cls: type) -> type:
    return next(base for base in cls.__mro__ if base in (dict, OrderedDict, defaultdict, Counter))


def equal_dictionaries(tx: TraceContext, left: DictValue, right: DictValue) -> bool:
    if set(left.all_entries(tx)) != set(right.all_entries(tx)):
        return False
    others = ((value, right.get(tx, key)) for key, value in left.pairs(tx))
    return all(other is not None and tx.objects.is_equal(value, other) for value, other in others)
