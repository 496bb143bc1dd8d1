"""The key of a stored entry's file: the code, the options and the versions, which must be equal in
the process that compiled the entry and in the one that uses it. The entry itself lists the objects
that must be equal, too."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import torch

from ....backends.autotune.identity import processor
from ....options import Options
from ....records import record
from ...pycode.resume import SuspendedFrame
from ..compile_unit import CompileUnit
from .content import content_of, digest_of_code, place_of_file
from .process_groups import own_rank

BACKENDS = ("eager", "native", "autotune")  # whose results can be stored
PACKAGE = Path(__file__).parents[3]
# parts of a key that are about the process, not the program
WHERE = ("versions", "machine", "rank")
FOLDERS = ("frontend", "guards", "backends")  # of the package, with all inside
PLACES = ("*.py", *(f"{folder}/**/*.py" for folder in FOLDERS))
CODE = (".py", ".so", ".pyd")
# options that change nothing about what is compiled
IRRELEVANT = ("sinks", "probe", "strict", "compile_budget", "compile_share", "wait_for_compile")


@record
class Key:
    """What must be equal for an entry to be used. place: a digest of where the code stands, for
    files of its other versions. parts: the parts of the key, by name."""

    place: str
    parts: dict[str, str]

    @property
    def digest(self) -> str:
        return short_digest(repr(sorted(self.parts.items())))

    @property
    def digest_anywhere(self) -> str:
        """The digest without the parts that say where the code was compiled."""
        return short_digest(
            repr([item for item in sorted(self.parts.items()) if item[0] not in WHERE])
        )


def key_of(unit: CompileUnit, options: Options) -> Key:
    """The key of the entries of a unit."""
    code = unit.decoded.code
    file, _, line = unit.start.rpartition(":")
    where = (
        place_of_file(code.co_filename),
        code.co_qualname,
        *(frame.point.index for frame in unit.frames),
    )
    return Key(
        short_digest(repr(where)),
        {
            "function": f"{unit.name} ({place_of_file(file)}:{line})",
            "code": digest_of_code(code),
            "suspended frames": "; ".join(map(text_of_frame, unit.frames)),
            "options": text_of_options(options),
            "versions": versions(),
            "machine": machine(),
            "rank": own_rank(),
        },
    )


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def text_of_frame(frame: SuspendedFrame) -> str:
    """A suspended frame as text, the same in every process."""
    point = frame.point
    between = [f"{content_of(one.function)} {one.call_index}" for one in frame.passthroughs]
    where = f"{point.index} {point.stack} {sorted(point.bound)} {point.awaits}"
    return f"{digest_of_code(frame.decoded.code)} {where} {between} {frame.completion.takes}"


def text_of_options(options: Options) -> str:
    return ", ".join(
        f"{field.name}={getattr(options, field.name)!r}"
        for field in fields(options)
        if field.name not in IRRELEVANT
    )


def machine() -> str:
    cuda = f", CUDA {torch.version.cuda}" if torch.cuda.is_available() else ""
    return f"{processor()}, {torch.get_num_threads()} threads{cuda}"


@functools.cache
def versions() -> str:
    numpy = getattr(sys.modules.get("numpy"), "__version__", "none")
    return (
        f"Python {sys.version}, torch {torch.__version__}, NumPy {numpy}, "
        f"framejit {digest_of_framejit()}"
    )


def digest_of_framejit() -> str:
    """A digest of framejit's own files: names, sizes and times."""
    found = [*code_files(str(PACKAGE), deep=False)]
    for folder in FOLDERS:
        found += code_files(str(PACKAGE / folder), deep=True)
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:12]


def digest_of_source() -> str:
    """A digest of framejit's own files by their content: the same on all machines."""
    digest = hashlib.sha256()
    for path in sorted(path for place in PLACES for path in PACKAGE.glob(place)):
        digest.update(str(path.relative_to(PACKAGE)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def code_files(folder: str, deep: bool) -> Iterator[str]:
    """The files with code in a folder, and in those inside it: path, size and time of each."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(CODE):
                stat = entry.stat()
                yield f"{entry.path} {stat.st_size} {stat.st_mtime_ns}"
            elif deep and "." not in entry.name and entry.is_dir():
                yield from code_files(entry.path, deep)
