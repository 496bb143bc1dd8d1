"""The command-line tool, a file a command: each has a docstring, `arguments` and `run`."""
