"""Kernels as Triton against the meaning of the loop IR, in a process where Triton interprets (collected where it is installed)."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from framejit.backends.loops.scalar_ops import SCALAR_OPS
from framejit.backends.printers import triton

SCRIPT = Path(__file__).with_name("interpreted.py")


def test_computes_what_the_ir_means():
    done = subprocess.run([sys.executable, "-W", "ignore", str(SCRIPT)], capture_output=True, text=True, timeout=600)
    told = done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith("kernels ran, 0 differ"), told
    assert int(done.stdout.splitlines()[-1].split()[0]) > 500


def test_every_operation_has_text():
    tables = (triton.SYMBOLS, triton.NATIVE, triton.LIBDEVICE, triton.OTHERS, triton.BY_TYPE, {"bitnot"})
    assert set(SCALAR_OPS) <= {name for table in tables for name in table}
