"""Kernels as text: C for the CPU, Triton for the GPU; and the Python that calls them in order."""
