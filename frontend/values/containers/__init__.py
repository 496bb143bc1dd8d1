"""Lists, tuples, dictionaries, sets, deques, ranges, and the dictionaries that objects and modules
are made of."""
