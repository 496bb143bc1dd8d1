"""Values of functions, methods, partials and other callables that are not classes."""
