"""Tensors, the numbers of their sizes, and what autograd and torch's generators do with them."""
