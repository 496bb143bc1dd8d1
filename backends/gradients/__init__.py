"""A captured graph with gradients to a forward and a backward ATen graph, operator by operator, and what runs the two."""
