"""Graphs with gradients.

In: a captured graph. Out: its forward and its backward graph as functional ATen graphs, each
compiled by a backend, and the autograd node that runs the two with eager's gradients.

The way of a graph: `graph_parts` is asked for both graphs. `ahead_of_time` decides what runs as
captured (`divergent_operators`, `divergent_graphs`), and has `split_graph` cut the rest where
autograd has to see a node of its own. `shared_partition` (operator by operator) or `aot_eager`
(torch's aot_autograd) make the two graphs of each subgraph, and `compiled_node` runs them as one
autograd node.
"""
