"""Descriptions of the program's objects: how another process finds a function, class or module that
an entry names, and how it sees that it is the same one."""

from __future__ import annotations

import enum
import functools
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._ops import HigherOrderOperator

from ....backends.graph.wrappers import is_wrapper
from ....guards.source import FrameView, PathEnds, Source
from ....records import record
from .._hook import Handle
from .content import VERSIONED, content_of, is_enumerated_in_c, is_from_pybind, root_of
from .operators import (
    Unknown,
    digest_of_operator,
    digest_of_wrapper_class,
    is_users_operator,
    name_of_operator,
)
from .process_groups import text_of_distributed


class NotStorable(Exception):
    """An object cannot be described for another process; the message says which."""


class NotFound(Exception):
    """An object is not here, or it is another one; the message says what differs."""


class Description:
    """How to find an object."""

    def __reduce__(self) -> Any:
        return type(self), tuple(vars(self).values())

    def find(self, frame: FrameView) -> Any:
        """The object, for an entry that is to serve this frame. Raises NotFound."""
        raise NotImplementedError


@record
class Module(Description):
    """A module by its name."""

    name: str

    def find(self, frame: FrameView) -> Any:
        if self.name in sys.modules:
            return sys.modules[self.name]
        if root_of(self.name) in VERSIONED:
            return importlib.import_module(self.name)
        raise NotFound(f"module {self.name} is not imported")


@functools.cache
def module_named(name: str) -> Module:
    """The one description of a module, which is then written once."""
    return Module(name)


@record
class OperatorNamespace(Description):
    """torch.ops.NAME, which is a module without an import."""

    name: str

    def find(self, frame: FrameView) -> Any:
        return getattr(torch.ops, self.name)


@record
class HigherOrder(Description):
    """One of torch's higher-order operators, such as cond."""

    name: str

    def find(self, frame: FrameView) -> Any:
        found = getattr(torch.ops.higher_order, self.name, None)
        if found is None:
            raise NotFound(f"operator {self.name} is not registered")
        return found


@record
class RegisteredOperator(Description):
    """An operator that the program has registered with torch, with the content of its rules.
    definition: whether it is the object that torch.library.custom_op returned."""

    name: str
    definition: bool
    content: str

    def find(self, frame: FrameView) -> Any:
        found = find_operator(self.name, self.definition)
        try:
            content = digest_of_operator(found)
        except Unknown as error:
            raise NotFound(f"operator {self.name}: {error}") from error
        if content != self.content:
            raise NotFound(f"operator {self.name} has other functions")
        return found


def find_operator(name: str, definition: bool) -> Any:
    """An operator by its dotted name. Raises NotFound."""
    if definition:
        found = OPDEFS.get(name.replace(".", "::", 1))
    else:
        found = torch.ops
        for part in name.split("."):
            found = getattr(found, part, None)
    if found is None:
        raise NotFound(f"operator {name} is not registered")
    return found


@record
class ModuleDict(Description):
    """The dictionary of a module."""

    module: Module

    def find(self, frame: FrameView) -> Any:
        return vars(self.module.find(frame))


@record
class AttributeOf(Description):
    """An attribute of a described object, with its content."""

    owner: Description
    name: str
    content: str

    def find(self, frame: FrameView) -> Any:
        found = lookup(self.owner.find(frame), self.name)
        check_content(found, self.content, self.name)
        return found


@record
class AtSource(Description):
    """What a path of the frame leads to, with its content."""

    source: Source
    content: str

    def find(self, frame: FrameView) -> Any:
        try:
            found = self.source.load(frame)
        except PathEnds as error:
            raise NotFound(f"{self.source.name} does not exist") from error
        check_content(found, self.content, self.source.name)
        return found


def compared_content(obj: Any) -> str:
    """The content of an object; of a wrapper subclass also what its code names. Raises
    NotStorable."""
    if not (isinstance(obj, type) and is_wrapper(obj)) or root_of(obj.__module__) in VERSIONED:
        return content_of(obj)
    try:
        return digest_of_wrapper_class(obj)
    except Unknown as error:
        raise NotStorable(f"class {obj.__qualname__}: {error}") from error


def check_content(found: Any, content: str, name: str) -> None:
    if compared_content(found) != content:
        raise NotFound(f"{name} is {describe_kind(found)} with other content")


def describe_kind(found: Any) -> str:
    return f"a {type(found).__name__}"


