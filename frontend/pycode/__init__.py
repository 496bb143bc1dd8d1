"""CPython bytecode, the only place with rules that depend on Python's version.

In: a code object. Out: canonical instructions (decode), and code objects made of instructions
(code_builder, resume).
"""
