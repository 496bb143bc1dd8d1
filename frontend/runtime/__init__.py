"""What runs: the hook in C, the caches of handles, and the pipeline that compiles.

In: a call that no entry serves. Out: an entry, or the decision to leave the frame to Python. Owns
all process state.
"""
