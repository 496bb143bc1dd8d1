"""NumPy's scalars and functions of scalars."""
