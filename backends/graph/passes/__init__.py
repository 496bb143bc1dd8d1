"""Passes over captured graphs, before a backend compiles them.

In: an fx graph. Out: an fx graph with the same results.
"""
