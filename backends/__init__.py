"""Backends: compilers of graphs.

In: an fx graph and example inputs. Out: a callable with the same results. They use no frames and no
guards; `compile_graph` is the way from a capture's graph to a backend, and `registry` knows them
all.
"""
