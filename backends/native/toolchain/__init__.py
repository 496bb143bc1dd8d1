"""Text to functions: compilers, where their results are kept, and how they are called."""
