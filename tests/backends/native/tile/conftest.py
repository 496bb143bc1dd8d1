"""Tests of tiling need Triton, which comes with torch for CUDA."""

from __future__ import annotations

import importlib.util

needs_triton = ["test_tuner.py", "test_on_device.py"]
collect_ignore = [] if importlib.util.find_spec("triton") else needs_triton
