"""Functions, methods, partials and builtin callables."""
