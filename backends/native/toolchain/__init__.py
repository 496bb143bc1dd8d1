"""Kernel text to functions: compilers, the cache of their results, and launching."""
