"""Lists, tuples, dictionaries, sets, deques, ranges, and the dictionaries behind objects and
modules."""
