"""Symbolic execution of a frame.

In: canonical instructions, and the arguments of one call. Out: a `Capture`: graph, guards, side
effects, and the state in which it ended. Emits no code.

    frames                  interpreter, repeats
    the state of a capture  trace, capture, value_factory
    objects                 object_table, released_objects, effect_log
    the graph               graph_builder, call_checks, fake_tensors
    its inputs              graph_inputs, input_fakes, input_memory
    its numbers             number_readings
    what varies             sizes
    left to Python          uncaptured_code
"""
