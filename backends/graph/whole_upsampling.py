"""Keeps torch's operators that enlarge or shrink images whole while operators are traced.

Under its Python dispatcher torch takes them apart into index arithmetic. Kernels of that are many
times slower than torch's own, round differently from eager, and no longer tell that the layout of
the image does not matter. Sizes that vary are left to these decompositions: not all of torch's
operators take them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._dispatch.python import no_python_dispatcher
from torch.utils._pytree import tree_iter

DECOMPOSING = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@cache
def decomposed_operators() -> list[torch._ops.OpOverload]:
    """The overloads that torch's Python dispatcher takes apart."""
    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in dir(aten) if "upsample_" in name]
    found = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return [one for one in found if not one.py_kernels.keys().isdisjoint(DECOMPOSING)]


@contextmanager
def whole_upsampling() -> Iterator[None]:
    """Within it these operators are traced whole."""
    saved = [(one, dict(one.py_kernels)) for one in decomposed_operators()]
    try:
        for one, kernels in saved:
            for key in kernels.keys() & DECOMPOSING:
                one.py_kernels[key] = partial(call_whole, one, kernels[key])
            one._dispatch_cache.clear()
        yield
    finally:
        for one, kernels in saved:
            one.py_kernels |= kernels
            one._dispatch_cache.clear()


def call_whole(
    whole: Callable[..., Any],
    decomposed: Callable[..., Any],
    image: torch.Tensor,
    *args: Any,
    **named: Any,
) -> Any:
    """Calls torch's operator, or its decomposition where a size varies."""
    if any(isinstance(item, torch.SymInt) for item in (*image.shape, *tree_iter((args, named)))):
        # the decompositions keep the layout of rows; the kernels' results are contiguous
        return decomposed(image.contiguous() if image.dim() == 3 else image, *args, **named)
    with no_python_dispatcher():
        return whole(image, *args, **named)
