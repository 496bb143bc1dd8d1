"""`autotune`: tries backends on a graph with its real inputs, keeps the fastest that is right, and
remembers the choice."""
