"""The code with which a repro script imports a backend that the user's program registered or passed
to compile().

An importable module is imported. For a program that was run as a script, top-level statements are
executed one by one until the backend exists, so that the program itself does not run again.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..registry import GRAPHED, SHIPPED, is_known, lookup

# the module name under which a script's statements run: not "__main__"
PROGRAM = "__framejit_program__"
LOST = "its definition is in no file: define or import it here"


def backend_statements(backend: str | Callable[..., Any]) -> list[str]:
    """Return Python statements that make `backend` known and assign the name `backend`."""
    if callable(backend):
        return function_statements(backend)
    name = backend.removesuffix(GRAPHED)
    if name in SHIPPED:
        return [f"backend = {backend!r}"]
    found = lookup(name)
    if found.origin:  # an installed plugin is found by its entry point
        return [f"backend = {backend!r}"]
    module = inspect.getmodule(found.function)
    if module is not None and is_importable(module):
        return [f"import {module.__name__}  # registers the backend", f"backend = {backend!r}"]
    file = file_of(found.function)
    if not file:
        return [f"# {LOST}", f"backend = {backend!r}"]
    recorded = [f"backend += {GRAPHED!r}"] if backend.endswith(GRAPHED) else []
    return [*load_statements(file, name), *recorded]


def function_statements(function: Callable[..., Any]) -> list[str]:
    """Return the statements for a backend that is a function of the program's own."""
    name = getattr(function, "__qualname__", "")
    module = inspect.getmodule(function)
    if name.isidentifier() and module is not None and is_importable(module):
        return [f"from {module.__name__} import {name} as backend"]
    file = file_of(function)
    if name.isidentifier() and file:
        return load_statements(file, name)
    return [f"# {LOST}", f"backend = {name or type(function).__name__!r}"]


def load_statements(file: str, name: str) -> list[str]:
    return [
        "from framejit.backends.autotune.user_backends import load_backend",
        f"backend = load_backend({file!r}, {name!r})",
    ]


def is_importable(module: ModuleType) -> bool:
    """Whether `import` in another process finds a module."""
    if module.__name__ == "__main__":
        return False
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin == getattr(module, "__file__", None)


def file_of(function: Callable[..., Any]) -> str:
    """The absolute path of the file that defines a function, "" where there is none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else Path()
    return str(path.resolve()) if path.is_file() else ""


def load_backend(file: str, name: str) -> str | Callable[..., Any]:
    """Execute a program's top-level statements until it has the backend `name`: registered, or a
    global function.

    Raises LookupError where the whole file does not have it.
    """
    module = ModuleType(PROGRAM)
    module.__file__ = file
    sys.modules[PROGRAM] = module
    sys.path.insert(0, str(Path(file).parent))
    for statement in ast.parse(Path(file).read_text(), file).body:
        exec(compile(ast.Module([statement], []), file, "exec"), vars(module))
        if is_known(name):
            return name
        found = vars(module).get(name)
        if callable(found):
            return found
    raise LookupError(f"{file} neither registers nor defines a backend named {name!r}")
