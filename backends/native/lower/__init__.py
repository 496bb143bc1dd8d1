"""Functional ATen graphs to the loop IR: a lowering for an operator, or a call of the operator."""
