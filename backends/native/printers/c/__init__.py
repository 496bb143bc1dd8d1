"""Kernels as C functions: OpenMP over rows, SIMD along the innermost loop."""
