"""Values of lists, tuples, dictionaries, sets, deques, ranges and slices, and of the dictionaries
behind objects and modules."""
