"""Values: the facts that tracing has about Python objects, a file for each family of them.

In: an object and the source that leads to it (wrap.py). Out: a `Value`, which answers what Python
would ask of the object.
"""
