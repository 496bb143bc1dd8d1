"""Toolchains.

In: the text of kernels. Out: functions that run or launch them: compilers, and the cache of their
results on disk.
"""
