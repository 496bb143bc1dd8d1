"""Facts about captured graphs, and passes over them.

In: an fx graph and its nodes' fake results. Out: what is written, which memory is shared, what may
raise or draw numbers.
"""
