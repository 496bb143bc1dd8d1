"""Facts about captured graphs, and passes over them.

In: an fx graph with the fake results of its nodes. Out: which inputs it writes, which tensors share
memory, which nodes may raise or draw random numbers.
"""
