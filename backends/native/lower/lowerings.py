"""All lowerings: importing this module registers them."""

from . import creation, indexing, normalization, pointwise, pooling, products, reductions, scatter
from .registry import LOWERINGS

__all__ = [
    "LOWERINGS", "creation", "indexing", "normalization", "pointwise", "pooling", "products",
    "reductions", "scatter",
]  # fmt: skip
