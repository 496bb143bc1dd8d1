"""Tests of what uses Triton are collected where it is installed: it comes with torch for CUDA."""

from __future__ import annotations

import importlib.util

import pytest
from framejit.backends.native import backend as native
from framejit.backends.native.lower import half_products

needs_triton = [
    "printers/test_triton.py",
    "test_gpu_precision.py",
    "attention/test_kernels.py",
]
collect_ignore = [] if importlib.util.find_spec("triton") else needs_triton


@pytest.fixture(autouse=True)
def no_emulated_dtypes(monkeypatch):
    """Programs are the same on every CPU; lower/test_half_products.py tests the difference."""
    monkeypatch.setattr(half_products, "emulated_dtypes", frozenset)


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
