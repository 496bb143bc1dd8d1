"""The frontend turns frames of Python into compiled code.

In: a frame that CPython is about to run. Out: a code object to run instead. It decodes bytecode,
interprets it symbolically, generates code, and caches the results.
"""
