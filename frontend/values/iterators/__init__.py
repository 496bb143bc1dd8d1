"""Iterators, made in the trace or met there, and generators."""
