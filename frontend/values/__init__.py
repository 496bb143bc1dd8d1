"""Symbolic values: the facts that tracing has about Python objects, one file for each family of
objects.

In: an object and the source that leads to it (wrap.py). Out: a `Value`, which implements Python's
operations on the object.

    what all have           base, mutable, wrap, registry, identity_key, named_method
    what they use           context, emitter
    operators               operation, operators
    literals                constant, deferred_literal, varying_text
    other families          containers, functions, iterators, modes, numpy, objects, tensor
    known callables         models
    the process             program_output, random_state
    marks of the program    directives, torch_directives, disabled
"""
