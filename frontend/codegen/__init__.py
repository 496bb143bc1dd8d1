"""Generates code objects from captures.

In: a `Capture`. Out: code that calls the graph, applies the side effects, and returns or continues
after the graph break.
"""
