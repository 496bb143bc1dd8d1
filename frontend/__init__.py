"""Turns a Python frame into a compiled code object: decodes bytecode, interprets it symbolically,
generates code, and caches the results."""
