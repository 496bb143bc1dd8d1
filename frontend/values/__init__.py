"""Symbolic values: the facts that tracing has about Python objects, one file for each family of
objects.

In: an object and the source that leads to it (wrap.py). Out: a `Value`, which implements Python's
operations on the object.
"""