def lookup(owner: Any, name: str) -> Any:
    """An attribute by a dotted name, without running the program's code. Raises NotFound."""
    for part in name.split("."):
        if isinstance(owner, types.ModuleType):
            space = vars(owner)
        elif isinstance(owner, type):
            space = type.__dict__["__dict__"].__get__(owner)
        else:
            raise NotFound(f"{name} is not in {describe_kind(owner)}")
        if part not in space:
            raise NotFound(f"{name} does not exist")
        owner = space[part]
        if isinstance(owner, staticmethod):
            owner = owner.__func__
    return owner


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, as a rule
UNPLACED = (types.BuiltinFunctionType, type)  # types whose objects may not tell where they are
# types whose objects are found by name
NAMED = (
    type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, enum.Enum,
)  # fmt: skip


def describe(obj: Any, source: Source | None) -> Description:
    """The description of an object of the program; `source`: where the entry finds it, if it does.
    Raises NotStorable."""
    if is_users_operator(obj):
        return describe_operator(obj)
    if isinstance(obj, torch._ops._OpNamespace):
        return OperatorNamespace(obj.name)
    if isinstance(obj, HigherOrderOperator) and root_of(type(obj).__module__) == "torch":
        return HigherOrder(obj.name())
    if isinstance(obj, types.ModuleType):
        return describe_module(obj)
    content = compared_content(obj)
    has_name = isinstance(obj, NAMED) or type(obj).__module__ == "numpy"  # NumPy's functions
    for owner, name in possible_names(obj) if has_name else ():
        try:
            if lookup(owner, name) is obj:
                return AttributeOf(describe(owner, None), name, content)
        except (NotFound, NotStorable):
            continue
    if source is not None and is_known_by_content(obj):
        return AtSource(source, content)
    raise NotStorable(f"{describe_kind(obj)} ({safe_name(obj)}) that another process cannot find")


def describe_module(module: types.ModuleType) -> Module:
    """The description of a module by the name of its import: `_io` calls itself `io`."""
    for name in (module.__name__, getattr(getattr(module, "__spec__", None), "name", "")):
        if sys.modules.get(name) is module:
            return module_named(name)
    raise NotStorable(f"module {module.__name__} is not the imported one")


def describe_globals(names: dict[str, Any]) -> ModuleDict:
    """The description of a module's dictionary. Raises NotStorable."""
    name = names["__name__"]
    if names is not getattr(sys.modules.get(name), "__dict__", None):
        raise NotStorable(f"global variables of {name}, which is not an imported module")
    return ModuleDict(module_named(name))


def describe_operator(operator: Any) -> Description:
    name = name_of_operator(operator)
    try:
        content = digest_of_operator(operator)
    except Unknown as error:
        raise NotStorable(f"operator {name}: {error}") from error
    return RegisteredOperator(name, isinstance(operator, CustomOpDef), content)


def is_known_by_content(obj: Any) -> bool:
    """Whether an object is fully described by its content and by guards on its attributes, so that
    its identity adds nothing. Objects that C defines may have fields that never change; what is
    read of a tensor is guarded."""
    known = types.FunctionType | types.CodeType | type | torch.Tensor | Handle
    if isinstance(obj, known | property | classmethod | staticmethod) or type(obj) is object:
        return True
    if is_from_pybind(type(obj)):
        return is_enumerated_in_c(obj) or text_of_distributed(obj) is not None
    return all(cls is object or cls.__flags__ & HEAP_TYPE for cls in type(obj).__mro__)


def safe_name(obj: Any) -> str:
    return str(getattr(obj, "__qualname__", None) or type(obj).__qualname__)


def possible_names(obj: Any) -> Iterator[tuple[Any, str]]:
    """Owners and names under which an object may be found, likely ones first."""
    if isinstance(obj, enum.Enum):
        yield type(obj), obj.name
        return
    owner = getattr(obj, "__objclass__", None) or getattr(obj, "__self__", None)
    if isinstance(owner, types.ModuleType | type):
        yield owner, obj.__name__
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    if module is not None:
        yield module, getattr(obj, "__qualname__", "")
    if isinstance(obj, UNPLACED):
        own_name = getattr(obj, "__name__", "")
        for module in modules_in_c():
            if vars(module).get(own_name) is obj:
                yield module, own_name
                return
        known = other_names().get(id(obj))
        if known is not None:
            yield sys.modules[known[0]], known[1]


@functools.cache
def modules_in_c() -> tuple[types.ModuleType, ...]:
    """The modules that hold torch's types and functions in C, and Python's own types."""
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if name in ("types", "torch") or name.startswith("torch._C")
    )


@functools.cache
def other_names() -> dict[int, tuple[str, str]]:
    """Modules and names of types and of functions in C that do not tell where they are, and have
    another name there than their own."""
    return {
        id(value): (module.__name__, attribute)
        for module in modules_in_c()
        for attribute, value in vars(module).items()
        if isinstance(value, UNPLACED)
    }
