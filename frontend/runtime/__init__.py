"""The run time: the hook in C, the caches of handles, and the pipeline that compiles.

In: a call that no entry serves. Out: a new entry, or the decision to leave the frame to Python.
Owns all process state.
"""
