"""The test of the Triton printer is there where Triton is: it comes with torch for CUDA."""

from __future__ import annotations

import importlib.util

import pytest
from framejit.backends.native import backend as native

collect_ignore = [] if importlib.util.find_spec("triton") else ["printers/test_triton.py"]


@pytest.fixture
def reports(monkeypatch):
    """What the compiler reported of each graph."""
    found: list[native.CompileReport] = []
    original = native.compile_aten

    def compile_aten(gm, report, **more):
        found.append(report)
        return original(gm, report, **more)

    monkeypatch.setattr(native, "compile_aten", compile_aten)
    return found
