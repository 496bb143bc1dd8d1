"""fx graph -> fx graph, before a backend compiles it. No pass changes the graph's results."""
