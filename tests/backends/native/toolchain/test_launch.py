"""Kernels for the GPU, launched through a fake driver that records its calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DRIVER = """
#include <stdint.h>
int64_t seen[16];
int status;
int64_t context = 7;
int cuCtxGetCurrent(int64_t* found) { *found = context; return 0; }
int cuCtxSetCurrent(int64_t given) { context = given; return 0; }
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                   void* stream, void** arguments, void** extra) {
    if (!context) return 201;
    if (y != 1 || z != 1 || ty != 1 || tz != 1 || arguments) return 1;
    if (extra[0] != (void*)1 || extra[2] != (void*)2 || *(int64_t*)extra[3] != 5 * 8 || extra[4]) return 1;
    seen[0] = (int64_t)function; seen[1] = x; seen[2] = tx; seen[3] = shared; seen[4] = (int64_t)stream;
    for (int i = 0; i < 5; i++) seen[5 + i] = ((int64_t*)extra[1])[i];
    return status;
}
"""


def test_launching(tmp_path):
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(DRIVER)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(library)],
        check=True,
    )
    script = Path(__file__).with_name("launching.py")
    done = subprocess.run(
        [sys.executable, str(script), str(library)], capture_output=True, text=True, timeout=300
    )
    told = done.stdout.splitlines()
    assert len(told) == 15 and all(line.endswith("True") for line in told), (
        done.stdout + done.stderr[-2000:]
    )
