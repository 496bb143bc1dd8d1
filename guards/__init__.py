"""May this code run for this call?

In: guards, each a condition on the object at a source. Out: a flat program that C runs;
reference.py says what it means. Knows no bytecode and no graphs.
"""
