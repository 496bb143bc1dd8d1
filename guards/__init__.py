"""Guards decide whether compiled code may run for a call.

In: guards, each a condition on the object at a source. Out: a flat program that C runs;
reference.py defines its meaning. Uses no bytecode and no graphs.
"""
