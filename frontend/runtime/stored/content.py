"""The content of code objects, functions and classes as a digest: equal in two processes if the
sources that they were made from are equal, down to the lines on which they stand."""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import re
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

# what is read of a code object beside its constants
CODE_FIELDS = (
    "co_qualname", "co_firstlineno", "co_flags", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_names", "co_varnames", "co_freevars",
    "co_cellvars", "co_code", "co_linetable", "co_exceptiontable",
)  # fmt: skip
# what their modules define changes with versions that the key of a file names
VERSIONED = frozenset({"torch", "framejit", "builtins", *sys.stdlib_module_names})
RANDOM = re.compile(r"_[a-z0-9_]{8}(?=\.py$)")  # that tempfile puts between a prefix and ".py"
WRAPPED = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}

# what is what it says, wherever it comes from
LITERALS = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented),
            torch.dtype, torch.device, torch.layout, torch.memory_format)  # fmt: skip


def content_of(obj: Any) -> str:
    """The digest of a code object, function or class; of another object, only its type's name."""
    for kind, digest in DIGESTS.items():
        if isinstance(obj, kind):
            return digest(obj)
    return name_of_class(type(obj))


def digest_of(parts: Iterator[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()


def digest_of_code(code: types.CodeType) -> str:
    def parts() -> Iterator[str]:
        yield place_of_file(code.co_filename)
        for field in CODE_FIELDS:
            yield repr(getattr(code, field))
        yield from map(text_of_constant, code.co_consts)

    return digest_of(parts())


def place_of_file(name: str) -> str:
    """The name of a file; of one that tempfile has named, without the random part. torch_geometric
    writes the functions of its layers into such files."""
    folder, base = os.path.split(name)
    return os.path.join(folder, RANDOM.sub("_*", base)) if folder == temporary_folder() else name


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
    """Of the class's functions, bases and slots. What else it holds may change while a program
    runs, and guards see it."""

    def parts() -> Iterator[str]:
        yield name_of_class(cls)
        yield name_of_class(type(cls))
        if root_of(cls.__module__) in VERSIONED:
            return
        yield f"{cls.__basicsize__} {cls.__dictoffset__}"
        for base in cls.__bases__:
            yield digest_of_class(base)
        for name, value in sorted(type.__dict__["__dict__"].__get__(cls).items()):
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
    property: lambda obj: digest_of(digest_of_code(one.__code__) for one in functions_in(obj)),
    enum.Enum: lambda member: f"{name_of_class(type(member))} {member.name} {member.value!r}",
}
