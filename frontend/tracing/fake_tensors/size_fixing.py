"""Operators whose implementation in C++ reads sizes as numbers, which fixes a size that varies.
torch's Python implementations of them, which its Python dispatcher chooses, do not; they are slower
to run on fake tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch._dispatch.python import enable_python_dispatcher

from ....backends.graph.node_targets import target_name

NAMES = frozenset(
    """pad constant_pad_nd interpolate upsample upsample_bilinear upsample_nearest
    _upsample_bilinear2d_aa unfold
    local_response_norm stft complex polar unsafe_chunk expand_copy permute_copy unbind_copy
    unfold_copy
    scaled_dot_product_attention""".split()
)
PREFIX = "fft_"


def dispatcher_for(target: Any) -> AbstractContextManager[Any]:
    """The dispatcher under which an operator leaves sizes that vary open."""
    name = target_name(target)
    fixes = name in NAMES or name.startswith(PREFIX)
    return enable_python_dispatcher() if fixes else nullcontext()
