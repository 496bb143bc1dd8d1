"""Which Pythons and torches framejit supports, and the one warning where it runs under another."""
from __future__ import annotations

import functools
import importlib.metadata
import sys

from ..errors import warn_user
from .pycode.dialect import VERSIONS, is_supported

TORCH_VERSIONS = ((2, 11), (2, 14))  # from, up to but not including


def torch_release() -> tuple[int, int]:
    """The installed torch's major and minor version."""
    major, minor = importlib.metadata.version("torch").split(".")[:2]
    return int(major), int(minor)


@functools.cache
def usable() -> bool:
    """Whether this Python and torch are supported; warns once if not."""
    if is_supported() and TORCH_VERSIONS[0] <= torch_release() < TORCH_VERSIONS[1]:
        return True
    warn_user(f"{support_statement()}, so everything runs in eager", stacklevel=2)
    return False


def support_statement() -> str:
    """What is supported, and what there is instead."""
    known = ", ".join(".".join(map(str, version)) for version in VERSIONS)
    return (
        f"CPython {known} with torch 2.11 to 2.13 is supported; this is {sys.implementation.name} {sys.version.split()[0]} "
        f"with torch {importlib.metadata.version('torch')}"
    )
