"""Operators on fake tensors.

In: an operator and its arguments. Out: the result's sizes, dtype and strides, or the error that
torch raises for them. Nothing here reads or writes a tensor's memory.
"""
