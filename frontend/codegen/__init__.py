"""Generates code objects from captures.

In: a `Capture`. Out: code that calls the graph, applies the side effects, and returns or continues
after the graph break.

    the whole code          build
    values, changes         reconstruct, side_effects
    a break                 resume_stub, break_emission, break_tail, stack_effect
"""
