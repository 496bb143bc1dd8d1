"""Guards decide whether compiled code may run for a call.

In: guards, each a condition on the object at a source. Out: a flat program that C runs;
reference.py defines its meaning. Uses no bytecode and no graphs.

    a guard                 guard, kinds, source, torch_state, iterators, caches
    those of a capture      guard_log
    a program of them       program, guard_order, section, step_writer, steps, lifetimes
    for C                   encoded, relation, native
    in Python               reference, failure
"""
