"""Calls of equal modules: the first is interpreted and recorded, the others repeat its nodes.

A call of a module depends on its arguments, on what its guards say, and on torch's modes. Where a
second module of the class meets the guards that the first one left, moved to its own path, and the
arguments are alike, interpreting its call would add the same nodes. `repeated_calls.py` is what the
interpretation of calls asks. `new_results.py` and `inner_results.py` make fake results without
running operators.
docs/decisions/repeated-calls.md has the argument.
"""
