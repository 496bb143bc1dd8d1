"""Tunes kernels for the GPU by measuring: tile sizes, and whether to fuse a matrix product with its
consumer."""
