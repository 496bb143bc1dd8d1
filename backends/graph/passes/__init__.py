"""fx graph -> fx graph, before any backend sees it; each leaves the graph's values as they are."""
