"""Tiling is for where Triton is: it comes with torch for CUDA."""

from __future__ import annotations

import importlib.util

collect_ignore = (
    []
    if importlib.util.find_spec("triton")
    else ["test_tuner.py", "test_on_gpu.py", "test_precision.py"]
)
