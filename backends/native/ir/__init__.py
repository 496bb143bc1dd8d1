"""The loop IR: what a kernel computes, independent of the language it is printed in.

`ir` has programs, kernels and scalars, `index` the integer expressions of addresses and sizes.
"""
