"""Sizes and numbers that differ between calls.

In: the sizes and numbers of this call, and which of them varied in earlier calls. Out: symbols in
their place, guards on relations between them, and what to make dynamic next time.
"""
