"""Files of stored entries, one for each piece of code and key. Any number of processes may use the
folder: a file is replaced as a whole, and a damaged or foreign one counts as missing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import astuple
from pathlib import Path

from filelock import FileLock, Timeout

from ....backends.native.toolchain.artifact_cache import shared_folder
from ....backends.native.toolchain.trusted_files import PRIVATE_FILE, PRIVATE_FOLDER, own_distrust
from ....records import record
from .entry_writer import entry_writer
from .key import Key

KIND = "entries"  # the folder's name in config.cache_dir
MAGIC = b"framejit entries 2\n"
DIGEST = 32  # bytes
MOST_ENTRIES = 8  # of one file; the newest stay
LIMIT = 1 << 30  # bytes of all files; the least recently used are deleted first
PATIENCE_S = 1.0  # that a process waits for another one that writes
TRIM_ONE_IN = 64  # writes after which the sizes of all files are looked at


@record
class StoredEntry:
    """An entry as bytes: descriptions of the program's objects, and the guards and all else, which
    refer to them by number. identity: equal for entries with equal guards. kernels: the keys of the
    compiled libraries that it calls."""

    descriptions: bytes
    guards: bytes
    body: bytes
    identity: str
    kernels: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return len(self.descriptions) + len(self.guards) + len(self.body)


@record
class EntryFile:
    """A file's content: the parts of its key, and the entries, the newest first."""

    parts: Mapping[str, str]
    entries: tuple[StoredEntry, ...]

    def encode(self) -> bytes:
        entries = [astuple(one) for one in self.entries]
        data = pickle.dumps((dict(self.parts), entries))
        return MAGIC + hashlib.sha256(data).digest() + data

    @classmethod
    def decode(cls, data: bytes) -> EntryFile | None:
        """The content in the bytes of a file; None for a damaged one."""
        start = len(MAGIC) + DIGEST
        if not data.startswith(MAGIC) or (
            hashlib.sha256(data[start:]).digest() != data[len(MAGIC) : start]
        ):
            return None
        parts, entries = pickle.loads(data[start:])
        return cls(parts, tuple(StoredEntry(*one) for one in entries))


class EntryFolder:
    """The files in config.cache_dir. A file's name begins with the code's place, so that the files
    of other versions of the same code are found."""

    def read(self, key: Key) -> list[StoredEntry]:
        """The entries under a key, the newest first. Raises OSError without a folder."""
        path = self._path(key)
        entry_writer.wait_for(path)
        found = read_file(path)
        return list(found.entries) if found is not None else []

    def add(self, key: Key, entry: StoredEntry, on_error: Callable[[OSError], None]) -> None:
        """Adds an entry, which replaces an older one with the same guards. Writes in the
        background, where `on_error` is called if that fails. Raises OSError without a folder."""
        path = self._path(key)

        def work() -> None:
            try:
                add_to_file(path, key.parts, entry)
            except OSError as error:
                on_error(error)

        entry_writer.write(path, work)

    def difference(self, key: Key) -> str:
        """Why there is no file under a key where there is one of the same code: the parts of the
        key that differ from the newest such file; "" without one."""
        path = self._path(key)
        others = sorted(
            path.parent.glob(f"{key.place}-*.entry"), key=lambda one: one.stat().st_mtime
        )
        newest = read_file(others[-1]) if others else None
        if newest is None:
            return ""
        return "; ".join(
            f"{name}: {newest.parts.get(name)!r} then, {value!r} now"
            for name, value in key.parts.items()
            if newest.parts.get(name) != value
        )

    def _path(self, key: Key) -> Path:
        # a folder for a few of them, so that files of the same place are found fast
        return shared_folder(KIND) / key.place[:2] / f"{key.place}-{key.digest}.entry"


def add_to_file(path: Path, parts: Mapping[str, str], entry: StoredEntry) -> None:
    """Adds an entry to a file. Raises OSError where it cannot be written."""
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    try:
        with FileLock(path.with_suffix(".lock"), timeout=PATIENCE_S):
            known = read_file(path)
            others = () if known is None else known.entries
            kept = (entry, *(one for one in others if one.identity != entry.identity))
            replace_file(path, EntryFile(parts, kept[:MOST_ENTRIES]).encode())
    except Timeout as error:
        raise OSError("another process is writing the same file") from error
    if secrets.randbelow(TRIM_ONE_IN) == 0:
        trim(path.parent.parent)


def read_file(path: Path) -> EntryFile | None:
    """The content of a file that this user has written; None for any other."""
    try:
        if own_distrust(path.parent) or own_distrust(path):
            return None
        data = path.read_bytes()
        with contextlib.suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    return EntryFile.decode(data)


def replace_file(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, PRIVATE_FILE)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def trim(folder: Path, limit: int = LIMIT) -> None:
    """Deletes the least recently used files until the rest is within the limit."""
    found = []
    for path in folder.glob("??/*.entry"):
        with contextlib.suppress(OSError):  # another process deleted it
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            return
        for one in (path, path.with_suffix(".lock")):
            one.unlink(missing_ok=True)
        total -= size
