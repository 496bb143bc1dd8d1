"""Functional ATen graphs to the loop IR. An operator is either lowered to loops or called."""
