"""Iterators, existing ones and those made in the trace, and generators."""
