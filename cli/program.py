"""Runs the user's program in this process, as `python script.py` or `python -m module` would."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

MAIN = "__main__"
DECORATOR = "framejit.compile"


class ProgramError(Exception):
    """The program cannot be started; the message is for the user."""


@dataclass(frozen=True)
class UserScript:
    """A script, or the file of a module. `folder` comes first in sys.path."""

    path: Path
    folder: str
    argv: Sequence[str]
    spec: ModuleSpec | None = None
    package: str | None = None

    @property
    def name(self) -> str:
        return self.spec.name if self.spec is not None else self.path.name

    def run(self, decorated: Collection[str] = ()) -> int:
        """Runs it and returns its exit status; an uncaught exception's traceback goes to stderr.
        decorated: qualified names of functions in it that are to be compiled. Raises ProgramError
        if the program cannot be read or has no such function."""
        code = self.code(decorated)
        module = types.ModuleType(MAIN)
        vars(module).update(
            __file__=str(self.path),
            __builtins__=__builtins__,
            __spec__=self.spec,
            __package__=self.package,
        )
        before = sys.argv, sys.modules[MAIN]
        sys.argv, sys.modules[MAIN] = list(self.argv), module
        try:
            exec(code, vars(module))
        except SystemExit as leaving:
            return status_of(leaving.code)
        except BaseException as error:
            traceback.print_exception(
                error.with_traceback(own_part(error.__traceback__, str(self.path)))
            )
            return 130 if isinstance(error, KeyboardInterrupt) else 1
        finally:
            sys.argv, sys.modules[MAIN] = before
        return 0

    def code(self, decorated: Collection[str]) -> types.CodeType:
        try:
            tree = ast.parse(self.path.read_bytes(), str(self.path))
        except OSError as error:
            raise ProgramError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (SyntaxError, ValueError) as error:
            raise ProgramError("".join(traceback.format_exception_only(error)).strip()) from error
        for name in decorated:
            decorate(tree, name, self.path)
        return compile(tree, str(self.path), "exec", dont_inherit=True)


def script(path: str, args: Sequence[str]) -> UserScript:
    """Raises ProgramError where there is no such file."""
    found = Path(path)
    if found.is_dir() and (found / "__main__.py").exists():
        return UserScript((found / "__main__.py").absolute(), str(found.absolute()), [path, *args])
    if not found.is_file():
        raise ProgramError(
            f"no script {path!r} in {os.getcwd()}; for a module, say -m "
            f"{path.removesuffix('.py').replace('/', '.')}"
        )
    return UserScript(found.absolute(), str(found.resolve().parent), [path, *args])


def module(name: str, args: Sequence[str]) -> UserScript:
    """A module, or a package with a __main__. sys.path must begin with the current folder. Raises
    ProgramError."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ProgramError(f"no module {name!r}: {error}") from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ProgramError(
            f"no module {name!r} that can be run; is it on sys.path, and a package with a "
            "__main__.py?"
        )
    return UserScript(Path(spec.origin), os.getcwd(), [spec.origin, *args], spec, spec.parent)


def decorate(tree: ast.Module, name: str, path: Path) -> None:
    """Puts framejit.compile over the function of a qualified name. Raises ProgramError where there
    is none."""
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        found = next(
            (node for node in reversed(body) if isinstance(node, kinds) and node.name == part), None
        )
        if found is None:
            break
        body = found.body
    if not isinstance(found, ast.FunctionDef):
        raise ProgramError(
            f"{path.name} defines no function {name!r} at its top level or in a class"
        )
    call = ast.parse(f"__import__('framejit').{DECORATOR.rpartition('.')[2]}", mode="eval").body
    for node in ast.walk(call):
        ast.copy_location(node, found)
    found.decorator_list.insert(len(found.decorator_list), call)


def compile_in_place(target: str) -> None:
    """Compiles "pkg.mod:name" where it is defined, so that whoever imports it later gets the
    compiled one. Raises ProgramError."""
    framejit = importlib.import_module("framejit")
    where, _, name = target.partition(":")
    try:
        owner = importlib.import_module(where)
    except ImportError as error:
        raise ProgramError(f"--function {target}: cannot import {where!r}: {error}") from error
    *path, last = name.split(".")
    try:
        for part in path:
            owner = getattr(owner, part)
        function = getattr(owner, last)
    except AttributeError as error:
        raise ProgramError(f"--function {target}: {error}") from error
    try:
        setattr(owner, last, framejit.compile(function))
    except TypeError as error:
        raise ProgramError(f"--function {target}: {error}") from error


def status_of(code: object) -> int:
    """An exit status as sys.exit(code) makes it."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def own_part(trace: types.TracebackType | None, path: str) -> types.TracebackType | None:
    """The traceback from the program's first frame on."""
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename != path:
        first = first.tb_next
    return first or trace
