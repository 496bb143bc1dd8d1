"""Modules of the package that are loaded late, by importlib: what is taken of them exists. Type
checkers do not look there."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    path: ast.parse(path.read_text())
    for folder in ("frontend", "guards", "backends", "cli")
    for path in ROOT.glob(f"{folder}/**/*.py")
    if re.search(r"import_(module|permanently)\(", path.read_text())
}
# Triton may not be installed
NEED_A_GPU = {".gpu", "..backends.native.gpu", "..native.attention.flex_call"}


def loaded_module(node: ast.AST | None) -> str | None:
    """The relative name in a call of import_module(name, __package__), or of
    import_permanently()."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_permanently"),
            args=[ast.Constant(value=str(name)), _],
        ):
            return name
    return None


def names_taken(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, attribute) of what is read of modules loaded late: directly, by way of a variable, or
    of a function that returns one."""
    made_by = {
        function.name: module
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and (module := loaded_module(node.value))
    }
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef | ast.Module):
            continue
        variables = {
            node.targets[0].id: module
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if (module := loaded_module(node.value))
        }
        for node in ast.walk(scope):
            match node:
                case ast.Attribute(value=ast.Name(id=name)) if name in variables:
                    yield variables[name], node.attr
                case ast.Attribute(value=ast.Call(func=ast.Name(id=name))) if name in made_by:
                    yield made_by[name], node.attr
                case ast.Attribute(value=ast.Call() as call) if module := loaded_module(call):
                    yield module, node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_taken_exists(path):
    package = ".".join(("framejit", *path.relative_to(ROOT).parent.parts))
    missing = [
        f"{module}: {name}"
        for module, name in names_taken(FILES[path])
        if module not in NEED_A_GPU and not hasattr(importlib.import_module(module, package), name)
    ]
    assert missing == []


def test_names_are_found():
    tree = ast.parse(
        "def parts():\n return importlib.import_module('.parts', __package__)\n"
        "def use():\n late = importlib.import_module('.late', __package__)\n"
        " parts().Recorder(late.name)\n importlib.import_module('.more', __package__).again()\n"
    )
    assert set(names_taken(tree)) == {(".parts", "Recorder"), (".late", "name"), (".more", "again")}
