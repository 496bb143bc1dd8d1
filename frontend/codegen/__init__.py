"""Code objects from captures.

In: a `Capture`. Out: code that calls the graph, applies the side effects, and returns or goes on
behind the graph break.
"""
