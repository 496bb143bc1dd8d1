"""Lowering.

In: a functional ATen graph. Out: a loop IR program, in which each operator is either loops or a
call of torch's.
"""
