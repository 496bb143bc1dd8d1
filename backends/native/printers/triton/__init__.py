"""Kernels as Triton functions."""
