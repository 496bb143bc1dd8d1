"""Code of installed packages: whether it may work on tensors.

Loggers, progress bars and web frameworks run between the tensor work of a program. A package none
of whose modules has anything of torch does no such work itself: its frames are not compiled, and
no break is made in the middle of one, as the code after it would be compiled for nothing.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
TORCH = "torch"
# by package: how many modules were loaded when it was looked at, and what was found
_found: dict[str, tuple[int, bool]] = {}


def package_of(filename: str) -> str:
    """The installed package that a file belongs to; "" for other files."""
    for folder in FOLDERS:
        _, installed, inside = filename.rpartition(folder)
        if installed:
            return inside.split(os.sep)[0].removesuffix(".py")
    return ""


def may_work_on_tensors(filename: str) -> bool:
    """Whether the code of a file may: that of a program always, that of an installed package where
    one of its modules has something of torch."""
    package = package_of(filename)
    if not package:
        return True
    loaded = len(sys.modules)
    known = _found.get(package)
    if known is None or (known[0] != loaded and not known[1]):
        known = _found[package] = loaded, has_torch(package)
    return known[1]


def has_torch(package: str) -> bool:
    """Whether a global name of a loaded module of a package is torch, or something of it; True
    where none is loaded."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == package and isinstance(module, types.ModuleType)
    ]
    return not modules or any(
        is_of_torch(value) for module in modules for value in list(vars(module).values())
    )


def is_of_torch(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        name = value.__name__
    elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        name = value.__module__
    else:
        return False
    return type(name) is str and name.partition(".")[0] == TORCH
