"""torch._numpy, which has NumPy's functions as functions of torch: which one stands for which."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch

from .expected_result import numpy

NAMESPACES = ("", "linalg", "fft")
# Functions of torch._numpy that return other values than NumPy's for some arguments, or depend on
# values in Python.
REFUSED = frozenset("""
    can_cast result_type promote_types iscomplexobj isrealobj issubdtype broadcast_shapes shape ndim
    size modf fix angle geomspace logspace eig eigh svd qr
""".split())  # fmt: skip
# Functions that never warn of values.
WITHOUT_WARNINGS = frozenset("""
    array asarray ascontiguousarray copy zeros ones full eye identity empty arange
    zeros_like ones_like full_like empty_like
    reshape ravel flatten transpose swapaxes moveaxis rollaxis squeeze expand_dims T real imag
    concatenate stack vstack hstack dstack column_stack row_stack split array_split hsplit vsplit
    dsplit tile repeat roll flip flipud fliplr rot90 take take_along_axis choose where sort argsort
    tril triu diag diagflat getitem setitem atleast_1d atleast_2d atleast_3d broadcast_to meshgrid
    nonzero argwhere flatnonzero fill_diagonal identity
    maximum minimum fmax fmin max min amax amin ptp clip absolute negative positive conjugate sign
    copysign fabs neg pos floor ceil trunc rint append unique fill
""".split())  # fmt: skip


@functools.cache
def torch_numpy() -> types.ModuleType:
    return importlib.import_module("torch._numpy")


@functools.cache
def implementations() -> dict[int, Callable[..., Any]]:
    """torch._numpy's functions, by the id of NumPy's."""
    found: dict[int, Callable[..., Any]] = {}
    for namespace in NAMESPACES:
        mapped = getattr(torch_numpy(), namespace) if namespace else torch_numpy()
        original = getattr(numpy(), namespace) if namespace else numpy()
        for name, function in vars(mapped).items():
            if isinstance(function, types.FunctionType) and name not in REFUSED:
                found[id(getattr(original, name, None))] = function
    del found[id(None)]
    return found


@contextmanager
def numpy_defaults() -> Generator[None]:
    """Surrounds calls of torch._numpy: new arrays have NumPy's dtypes. torch._numpy would read them
    from TorchDynamo's configuration, whose import takes a second."""
    impl: Any = importlib.import_module("torch._numpy._dtypes_impl")
    before = impl._default_dtypes
    impl._default_dtypes = impl.DefaultDTypes(torch.float64, torch.complex128, torch.int64)
    try:
        yield
    finally:
        impl._default_dtypes = before
