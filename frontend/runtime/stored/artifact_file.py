"""ArtifactFile: entries and their kernels in one file, with a manifest that says what they need.

The file is a zip archive: manifest.json, entries/KEY, kernels/KEY. Entries are pickled, so a file
is read only where its user trusts it; the manifest can be read in any case.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ....backends.native.toolchain.artifact_cache import ArtifactCache
from ....errors import ArtifactError
from ....records import record
from .files import EntryFile, StoredEntry
from .key import digest_of_source, machine

MANIFEST, ENTRIES, KERNELS = "manifest.json", "entries/", "kernels/"
FORMAT = 1


@record
class Manifest:
    """What an artifact is and needs. made_with: versions, by name. compiled_with: arguments of
    framejit.compile. functions: entries by the code that they are of."""

    title: str
    compiled_with: dict[str, Any]
    functions: dict[str, int]
    kernels: int
    made_with: dict[str, str] = field(default_factory=lambda: this_process())
    format: int = FORMAT

    def check(self, path: Path) -> None:
        """Raises ArtifactError where this process is not like that which made the artifact."""
        if self.format != FORMAT:
            raise ArtifactError(
                f"{path} has format {self.format}, and this framejit reads {FORMAT}"
            )
        here = this_process()
        different = [
            f"{name}: {made!r} there, {here.get(name)!r} here"
            for name, made in self.made_with.items()
            if here.get(name) != made
        ]
        if different:
            raise ArtifactError(f"{path} was made elsewhere: {'; '.join(different)}")


def this_process() -> dict[str, str]:
    """What compiled code depends on beside the program."""
    return {
        "Python": sys.version,
        "torch": torch.__version__,
        "framejit": digest_of_source(),
        "machine": machine(),
    }


def write_artifact(
    path: Path, manifest: Manifest, files: Mapping[str, EntryFile], kernels: Mapping[str, bytes]
) -> None:
    """Writes an artifact. files: by the digests of their keys. kernels: libraries by their keys.
    Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=2))
        for name, file in files.items():
            archive.writestr(ENTRIES + name, file.encode())
        for name, data in kernels.items():
            archive.writestr(KERNELS + name, data)


def read_manifest(path: Path) -> Manifest:
    """Runs no code of the file. Raises ArtifactError for what is no artifact, and OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return Manifest(**json.loads(archive.read(MANIFEST)))
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is no artifact of framejit: {error}") from error


def read_entries(path: Path) -> dict[str, tuple[StoredEntry, ...]]:
    """The entries by the digests of their keys; unpickles. Kernels become part of the compile
    cache. Raises ArtifactError for a damaged file."""
    found: dict[str, tuple[StoredEntry, ...]] = {}
    cache = ArtifactCache("c")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith(ENTRIES):
                file = EntryFile.decode(archive.read(name))
                if file is None:
                    raise ArtifactError(f"{path} is damaged: {name}")
                found[name.removeprefix(ENTRIES)] = file.entries
            elif name.startswith(KERNELS):
                data = archive.read(name)
                cache.make(name.removeprefix(KERNELS), partial(write, data=data))
    return found


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def library_bytes(key: str) -> bytes:
    """A compiled library of the compile cache. Raises ArtifactError."""
    path = ArtifactCache("c").get(key)
    if path is None:
        raise ArtifactError("a kernel is no longer in the compile cache; call the model again")
    return path.read_bytes()
