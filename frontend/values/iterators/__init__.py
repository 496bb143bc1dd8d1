"""Values of iterators, of generators, and of iterators that existed before the frame."""
