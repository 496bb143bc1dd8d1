"""Values of NumPy's scalars, arrays and functions. A call of NumPy's becomes nodes of the graph
(`array`), where NumPy itself says what kind of result it has (`expected_result`)."""
