"""Graphs with gradients.

In: a captured graph. Out: its forward and its backward graph as functional ATen graphs, each
compiled by a backend, and the autograd node that runs the two with eager's gradients.
"""
