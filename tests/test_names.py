"""Functions are named by a verb phrase or by what they return, never by a bare participle (`walked`,
`shown`), an adverb or a preposition; no two classes in different folders have one name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path
    for place in ("*.py", "frontend/**/*.py", "guards/**/*.py", "backends/**/*.py", "cli/*.py")
    for path in ROOT.glob(place)
)
NOT_PRODUCT = sorted(
    path
    for place in ("benchmarks/**/*.py", "examples/**/*.py", "docs/*.py")
    for path in ROOT.glob(place)
)
IRREGULAR = frozenset(
    "begun born broken built done drawn driven fallen fed felt found given gone grown held hid hidden kept known laid led left lent lost "
    "made met paid said seen sent shown sold spent stood taken tied told thrown understood withdrawn worn woken written".split()
)
ADJECTIVES = frozenset({"own", "unknown", "yield"})  # no more of a name than a participle
ADVERBS = frozenset(
    "above across after again around behind beside beyond hopeless itself later more otherwise over through under".split()
)
VERBS = frozenset({"embed", "feed", "need", "seed"})


def names_nothing(name: str) -> bool:
    word = name.strip("_")
    return (
        bool(re.fullmatch("[a-z]+", word))
        and word not in VERBS
        and (word.endswith("ed") or word in IRREGULAR or word in ADJECTIVES or word in ADVERBS)
    )


def test_functions_and_methods():
    """Properties and nested functions too."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    assert [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (*FILES, *NOT_PRODUCT)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and names_nothing(node.name)
    ] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("walked", True),
        ("_kept", True),
        ("_own", True),
        ("split_graph", False),
        ("known_size", False),
        ("embed", False),
        ("otherwise", True),
        ("look_behind", False),
    ],
)
def test_the_rule_itself(name, expected):
    assert names_nothing(name) is expected


# framejit.debug and framejit.set_stance where framejit cannot compile: the same two, without effect
HOMONYMS = frozenset({"debug", "set_stance"})


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
    assert {
        name: sorted(folders)
        for name, folders in found.items()
        if len(folders) > 1 and name not in HOMONYMS
    } == {}
