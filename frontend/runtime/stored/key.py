"""The key of a stored entry's file: what must be equal in two processes for code that one has
compiled to serve the other, beside what each entry says of the objects that it names."""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import fields
from pathlib import Path

import torch

from ....backends.autotune.identity import processor
from ....options import Options
from ...pycode.resume import SuspendedFrame
from ..compile_unit import CompileUnit
from .content import content_of, digest_of_code

BACKENDS = ("eager", "native", "autotune")  # whose results can be stored
PACKAGE = Path(__file__).parents[3]
PLACES = ("*.py", "frontend/**/*.py", "guards/**/*.py", "backends/**/*.py")
# options that change nothing about what is compiled
IRRELEVANT = ("sinks", "probe", "strict", "compile_budget", "compile_share", "wait_for_compile")


def key_parts(unit: CompileUnit, options: Options) -> dict[str, str]:
    """The parts of the key by name."""
    return {
        "code": digest_of_code(unit.decoded.code),
        "suspended frames": "; ".join(map(text_of_frame, unit.frames)),
        "options": text_of_options(options),
        "versions": versions(),
        "machine": f"{processor()}, {torch.get_num_threads()} threads",
    }


def text_of_frame(frame: SuspendedFrame) -> str:
    """A suspended frame as text, the same in every process."""
    point = frame.point
    between = [f"{content_of(one.function)} {one.n}" for one in frame.through]
    where = f"{point.index} {point.stack} {sorted(point.bound)} {point.awaits}"
    return f"{digest_of_code(frame.decoded.code)} {where} {between} {frame.completion.takes}"


def key_of_parts(parts: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def text_of_options(options: Options) -> str:
    return ", ".join(
        f"{field.name}={getattr(options, field.name)!r}"
        for field in fields(options)
        if field.name not in IRRELEVANT
    )


@functools.cache
def versions() -> str:
    return f"Python {sys.version}, torch {torch.__version__}, framejit {version_of_framejit()}"


def version_of_framejit() -> str:
    """A digest of framejit's own files: names, sizes and times."""
    digest = hashlib.sha256()
    for path in sorted(path for place in PLACES for path in PACKAGE.glob(place)):
        found = path.stat()
        digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
