"""framejit: a bytecode-level frame JIT for PyTorch."""
