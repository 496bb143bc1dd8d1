"""Tuning of kernels for the GPU.

In: a program and its device. Out: tile sizes for its kernels, and which matrix products are fused
with their consumer, as measured.
"""
