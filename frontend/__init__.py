"""A Python frame in, a compiled code object out."""
