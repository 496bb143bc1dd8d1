"""Takes out of rebuilt code what brings nothing: temporaries that nobody reads, or that are read at once.

In: the units of one code object, temporaries numbered below 0. Out: fewer units that leave the same on the stack and in
the original's slots; a temporary may let go of its object earlier.
"""
from __future__ import annotations

from collections import Counter
from typing import Any

Unit = Any  # of assemble.py
STORE, DELETE, COPY, POP = "STORE_FAST", "DELETE_FAST", "COPY", "POP_TOP"
LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK"})


def tidy(units: list[Unit]) -> list[Unit]:
    """The units that are left; labels are moved."""
    while True:
        kept = once(units)
        if len(kept) == len(units):
            return units
        units = kept


def once(units: list[Unit]) -> list[Unit]:
    """One pass."""
    targets = {label.at for label in labels(units)}
    loads, stores = counts(units)
    dead: set[int] = set()
    gone: set[int] = set()  # temporaries that nothing is stored into any more
    for at, unit in enumerate(units):
        temp = temporary(unit)
        if temp is None or at in dead:
            continue
        follower = units[at + 1] if at + 1 < len(units) and at + 1 not in targets else None
        if unit.op in LOADS and follower is not None and follower.op == POP:
            dead |= {at, at + 1}
        copied = at > 0 and units[at - 1].op == COPY and units[at - 1].arg == 1 and at not in targets and at - 1 not in dead
        if unit.op != STORE:
            continue
        if not loads[temp]:
            gone.add(temp)
            if copied:
                dead |= {at - 1, at}
            else:
                unit.op, unit.slots, unit.arg = POP, (), 0
        elif copied and follower is not None and follower.op == POP:
            dead |= {at - 1, at + 1}
        elif follower is not None and follower.op in LOADS and follower.slots == unit.slots and loads[temp] == stores[temp] == 1:
            dead |= {at, at + 1}
            gone.add(temp)
    dead |= {at for at, unit in enumerate(units) if unit.op == DELETE and temporary(unit) in gone}
    return without(units, dead)


def temporary(unit: Unit) -> int | None:
    return unit.slots[0] if len(unit.slots) == 1 and unit.slots[0] < 0 else None


def counts(units: list[Unit]) -> tuple[Counter[int], Counter[int]]:
    """How often each temporary is read, and written."""
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    for unit in units:
        temp = temporary(unit)
        if temp is not None and unit.op != DELETE:
            (stores if unit.op == STORE else loads)[temp] += 1
    return loads, stores


def labels(units: list[Unit]) -> set[Any]:
    """All labels that some unit refers to."""
    handlers = {unit.region.handler for unit in units if unit.region is not None}
    return handlers | {unit.label for unit in units if unit.label is not None}


def without(units: list[Unit], dead: set[int]) -> list[Unit]:
    """The units but those at some places; labels there go on to what follows."""
    moved: list[int] = []
    kept: list[Unit] = []
    for at, unit in enumerate(units):
        moved.append(len(kept))
        if at not in dead:
            kept.append(unit)
    moved.append(len(kept))
    if dead:
        for label in labels(units):
            assert label.at is not None, "a label was never placed"
            label.at = moved[label.at]
    return kept
