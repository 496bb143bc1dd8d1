"""EntryStore: writes the entries of a handle to disk and finds those of earlier processes."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ....events import BackendCalled, Break, Captured, Chosen, Event, Sink, Skipped, Stored
from ....garbage_collection import no_collections, no_full_collections
from ....guards.guard import Guard, Kind, MemoryRelation, ShapeExpr, TensorSpec
from ....guards.kinds.containers import is_constant
from ....guards.program import GuardProgram
from ....guards.source import DictKey, ModuleSource, Source, TypeOf
from ....guards.steps import Load
from ....guards.torch_state import TorchState
from ....options import Options
from ....records import record
from .._hook import Entry, Site
from ..entry_parts import EntryParts
from ..sites import HandleSites
from ..unserved_call import UnservedCall
from .content import LITERALS, in_file, name_of_class
from .entry_pickle import (
    EntryUnpickler,
    ProgramObjects,
    find_described,
    pickle_of,
    pickle_of_descriptions,
)
from .files import EntryFolder, StoredEntry
from .guard_table import GuardTable, make_table, read_table
from .key import BACKENDS, Key, key_of
from .object_descriptions import NotFound, NotStorable
from .process_groups import text_of_distributed

# what goes wrong when an entry is taken apart or put together: it is not stored, or not used
FAILURES = (
    NotStorable, NotFound, pickle.PickleError, OSError, AttributeError, TypeError, ValueError,
    ImportError, LookupError, RuntimeError,
)  # fmt: skip


STORED_RECORDS = (Break, BackendCalled, Captured, Chosen, Skipped)  # stored with an entry


@record
class FoundEntry:
    """An entry of an earlier process, and the records of its compile."""

    entry: Entry
    records: tuple[Any, ...]


@record
class FailedWrite:
    """Called in another thread where an entry could not be written."""

    send: Sink
    name: str
    start: str

    def __call__(self, error: OSError) -> None:
        self.send(Stored(self.name, self.start, False, f"not stored on disk: {error}"))


class EntryStore:
    """The stored entries that a handle may use."""

    def __init__(self, options: Options, sites: HandleSites, send: Sink) -> None:
        self.options, self.sites, self.send = options, sites, send
        self.folder = EntryFolder()
        self._known: dict[str, list[StoredEntry]] = {}
        self._preloaded: dict[str, Sequence[StoredEntry]] = {}

    def save(self, call: UnservedCall, parts: EntryParts, records: Sequence[Event]) -> None:
        """Writes an entry that was made for a call, with the records of its compile."""
        try:
            with no_full_collections(), no_collections():
                stored = take_apart(parts, stored_records(records), self._own_objects(call))
            name, start = call.unit.name, call.unit.start
            self.folder.add(
                key_of(call.unit, self.options), stored, FailedWrite(self.send, name, start)
            )
        except Exception as error:  # a call needs no stored entry
            self._raise_if_unexpected(error)
            self._report(call, f"not stored on disk: {error}")
        else:
            self._report(call, f"stored on disk, {stored.size} bytes")

    def find(self, call: UnservedCall) -> FoundEntry | None:
        """An entry of an earlier process that serves a call; None if there is none. Each is used
        once: what is dropped later is compiled again."""
        try:
            entries = self._entries(call)
        except Exception as error:  # the call is compiled, as without it
            self._raise_if_unexpected(error)
            self._report(call, f"entries on disk are not used: {error}")
            return None
        for stored in list(entries):
            try:
                with no_collections():
                    found = put_together(stored, call, self._own_objects(call))
            except Exception as error:  # the call is compiled, as without it
                self._raise_if_unexpected(error)
                self._report(call, f"an entry on disk is not used: {error}")
                continue
            entries.remove(stored)
            self._report(call, "taken from disk", taken=True)
            return found
        return None

    def preload(self, entries: Mapping[str, Sequence[StoredEntry]]) -> None:
        """Takes entries of an artifact: by `Key.digest_anywhere`, which does not depend on the
        machine."""
        self._preloaded.update(entries)

    def knows(self, site: Site) -> bool:
        """Whether it was given entries of this code."""
        return key_of(site.data, self.options).digest_anywhere in self._preloaded

    def entries_of(self, site: Site) -> tuple[Key, list[StoredEntry], int]:
        """The key of a site, the stored entries that it uses, and how many it uses that are not
        stored."""
        key = key_of(site.data, self.options)
        known = {one.identity: one for one in self._read(key)}
        used = [entry.data for entry in site.entries if isinstance(entry.data, GuardProgram)]
        found = [known.get(identity_of(make_table(program))) for program in used]
        return key, [one for one in found if one is not None], found.count(None)

    def _read(self, key: Key) -> list[StoredEntry]:
        return [*self._preloaded.get(key.digest_anywhere, ()), *self.folder.read(key)]

    def _entries(self, call: UnservedCall) -> list[StoredEntry]:
        """The entries that were on disk for the code of a call when they were first needed."""
        key = key_of(call.unit, self.options)
        if key.digest not in self._known:
            self._known[key.digest] = self._read(key)
            difference = "" if self._known[key.digest] else self.folder.difference(key)
            if difference:
                self._report(call, f"entries on disk are of another key: {difference}")
        return self._known[key.digest]

    def _raise_if_unexpected(self, error: Exception) -> None:
        """With the option `strict`, raises an error that is a bug of framejit."""
        if self.options.strict and not isinstance(error, FAILURES):
            raise error

    def _report(self, call: UnservedCall, text: str, taken: bool = False) -> None:
        self.send(Stored(call.unit.name, call.unit.start, taken, text))

    def _own_objects(self, call: UnservedCall) -> dict[str, Any]:
        """The objects of the handle itself that an entry holds, by name."""
        return {
            "globals": call.function.__globals__,
            "code": call.unit.decoded.code,
            "site": call.site,
            "sites": self.sites,
            "tier": call.unit.tier,
            "uncaptured": call.unit.uncaptured,
        }


def may_store(options: Options) -> bool:
    """Whether a handle with these options stores its entries."""
    return options.store and options.backend in BACKENDS and not (options.verify or options.probe)


def stored_records(records: Sequence[Event]) -> list[Any]:
    """The records that a later process reports too, without those that it makes itself."""
    return [
        replace(record, graph=None, guards=(), seconds={}, watched=frozenset(), from_disk=True)
        if isinstance(record, Captured)
        else record
        for record in records
        if isinstance(record, STORED_RECORDS)
    ]


def take_apart(parts: EntryParts, records: list[Any], own: dict[str, Any]) -> StoredEntry:
    """An entry as bytes. Raises one of FAILURES."""
    if parts.process_bound:
        raise NotStorable(f"{parts.process_bound}, which is another in each process")
    program = parts.program
    table = make_table(program)
    objects = ProgramObjects(named_objects(program.guards))
    for name in modules_of(program):
        objects.number(sys.modules[name])  # another process imports it before it reads the paths
    guards = pickle_of((table.encode(), table.objects), own, objects)
    own_parts = (parts.code, parts.needs_hook, parts.direct, parts.once)
    body = pickle_of((own_parts, records), own, objects)
    descriptions = pickle_of_descriptions(objects)
    return StoredEntry(descriptions, guards, body, identity_of(table), tuple(objects.kernels))


def modules_of(program: GuardProgram) -> list[str]:
    """The names of the modules that paths start from."""
    loads = [step.source for step in program.steps if isinstance(step, Load)]
    return [source.module for source in loads if isinstance(source, ModuleSource)]


def identity_of(table: GuardTable) -> str:
    """A text that is equal for entries with equal guards, in all processes."""
    return hashlib.sha256(table.identity(text_of_expected)).hexdigest()


def text_of_expected(expected: Any) -> str:
    """What a guard expects, as text: of an object of the program only a name, or its class."""
    if isinstance(expected, LITERALS):
        return repr(expected)
    if isinstance(expected, tuple):
        return f"({', '.join(map(text_of_expected, expected))})"
    if isinstance(expected, TensorSpec):
        return str(expected)
    if isinstance(expected, Source):
        return expected.name
    if isinstance(expected, frozenset):
        return f"{{{', '.join(sorted(map(text_of_expected, expected)))}}}"
    if isinstance(expected, TorchState | ShapeExpr | MemoryRelation):
        return text_of_expected(tuple(getattr(expected, one.name) for one in fields(expected)))
    distributed = text_of_distributed(expected)
    if distributed is not None:  # of another rank, another entry
        return distributed
    name = getattr(expected, "__qualname__", None)
    return f"{name_of_class(type(expected))} {name if isinstance(name, str) else ''}"


def named_objects(guards: tuple[Guard, ...]) -> list[tuple[Any, Source]]:
    """The objects that guards expect, each with the path that leads to it. An object that is a key
    of a dictionary, such as a parameter in an optimizer's state, is found by its position there."""
    found: list[tuple[Any, Source]] = []
    for guard in guards:
        if guard.kind is Kind.KEYS:
            found += [
                (key, DictKey(guard.source, position))
                for position, key in enumerate(guard.expected)
                if not is_constant(key)
            ]
        elif guard.kind is Kind.IS or text_of_distributed(guard.expected) is not None:
            found.append((guard.expected, guard.source))
        elif guard.kind is Kind.TYPE:
            found.append((guard.expected, TypeOf(guard.source)))
    return found


def put_together(stored: StoredEntry, call: UnservedCall, own: dict[str, Any]) -> FoundEntry:
    """The entry for the function of a call. Raises one of FAILURES, also where a guard fails."""
    frame = call.frame
    found = find_described(stored.descriptions, frame)
    if len(set(map(id, found))) < len(found):
        raise NotFound("two objects that were distinct are one now")
    data, objects = EntryUnpickler(stored.guards, own, found).load()
    program = read_table(GuardTable.decode(data, objects))
    failed = program.native().first_failure(call.slots, call.function)
    if failed >= 0:
        raise NotFound(str(program.failure(failed, frame)))
    (code, needs_hook, direct, once), records = EntryUnpickler(stored.body, own, found).load()
    if code is not None:
        code = in_file(code, call.unit.decoded.code.co_filename)
    parts = EntryParts(program, code, needs_hook, direct, once=once)
    reported = tuple(
        replace(one, guards=program.guards, watched=program.watched_guards)
        if isinstance(one, Captured)
        else one
        for one in records
    )
    return FoundEntry(parts.make(call.function, bool(call.unit.frames)), reported)
