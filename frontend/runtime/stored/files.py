"""Files of stored entries, one for each piece of code. Any number of processes may use the folder:
a file is replaced as a whole, and a damaged or foreign one counts as missing."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ....backends.native.toolchain.artifact_cache import cache_folder
from ....backends.native.toolchain.trusted_files import PRIVATE_FILE, own_distrust

MAGIC = b"framejit entries 1\n"
MOST_ENTRIES = 8  # of one piece of code; the newest stay
PATIENCE_S = 1.0  # that a process waits for another one that writes


@dataclass(frozen=True)
class StoredEntry:
    """An entry as bytes: descriptions of the program's objects, and what refers to them by number.
    identity: equal for entries with equal guards."""

    descriptions: bytes
    body: bytes
    identity: str


class EntryFiles:
    """The files in config.cache_dir."""

    def read(self, key: str) -> list[StoredEntry]:
        """The entries under a key, the newest first."""
        path = self._path(key)
        try:
            if own_distrust(path):
                return []
            data = path.read_bytes()
        except OSError:
            return []
        return decode(data)

    def add(self, key: str, entry: StoredEntry) -> None:
        """Adds an entry, which replaces an older one with the same guards. Raises OSError where it
        cannot be written."""
        path = self._path(key)
        try:
            with FileLock(path.with_suffix(".lock"), timeout=PATIENCE_S):
                others = [one for one in self.read(key) if one.identity != entry.identity]
                replace_file(path, encode([entry, *others][:MOST_ENTRIES]))
        except Timeout as error:
            raise OSError("another process is writing the same file") from error

    def _path(self, key: str) -> Path:
        return cache_folder("entries") / key


def encode(entries: list[StoredEntry]) -> bytes:
    data = pickle.dumps([(one.descriptions, one.body, one.identity) for one in entries])
    return MAGIC + hashlib.sha256(data).digest() + data


def decode(data: bytes) -> list[StoredEntry]:
    """The entries of a file; none of a damaged one."""
    checked, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or hashlib.sha256(content).digest() != checked:
        return []
    return [StoredEntry(*parts) for parts in pickle.loads(content)]


def replace_file(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, PRIVATE_FILE)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
