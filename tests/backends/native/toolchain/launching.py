"""Launches kernels through a driver made up for the test. A script, as the driver of a process is
found once. Arguments: the driver's library. Prints a line for each check that holds."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import partial

import torch
from framejit.backends.native.toolchain._launch import Kernel

driver = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
seen = (ctypes.c_int64 * 16).in_dll(driver, "seen")
status = ctypes.c_int.in_dll(driver, "status")
context = ctypes.c_int64.in_dll(driver, "context")


def last(count=9):
    return list(seen)[:count]


def raised(kind, call, *words):
    try:
        call()
    except kind as error:
        return all(word in str(error) for word in words)
    return False


made = []


def otherwise():
    made.append(Kernel(22, 64, 0))
    return made[-1]


x, y = torch.zeros(64), torch.zeros(64)
plain, careful = Kernel(11, 128, 4096), Kernel(33, 256, 8, 0b01, otherwise)
plain(5, 77, x, y, 9)
print("arguments", last() == [11, 5, 128, 4096, 77, x.data_ptr(), y.data_ptr(), 9, 0])
plain(0, 77, x, y, 8)
print("nothing to do", last()[7] == 9)
careful(5, 77, x, y[1:], 9)
print("aligned", last()[:3] == [33, 5, 256] and last()[6] == y.data_ptr() + 4 and not made)
careful(6, 77, x[1:], y, 9)
careful(6, 77, x[2:], y, 9)
print(
    "not aligned",
    last() == [22, 6, 64, 0, 77, x.data_ptr() + 8, y.data_ptr(), 9, 0] and len(made) == 1,
)
careful(5, 77, x, y, 9)
print("aligned again", last()[0] == 33)
status.value = 700
print("error", raised(RuntimeError, lambda: plain(5, 77, x, y, 9), "700"))
status.value = 0
context.value = 0
plain(5, 77, x, y, 9)
print("a thread without a context", context.value == 7)
context.value = 0
lost = Kernel(11, 128, 4096)
print("made without a context", raised(RuntimeError, lambda: lost(5, 77, x, y, 9), "201"))
context.value = 7
print("too few", raised(TypeError, lambda: plain(5), "2 to"))
print("by name", raised(TypeError, lambda: plain(5, 77, x=x), "positional"))
print("no tensor", raised(AttributeError, lambda: plain(5, 77, "x"), "data_ptr"))
print("nobody to ask", raised(TypeError, lambda: Kernel(1, 1, 1, 1), "otherwise"))
print(
    "no kernel",
    raised(TypeError, lambda: Kernel(1, 1, 1, 1, lambda: 5)(5, 77, x[1:]), "must give a Kernel"),
)
print(
    "it fails", raised(ZeroDivisionError, lambda: Kernel(1, 1, 1, 1, lambda: 1 / 0)(5, 77, x[1:]))
)
before = len([one for one in gc.get_objects() if type(one) is Kernel])
box = []
box.append(Kernel(1, 1, 1, 1, partial(len, box)))
del box
gc.collect()
print("collected", len([one for one in gc.get_objects() if type(one) is Kernel]) == before)
