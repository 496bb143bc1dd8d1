"""Functions are named by a verb phrase or by what they return, never by a bare participle: `walked`, `shown`, `cut`; no two classes in
different folders have one name."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path for place in ("*.py", "frontend/**/*.py", "guards/**/*.py", "backends/**/*.py", "cli/*.py") for path in ROOT.glob(place)
)
IRREGULAR = frozenset(
    "begun born broken built done drawn driven fallen fed felt found given gone grown held hid hidden kept known laid led left lent lost "
    "made met paid said seen sent shown sold spent stood taken tied told thrown understood withdrawn worn woken written".split()
)
VERBS = frozenset({"embed", "feed", "need", "seed"})


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    return bool(re.fullmatch("[a-z]+", word)) and word not in VERBS and (word.endswith("ed") or word in IRREGULAR)


# `raise self.unsupported(...)`; `handle.framejit.generated()`, which users know by this name
EXCEPTIONS = frozenset({"unsupported", "generated"})


def is_property(function):
    names = [node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in function.decorator_list]
    return any(name in ("property", "cached_property") for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_and_methods(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef) and not is_property(node)]
    assert [node.name for node in functions if is_bare_participle(node.name) and node.name not in EXCEPTIONS] == []


@pytest.mark.parametrize(
    ("name", "bare"), [("walked", True), ("_kept", True), ("split_graph", False), ("known_size", False), ("embed", False)]
)
def test_the_rule_itself(name, bare):
    assert is_bare_participle(name) is bare


# Each pair is one idea in two folders (both emitters write code), or is still to be renamed: the list may only get shorter.
HOMONYMS = frozenset("Check Decision Emitter Kernel Layout Measured Plan Program Recorder Trial Work debug set_stance".split())


def folder_of(path):
    """frontend/values, backends/native, guards, ..."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:2])


def test_no_two_classes_of_one_name():
    found = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(folder_of(path))
    assert {name: sorted(folders) for name, folders in found.items() if len(folders) > 1 and name not in HOMONYMS} == {}
