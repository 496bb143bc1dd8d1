"""Symbolic execution of a frame.

In: canonical instructions, and the arguments of one call. Out: a `Capture`: graph, guards, side
effects, and the state in which it ended. Emits no code.
"""
