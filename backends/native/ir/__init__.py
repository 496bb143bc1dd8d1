"""The loop IR: what a kernel computes, independent of the language it is printed in.

`program` has programs and kernels, `scalar` the numbers that kernels compute, `index` the integer
expressions of addresses and sizes.
"""
