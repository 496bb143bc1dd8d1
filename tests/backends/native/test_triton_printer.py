"""Kernels as Triton, in processes of their own: its interpreter against the meaning of the loop IR, its front end for CUDA for
types and shapes (collected where it is installed)."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from framejit.backends.loops.scalar_ops import SCALAR_OPS
from framejit.backends.printers import triton


@pytest.mark.parametrize(("script", "verdict"), [("interpreted.py", "kernels ran, 0 differ"), ("typed.py", "kernels passed, 0 refused")])
def test_every_kernel(script, verdict):
    path = Path(__file__).with_name(script)
    done = subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, timeout=600)
    told = done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith(verdict), told
    assert int(done.stdout.splitlines()[-1].split()[0]) > 500


def test_every_operation_has_text():
    tables = (triton.SYMBOLS, triton.NATIVE, triton.LIBDEVICE, triton.OTHERS, triton.BY_TYPE, {"bitnot"})
    assert set(SCALAR_OPS) <= {name for table in tables for name in table}
