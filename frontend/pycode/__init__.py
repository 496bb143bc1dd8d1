"""CPython bytecode: the one place with rules that depend on versions.

In: a code object. Out: canonical instructions (decode), and code objects made of instructions again
(code_builder, resume).
"""
