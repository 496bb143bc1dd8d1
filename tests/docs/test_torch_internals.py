"""docs/torch-internals.md says what the code uses of torch now, and all that it says is needed."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location(
    "torch_internals", ROOT / "docs" / "torch_internals.py"
)
internals = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(internals)


@pytest.fixture(scope="module")
def uses():
    return list(internals.uses())


def test_the_page_is_what_the_code_does():
    assert internals.PAGE.read_text() == internals.page(), "run python docs/torch_internals.py"


def test_each_name_has_a_reason(uses):
    assert sorted({use.name for use in uses if internals.reason(use.name) is None}) == []


def test_each_reason_and_each_loss_is_needed(uses):
    names, files = ({getattr(use, part) for use in uses} for part in ("name", "file"))
    used = {max(filter(name.startswith, internals.WHY), key=len) for name in names}
    assert sorted(internals.WHY.keys() - used) == []
    assert [
        file
        for file in internals.LOST
        if not any((ROOT / place).exists() for place in (file, f"{file}.py"))
    ] == []
    assert any(file.startswith("guards/native/") for file in files)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import torch\ntorch._C._infer_size()", [("torch._C._infer_size", True)]),
        ("import torch\ndef f(): torch._C._infer_size()", [("torch._C._infer_size", False)]),
        ("from torch._guards import Source", [("torch._guards.Source", True)]),
        ("from torch import _C as c\nc.DispatchKey.CPU", [("torch._C.DispatchKey", True)]),
        ("import torch\ndef f():\n    c: object = torch._C\n    c._nn", [("torch._C._nn", False)]),
        ("def f(x): return x._version", [("torch.Tensor._version", False)]),
        ("class A:\n    def f(self): return self._base", []),
        ("import torch\ntorch.ops.aten._to_copy(torch.nn.Linear.__init__)", []),
        ("import torch\ndef f(x: torch._ops.OpOverload): pass", []),
        ("x = '_ZN2at13globalContextEv'", [("_ZN2at13globalContextEv", True)]),
    ],
)
def test_what_counts(code, found):
    assert (
        sorted(set(internals.without_prefixes(internals.private_names(ast.parse(code))))) == found
    )
