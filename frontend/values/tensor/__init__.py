"""Values of tensors and their subclasses, of numbers that are symbols, and of what autograd
needs."""
