"""CodePlace: an instruction of a code object."""

from __future__ import annotations

import types

from ...records import record


@record
class CodePlace:
    """An instruction, by its index or a number that follows from it."""

    code: types.CodeType
    number: int

    @property
    def key(self) -> tuple[int, int]:
        """A key for sets and dictionaries. Comparing code objects would compare their contents."""
        return id(self.code), self.number
