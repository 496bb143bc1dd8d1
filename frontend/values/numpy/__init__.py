"""NumPy's scalars, arrays, and functions of them."""
