"""Whether a package is installed: each call asks again."""

from __future__ import annotations

import importlib.util
import sys

import torch

from ...semantics.harness import strict_compile, vec


def scale(x):
    y = x.sin()
    return y * 2 if importlib.util.find_spec("framejit_late_package") is None else y * 3


def test_a_package_that_is_installed_later(tmp_path, monkeypatch):
    handle = strict_compile(scale, backend="eager")
    assert torch.equal(handle(vec(2)), vec(2).sin() * 2)
    assert not handle.framejit.explain().breaks
    (tmp_path / "framejit_late_package.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert torch.equal(handle(vec(2)), vec(2).sin() * 3)
    assert "framejit_late_package" not in sys.modules
