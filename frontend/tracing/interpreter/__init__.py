"""Interpretation of frames.

In: canonical instructions, the arguments of a call, and the state of the capture (`tx`). Out: a
changed state, and how the frame ended: it returned, yielded, raised, or broke.
"""
