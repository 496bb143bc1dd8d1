"""Operators whose implementation in C++ reads sizes as numbers, which fixes a size that varies.
torch's Python implementations of them, which its Python dispatcher chooses, do not; they are slower
to run on fake tensors. (matmul and linear: with torch 2.11.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

from ....backends.graph.node_targets import RECURRENT_OPERATORS, target_name
from ....backends.graph.whole_upsampling import whole_upsampling

NAMES = frozenset(
    """pad constant_pad_nd interpolate upsample upsample_bilinear upsample_nearest
    _upsample_bilinear2d_aa unfold
    local_response_norm stft complex polar unsafe_chunk expand_copy permute_copy unbind_copy
    unfold_copy
    scaled_dot_product_attention
    linear matmul __matmul__ __rmatmul__ svd_lowrank pca_lowrank""".split()
)
PREFIX = "fft_"
RESIZING = ("interpolate", "upsample")


@contextmanager
def dispatcher_for(target: Any, args: Sequence[Any]) -> Iterator[None]:
    """The dispatcher under which an operator leaves sizes that vary open."""
    name = target_name(target)
    if name not in NAMES and not name.startswith(PREFIX) and not is_unpacked(target, args):
        yield
        return
    resizes = name.startswith(RESIZING)
    with enable_python_dispatcher(), whole_upsampling() if resizes else nullcontext():
        yield


def is_unpacked(target: Any, args: Sequence[Any]) -> bool:
    """Whether a recurrent layer runs on sequences of one length. The lengths of a packed batch,
    which the Python implementations read, have no values in a capture."""
    recurrent = any(target is one for one in RECURRENT_OPERATORS)
    return recurrent and not isinstance(args[2], torch.Tensor)
