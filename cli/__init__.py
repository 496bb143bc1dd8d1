"""The command-line tool. One file for each command, with a docstring (its help), `arguments` and
`run`."""
