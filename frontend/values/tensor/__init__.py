"""Tensors, their sizes as numbers, autograd, and torch's generators."""
