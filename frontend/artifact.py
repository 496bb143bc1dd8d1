"""framejit.save and framejit.load: what was compiled for a model, as one file for other machines of
the same kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from ..events import Stored
from . import api
from .control import Control
from .framejit_attribute import ControlGroup, title_of
from .runtime.cache import Cache
from .runtime.stored.artifact_file import (
    Manifest,
    library_bytes,
    read_entries,
    read_manifest,
    write_artifact,
)
from .runtime.stored.files import EntryFile


def save(compiled: Any, path: str | os.PathLike[str]) -> None:
    """Writes all that was compiled so far for a module or function into one file, with its kernels.

    Args:
        compiled: what framejit.compile returned, after calls with the inputs that it is to serve.
        path: of the file, which is replaced.

    Raises:
        ArtifactError: nothing was compiled, or some of it cannot be stored; the message says why.
        OSError: the file cannot be written.
    """
    control = getattr(compiled, "framejit", None)
    controls = [one for one in controls_of(control) if one.is_compiled]
    if not controls:
        raise ArtifactError(f"{title_of(compiled)} is not compiled")
    files: dict[str, EntryFile] = {}
    functions: dict[str, int] = {}
    kernels: dict[str, bytes] = {}
    for one in controls:
        one.wait()
        for key, entries in stored_entries(one.cache, tuple(one.history.events)):
            files[key.digest_anywhere] = EntryFile(key.parts, tuple(entries))
            name = key.parts["function"]
            functions[name] = functions.get(name, 0) + len(entries)
            kernels |= {name: library_bytes(name) for entry in entries for name in entry.kernels}
    if not files:
        raise ArtifactError("nothing is compiled yet: call it with the inputs that it is to serve")
    title = controls[0].cache.handle.function.__qualname__
    manifest = Manifest(title, arguments_of(controls[0].cache), functions, len(kernels))
    write_artifact(Path(path), manifest, files, kernels)


def controls_of(control: Any) -> list[Any]:
    """The handles behind what `compiled.framejit` is."""
    if isinstance(control, ControlGroup):
        return list(control._controls)
    return [control] if isinstance(control, Control) else []


def stored_entries(cache: Cache, events: tuple[Any, ...]) -> Iterator[tuple[Any, list[Any]]]:
    """The keys and entries that a handle uses. Raises ArtifactError where one is not stored."""
    if cache.store is None:
        raise ArtifactError(
            "only what is stored on disk can be saved, and for this the store is off (config.store)"
            " or its backend's code cannot be stored"
        )
    for site in cache.sites():
        key, entries, missing = cache.store.entries_of(site)
        if missing:
            reasons = [
                event.text
                for event in events
                if isinstance(event, Stored) and event.text.startswith("not stored")
            ]
            reason = reasons[-1] if reasons else "it is no longer in the cache folder"
            raise ArtifactError(f"code of {key.parts['function']} cannot be saved: {reason}")
        if entries:
            yield key, entries


def arguments_of(cache: Cache) -> dict[str, Any]:
    """The arguments of framejit.compile with which a handle was made."""
    options = cache.options
    return {
        "backend": options.backend,
        "dynamic": options.dynamic,
        "fullgraph": options.fullgraph,
        "mode": options.mode,
        "options": dict(options.backend_options),
    }


def load(path: str | os.PathLike[str], fn_or_module: Any) -> Any:
    """Compiles a module or function as framejit.compile does, with the code of an artifact: calls
    that it serves capture and compile nothing. Other calls compile as usual.

    A file may contain any code, and loading runs it: load only files that you trust.

    Args:
        path: of a file that framejit.save wrote.
        fn_or_module: the same program, in files of the same names.

    Returns: what framejit.compile returns.

    Raises:
        ArtifactError: the file is for another version, processor or program; the message says what
            differs.
        OSError: the file cannot be read.
    """
    file = Path(path)
    manifest = read_manifest(file)
    manifest.check(file)
    entries = read_entries(file)
    arguments = dict(manifest.compiled_with)
    arguments["options"] = {**arguments["options"], "store": True}
    compiled = api.compile(fn_or_module, **arguments)
    controls = controls_of(getattr(compiled, "framejit", None))
    if not controls:
        raise ArtifactError(f"{title_of(fn_or_module)} is not compiled here: {compiled.framejit}")
    known = False
    for one in controls:
        store = one.cache.store
        if store is None:
            raise ArtifactError("the store is off for this handle")
        store.preload(entries)
        known |= store.knows(one.cache.root)
    if not known:
        raise ArtifactError(
            f"{file} has code of {', '.join(manifest.functions)}, not of "
            f"{title_of(fn_or_module)} as it is now, with the options of this process"
        )
    return compiled
