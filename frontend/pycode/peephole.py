"""Removes useless instructions from generated code: temporaries that are never read, or read at
once.

In: the instructions of a code object, and the names of its temporaries. Out: fewer instructions
with the same effect on the stack and on the original's slots; a temporary may release its object
earlier. Labels and the ends of protected regions stay where they are, and nothing is moved across
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from bytecode import Instr, TryBegin, TryEnd

STORE, DELETE, COPY, POP = "STORE_FAST", "DELETE_FAST", "COPY", "POP_TOP"
LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK"})


def drop_idle_temporaries(items: Sequence[Any], temporaries: Collection[str]) -> list[Any]:
    """The remaining instructions, with labels and protected regions; empty regions are dropped."""
    while True:
        kept = drop_once(items, temporaries)
        if len(kept) == len(items):
            return drop_empty_regions(kept)
        items = kept


def drop_once(items: Sequence[Any], temporaries: Collection[str]) -> list[Any]:
    """One pass."""
    loads, stores = count_uses(items, temporaries)
    dead: set[int] = set()
    unused: set[str] = set()  # temporaries without a remaining store
    for at, item in enumerate(items):
        if not is_on(item, temporaries) or at in dead:
            continue
        before, follower = instruction_at(items, at - 1), instruction_at(items, at + 1)
        if item.name in LOADS and follower is not None and follower.name == POP:
            dead |= {at, at + 1}
        if item.name != STORE:
            continue
        copied = (
            before is not None and before.name == COPY and before.arg == 1 and at - 1 not in dead
        )
        if not loads[item.arg]:
            unused.add(item.arg)
            if copied:
                dead |= {at - 1, at}
            else:
                item.set(POP)
        elif copied and follower is not None and follower.name == POP:
            dead |= {at - 1, at + 1}
        elif follower is not None and reads_once(follower, item.arg, loads, stores):
            dead |= {at, at + 1}
            unused.add(item.arg)
    dead |= {at for at, item in enumerate(items) if is_on(item, unused) and item.name == DELETE}
    return [item for at, item in enumerate(items) if at not in dead]


def reads_once(instr: Instr, name: str, loads: Counter[str], stores: Counter[str]) -> bool:
    """Whether an instruction is the only read of a temporary that is written once."""
    return instr.name in LOADS and instr.arg == name and loads[name] == stores[name] == 1


def is_on(item: Any, names: Collection[str]) -> bool:
    return (
        isinstance(item, Instr)
        and isinstance(item.arg, str)
        and item.arg in names
        and item.name.endswith(ON_LOCALS)
    )


ON_LOCALS = ("_FAST", "_FAST_CHECK")


def instruction_at(items: Sequence[Any], at: int) -> Instr | None:
    """The instruction at an index; None for a label or the end of a protected stretch, and
    outside."""
    item = items[at] if 0 <= at < len(items) else None
    return item if isinstance(item, Instr) else None


def count_uses(
    items: Sequence[Any], temporaries: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """How often each temporary is read, and written."""
    loads: Counter[str] = Counter()
    stores: Counter[str] = Counter()
    for item in items:
        if is_on(item, temporaries) and item.name != DELETE:
            (stores if item.name == STORE else loads)[item.arg] += 1
    return loads, stores


def drop_empty_regions(items: Sequence[Any]) -> list[Any]:
    """The items without protected stretches that hold no instruction."""
    empty: set[int] = set()
    begun: TryBegin | None = None
    for item in items:
        if isinstance(item, TryBegin):
            begun = item
        elif isinstance(item, TryEnd) and item.entry is begun:
            empty |= {id(item), id(begun)}
        elif isinstance(item, Instr):
            begun = None
    return [item for item in items if id(item) not in empty]
