"""The content of code objects, functions and classes as a digest: equal in two processes if the
sources are equal, including line numbers."""

from __future__ import annotations

import enum
import functools
import hashlib
import marshal
import operator
import os
import re
import sys
import tempfile
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._hook import Handle
from .process_groups import text_of_distributed

# the fields of a code object that count, beside its constants
code_fields = operator.attrgetter(
    "co_qualname", "co_firstlineno", "co_flags", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_names", "co_varnames", "co_freevars",
    "co_cellvars", "co_code", "co_linetable", "co_exceptiontable",
)  # fmt: skip
WITHOUT_REFERENCES = 2  # marshal's version whose bytes do not depend on reference counts
# packages whose versions are in the key of a file, so that their content need not be compared
VERSIONED = frozenset({"torch", "numpy", "framejit", "builtins", *sys.stdlib_module_names})
RANDOM = re.compile(r"_[a-z0-9_]{8}(?=\.py$)")  # that tempfile puts between a prefix and ".py"
KERNEL = re.compile(r"(?<=^ipykernel_)\d+$")  # the process in the folder of a notebook's cells
WRAPPED = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
}

# whose repr describes them completely
LITERALS = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented),
            torch.dtype, torch.device, torch.layout, torch.memory_format)  # fmt: skip


def content_of(obj: Any) -> str:
    """The digest of a code object, function or class, or the text of a process group, a mesh or a
    member of an enumeration; of another object, only its type's name."""
    for kind, digest in DIGESTS.items():
        if isinstance(obj, kind):
            return digest(obj)
    if is_enumerated_in_c(obj):
        return f"{name_of_class(type(obj))} {obj!r}"
    return text_of_distributed(obj) or name_of_class(type(obj))


def is_enumerated_in_c(obj: Any) -> bool:
    """Whether an object is a member of an enumeration that pybind11 has made, such as a
    reduction."""
    return is_from_pybind(type(obj)) and isinstance(getattr(type(obj), "__members__", None), dict)


def is_from_pybind(cls: type) -> bool:
    """Whether pybind11 has made a class, or a base of it."""
    return any(base.__module__ == "pybind11_builtins" for base in cls.__mro__)


def digest_of(parts: Iterator[str]) -> str:
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def digest_of_code(code: types.CodeType) -> str:
    """The digest of a code object, computed once."""
    number = id(code)
    known = _digests.get(number)
    if known is not None and known[0]() is code:
        return known[1]
    digest = compute_digest(code)
    _digests[number] = weakref.ref(code, lambda _: _digests.pop(number, None)), digest
    return digest


# by id: equal code objects may differ in lines
_digests: dict[int, tuple[weakref.ref[types.CodeType], str]] = {}


def compute_digest(code: types.CodeType) -> str:
    if is_written_equally(code):
        try:
            return hashlib.sha256(marshal.dumps(code, WITHOUT_REFERENCES)).hexdigest()
        except ValueError:
            pass  # a constant that only the program's own bytecode has
    return digest_of(parts_of_code(code))


def is_written_equally(code: types.CodeType) -> bool:
    """Whether marshal writes equal code objects in the same way in all processes. It does not for
    code with sets, whose order varies, or in a file with a random name."""
    if place_of_file(code.co_filename) != code.co_filename:
        return False
    return not any(map(has_set, code.co_consts))


def has_set(constant: Any) -> bool:
    if isinstance(constant, types.CodeType):
        return any(map(has_set, constant.co_consts))
    return isinstance(constant, frozenset) or (
        isinstance(constant, tuple) and any(map(has_set, constant))
    )


def parts_of_code(code: types.CodeType) -> Iterator[str]:
    yield place_of_file(code.co_filename)
    yield repr(code_fields(code))
    yield from map(text_of_constant, code.co_consts)


@functools.lru_cache(1024)
def place_of_file(name: str) -> str:
    """The name of a file, without the parts that differ between processes: the random part that
    tempfile gives (torch_geometric writes the functions of its layers into such files), and the
    process of a notebook's cell."""
    folder, base = os.path.split(name)
    if folder == temporary_folder():
        return os.path.join(folder, RANDOM.sub("_*", base))
    above, last = os.path.split(folder)
    if above == temporary_folder():
        return os.path.join(above, KERNEL.sub("*", last), base)
    return name


def in_file(code: types.CodeType, name: str) -> types.CodeType:
    """A code object, and those inside it, with the name that its file has in this process."""
    if code.co_filename == name or place_of_file(code.co_filename) != place_of_file(name):
        return code
    inner = (
        in_file(one, name) if isinstance(one, types.CodeType) else one for one in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=tuple(inner))


@functools.cache
def temporary_folder() -> str:
    return tempfile.gettempdir()


def text_of_constant(constant: Any) -> str:
    """A constant as text, the same in every process: sets in an order of their own."""
    if isinstance(constant, types.CodeType):
        return digest_of_code(constant)
    if isinstance(constant, tuple):
        return f"({', '.join(map(text_of_constant, constant))})"
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(text_of_constant, constant)))}}}"
    return f"{type(constant).__name__} {constant!r}"


def digest_of_class(cls: type) -> str:
    """The digest of a class's functions, bases and slots. Its other attributes may change while a
    program runs; guards check those."""

    def parts() -> Iterator[str]:
        """What a capture may rely on of a class; of a class in a library with a version, its
        name."""
        yield name_of_class(cls)
        yield name_of_class(type(cls))
        if root_of(cls.__module__) in VERSIONED:
            return
        yield f"{cls.__basicsize__} {cls.__dictoffset__}"
        for base in cls.__bases__:
            yield digest_of_class(base)
        items = type.__dict__["__dict__"].__get__(cls).items()
        # keys of other types may run code of the program when they are compared
        named = [(name, value) for name, value in items if type(name) is str]
        for name, value in sorted(named, key=operator.itemgetter(0)):
            if isinstance(value, types.MemberDescriptorType):
                yield name
            for function in functions_in(value):
                yield name
                yield digest_of_code(function.__code__)

    return digest_of(parts())


def functions_in(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions that an item of a class consists of."""
    inner = [getattr(value, name) for name in WRAPPED.get(type(value), ())] or [value]
    yield from (one for one in inner if isinstance(one, types.FunctionType))


def name_of_class(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def root_of(module: str | None) -> str:
    """The package that a module belongs to."""
    return (module or "").partition(".")[0]


DIGESTS: dict[type, Callable[[Any], str]] = {
    types.CodeType: digest_of_code,
    types.FunctionType: lambda function: digest_of_code(function.__code__),
    type: digest_of_class,
    **dict.fromkeys(
        WRAPPED, lambda obj: digest_of(digest_of_code(one.__code__) for one in functions_in(obj))
    ),
    Handle: lambda handle: content_of(handle.function),
    enum.Enum: lambda member: f"{name_of_class(type(member))} {member.name} {member.value!r}",
}
