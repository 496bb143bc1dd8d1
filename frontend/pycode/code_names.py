"""The names that code reads."""

from __future__ import annotations

import types


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that a code object, and those inside it, read."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)
