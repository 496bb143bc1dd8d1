"""Graphs of which a backend compiles parts.

In: a captured graph, and a function that compiles one. Out: a callable that runs the compiled
subgraphs, and what is between them, in order.

    by what no graph takes  uncompiled_nodes, control_flow, written_attention
    by device               host_numbers
    by gradient buckets     gradient_buckets
"""
