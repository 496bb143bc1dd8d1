"""Which Pythons and torches framejit supports, and the one warning where it runs under another."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import re
import sys

from ..errors import warn_user
from .pycode.dialect import VERSIONS, is_supported, is_tested

# the oldest that works, and the newest that the tests have run with
TORCH_VERSIONS = ((2, 11), (2, 15))


def torch_release() -> tuple[int, int]:
    """The installed torch's major and minor version."""
    found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("torch"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


@functools.cache
def usable() -> bool:
    """Whether this Python and torch may work; warns once if not."""
    if is_supported() and torch_release() >= TORCH_VERSIONS[0]:
        return is_tested_here() or has_what_is_imported()
    warn_user(f"{support_statement()}, so everything runs in eager", stacklevel=2)
    return False


def has_what_is_imported() -> bool:
    """Whether framejit's modules find all of torch that they need; warns if a torch newer than the
    tests' lacks something."""
    try:
        importlib.import_module(".api", __package__)
    except (ImportError, AttributeError) as error:
        missing = f"{type(error).__name__}: {error}"
        warn_user(
            f"{installed_versions()} is newer than framejit and lacks what it needs ({missing}), "
            "so everything runs in eager",
            2,
        )
        return False
    return True


@functools.cache
def is_tested_here() -> bool:
    """Whether the tests have run with this torch's version and this Python's; newer ones have to
    pass the self-check."""
    return is_tested() and torch_release() <= TORCH_VERSIONS[1]


def support_statement() -> str:
    """What is supported, and what there is instead."""
    known = ", ".join(".".join(map(str, version)) for version in VERSIONS)
    low, high = (".".join(map(str, version)) for version in TORCH_VERSIONS)
    return (
        f"CPython {known} with torch {low} to {high} is supported; this is {installed_versions()}"
    )


def installed_versions() -> str:
    """This Python and torch, for a sentence."""
    return (
        f"{sys.implementation.name} {sys.version.split()[0]} with torch "
        f"{importlib.metadata.version('torch')}"
    )
