"""Printers.

In: kernels of the loop IR. Out: their text, in C for the CPU or in Triton for the GPU, and Python
that calls them in order (`host`).
"""
