"""Compiled artifacts on disk, by the content of their sources. Any number of processes may share
the folder.

A file is written under a temporary name and renamed, so no process reads an incomplete one; a
checksum detects damage.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from ....errors import warn_user
from ....options import config
from .trusted_files import PRIVATE_FILE, PRIVATE_FOLDER, folder_distrust, own_distrust

LIMIT = 2 << 30  # bytes; the least recently used files are deleted first


def cache_folder(kind: str) -> Path:
    """A folder of config.cache_dir, created if missing. If it cannot be written, or others may
    write to it, a temporary folder of this process, with a warning."""
    folder = _root(config.cache_dir) / kind
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


def shared_folder(kind: str) -> Path:
    """A folder of config.cache_dir, created if missing. Raises OSError, without a warning, if it
    cannot be written, or others may write to it."""
    problem = problem_with(config.cache_dir)
    if problem:
        raise OSError(problem)
    return cache_folder(kind)


@lru_cache
def problem_with(wanted: Path) -> str:
    """Why a cache folder cannot be used; "" if it can."""
    try:
        wanted.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        distrust = folder_distrust(wanted)
        if distrust:
            return (
                f"the cache folder {wanted} is not used, because {distrust} and compiled code "
                "would be loaded from it"
            )
        tempfile.TemporaryFile(dir=wanted).close()
    except OSError as error:
        return f"the cache folder cannot be written to ({error})"
    return ""


@lru_cache
def _root(wanted: Path) -> Path:
    problem = problem_with(wanted)
    if not problem:
        return wanted
    warn_user(
        f"{problem}. What is compiled is kept for this process only; set FRAMEJIT_CACHE_DIR to a "
        "folder that you alone can write to",
        stacklevel=3,
    )
    own = tempfile.mkdtemp(prefix="framejit-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


class ArtifactCache:
    """Files by key under one folder. `kind` names the folder in config.cache_dir."""

    def __init__(self, kind: str, limit: int = LIMIT) -> None:
        self.folder = cache_folder(kind)
        self.limit = limit

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def get(self, key: str) -> Path | None:
        """The checked file of a key, or None. A file that others may have written is deleted; a
        damaged one too, with a warning."""
        path = self.path(key)
        try:
            if own_distrust(path.parent):
                shutil.rmtree(path.parent)
            elif own_distrust(path):
                self.drop(key)
            data = path.read_bytes()
            recorded = path.with_suffix(".sha256").read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).digest() != recorded:
            warn_user(
                f"a file of the compile cache was damaged and is made again: {path}", stacklevel=2
            )
            self.drop(key)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # a folder that only others may write to
        return path

    def drop(self, key: str) -> None:
        for path in (self.path(key), self.path(key).with_suffix(".sha256")):
            path.unlink(missing_ok=True)

    def make(self, key: str, build: Callable[[Path], object]) -> Path:
        """The file of a key, built by build(path) if missing; one process builds, others wait."""
        found = self.get(key)
        if found is not None:
            return found
        path = self.path(key)
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            found = self.get(key)
            if found is not None:
                return found
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                fresh = Path(folder) / "artifact"
                build(fresh)
                fresh.chmod(PRIVATE_FILE)
                digest = Path(folder) / "digest"
                digest.write_bytes(hashlib.sha256(fresh.read_bytes()).digest())
                digest.replace(path.with_suffix(".sha256"))
                fresh.replace(path)
        self.trim()
        return path

    def trim(self) -> None:
        """Deletes the least recently used files until the rest is within the limit."""
        files = []
        for path in self.folder.glob("??/*"):
            try:
                if path.suffix == "" and path.is_file():
                    files.append((path.stat().st_mtime, path.stat().st_size, path))
            except OSError:
                continue  # another process deleted it
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                return
            self.drop(path.name)
            total -= size


def content_key(*parts: str) -> str:
    """The key of some content."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()
