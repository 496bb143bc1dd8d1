"""Optimisation of loop IR programs.

In: a program with one kernel for each operator. Out: a program with the same results, with fewer
kernels and less memory: fusion, split reductions, reused buffers, simplified expressions.
"""
