"""The record of all that differs between CPython versions, and the one of the running interpreter.

In: the tables of py311.py, py312.py or py313.py. Out: `Dialect` and `current()`. Tables name
opcodes, so that each file imports under every version; `Dialect` resolves names to the numbers of
the running one.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

VERSIONS = ((3, 11), (3, 12), (3, 13))
NEWEST_TESTED = {(3, 11): 7, (3, 12): 1, (3, 13): 0}  # patch releases

# (decoder, oparg): emit the canonical instructions of one raw instruction
Rule = Callable[[Any, int], None]


@dataclass(frozen=True, eq=False)
class Dialect:
    """One CPython version. Names are opcode names; those of `rules` are the whole visible
    instruction set."""

    version: tuple[int, int]
    rules: Mapping[str, Rule | None]  # None: dropped, it has no canonical meaning
    internal: frozenset[str]  # opcodes that are never in co_code
    null_below: bool  # where the NULL of a plain call is: below its callee, or above
    # what must precede UNARY_NOT and a conditional jump on any object, if anything
    truth: str | None
    # LOAD_ATTR's argument for a name, no method of that name being looked for
    plain_attribute: Callable[[str], Any]
    # (builder, name): emit the load of a method to be called
    load_method: Callable[[Any, str], None]
    checked_load: str  # pushes a local, raises when it is unbound
    pairs: Mapping[str, tuple[str, str]]  # superinstructions on two slots (oparg: 4 bits each)
    jump_if: tuple[str, str]  # pop a truth value: jump if it is false, jump if it is true
    # the backward twin of a forward jump; a jump that has none goes through a forward one
    backward: Mapping[str, str]
    # what must stand at the target of a jump that only pairs with it
    exits: Mapping[str, tuple[str, ...]]
    call: Callable[[Any, int, tuple[str, ...]], None]  # (builder, n, names): emit the call
    # (builder, flags): emit MAKE_FUNCTION and what belongs to it
    make_function: Callable[[Any, int], None]

    @cached_property
    def table(self) -> tuple[Rule | None, ...]:
        """`rules` by opcode number; a number without a rule refuses."""
        return tuple(
            self.rules.get(opcode.opname[number], raise_unknown_opcode) for number in range(256)
        )

    @cached_property
    def caches(self) -> bytes:
        """Inline cache entries after each opcode, in code units."""
        # a list by number, 3.13: a dict by name
        entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
        if isinstance(entries, dict):
            return bytes(entries.get(opcode.opname[number], 0) for number in range(256))
        return bytes(entries[:256])

    @cached_property
    def jumps(self) -> dict[int, int]:
        """Opcode of each jump -> 1 for a forward one, -1 for a backward one."""
        return {
            number: -1 if "BACKWARD" in opcode.opname[number] else 1
            for number in opcode.hasjrel
            if number < 256
        }

    @cached_property
    def slot_ops(self) -> frozenset[int]:
        """Opcodes whose oparg is one localsplus index."""
        both = (*opcode.haslocal, *opcode.hasfree)
        return frozenset(
            number for number in both if number < 256 and opcode.opname[number] not in self.pairs
        )

    @cached_property
    def needs_truth(self) -> frozenset[str]:
        """Opcodes that only take a bool."""
        return frozenset({"UNARY_NOT", *self.jump_if}) if self.truth else frozenset()

    @cached_property
    def bool_ops(self) -> frozenset[int]:
        """The numbers of `needs_truth`."""
        return frozenset(opcode.opmap[opname] for opname in self.needs_truth)

    @cached_property
    def truths(self) -> frozenset[str]:
        """What may stand before one of `needs_truth` in its group: it leaves a bool."""
        return frozenset({self.truth, "COMPARE_OP"}) if self.truth else frozenset()

    @cached_property
    def forward(self) -> dict[str, str]:
        """The forward twin of a backward jump."""
        return {twin: name for name, twin in self.backward.items()} | {
            "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD"
        }


def raise_unknown_opcode(decoder: Any, arg: int) -> None:
    raise ValueError("no rule for an opcode in co_code")


def is_supported() -> bool:
    """Whether the running interpreter is one that framejit knows; `VERSIONS` lists them."""
    return sys.implementation.name == "cpython" and sys.version_info[:2] in VERSIONS


def is_tested() -> bool:
    """Whether the tests have run with this patch release of a known version, or with a newer one of
    it."""
    return is_supported() and sys.version_info[2] <= NEWEST_TESTED[sys.version_info[:2]]


@cache
def current() -> Dialect:
    """The dialect of the running interpreter. Raises ImportError under an unknown one."""
    if not is_supported():
        known = ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)
        raise ImportError(
            f"framejit knows CPython {known}, not {sys.implementation.name} "
            f"{sys.version.split()[0]}"
        )
    module = importlib.import_module(f".py{sys.version_info[0]}{sys.version_info[1]}", __package__)
    dialect: Dialect = module.DIALECT
    return dialect
