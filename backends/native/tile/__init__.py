"""Tuning of kernels for the GPU: which tiles, and whether a matrix product and its reader are one
kernel, by measuring."""
