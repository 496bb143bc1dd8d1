"""The test of the Triton loader is there where Triton is: it comes with torch for CUDA."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("triton") else ["test_load_triton.py"]
