"""Functions are named by a verb phrase or by what they return, never by a bare participle: `walked`, `shown`, `cut`."""
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_of_a_module(path):
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in functions if is_bare_participle(node.name)] == []


@pytest.mark.parametrize(
    ("name", "bare"), [("walked", True), ("_kept", True), ("split_graph", False), ("known_size", False), ("embed", False)]
)
def test_the_rule_itself(name, bare):
    assert is_bare_participle(name) is bare
