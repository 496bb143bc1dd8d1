"""Show what a file of framejit.save contains and needs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..errors import ArtifactError
from ..frontend.runtime.stored.artifact_file import Manifest, read_manifest


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["show"])
    parser.add_argument("file", type=Path)


def run(args: argparse.Namespace) -> int:
    """Returns the exit code: 1 for a file that cannot be used here."""
    try:
        manifest = read_manifest(args.file)
    except (ArtifactError, OSError) as error:
        print(f"framejit artifact: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines_of(manifest)))
    try:
        manifest.check(args.file)
    except ArtifactError as error:
        print(f"cannot be used here: {error}")
        return 1
    print("can be used here")
    return 0


def lines_of(manifest: Manifest) -> list[str]:
    return [
        manifest.title,
        "compiled with: "
        + ", ".join(f"{name}={value!r}" for name, value in manifest.compiled_with.items()),
        *(f"{name}: {found}" for name, found in manifest.made_with.items()),
        f"kernels: {manifest.kernels} compiled libraries",
        "code of:",
        *(f"    {name}: {count} entries" for name, count in manifest.functions.items()),
    ]
