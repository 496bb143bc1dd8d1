"""Report which parts of framejit work on this machine, and how to get the others."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from ..frontend.pycode.dialect import VERSIONS, is_supported
from ..frontend.support import (
    TORCH_VERSIONS,
    installed_versions,
    is_tested_here,
    torch_release,
    usable,
)
from ..options import config
from . import cache

STYLES = {"ok": "green", "absent": "yellow", "unusable": "red"}


@dataclass(frozen=True)
class Finding:
    """What was found about one thing. If something `needed` is unusable, the exit code is 1."""

    what: str
    state: str  # "ok"; "absent": works without it; "unusable"
    said: str
    remedy: str = ""
    needed: bool = False


def arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(args: argparse.Namespace) -> int:
    """Returns the exit code: 1 if something that is needed cannot be used."""
    findings = [check() for check in CHECKS]
    table = Table("", "state", "here", "what to do", title="framejit doctor", title_justify="left")
    for one in findings:
        table.add_row(one.what, f"[{STYLES[one.state]}]{one.state}[/]", one.said, one.remedy)
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # nothing is cut in a file
    console.print(table)
    bad = [one.what for one in findings if one.needed and one.state == "unusable"]
    print(f"framejit cannot compile here: {', '.join(bad)}" if bad else "framejit compiles here")
    return 1 if bad else 0


def python() -> Finding:
    known = ", ".join(".".join(map(str, version)) for version in VERSIONS)
    said = f"{platform.python_implementation()} {sys.version.split()[0]}"
    if not is_supported():
        return Finding(
            "Python",
            "unusable",
            said,
            f"install CPython {known}; until then everything runs in eager",
            True,
        )
    return Finding("Python", "ok", said, needed=True)


def torch() -> Finding:
    low = ".".join(map(str, TORCH_VERSIONS[0]))
    try:
        said = importlib.import_module("torch").__version__
        good = torch_release() >= TORCH_VERSIONS[0]
    except (ImportError, OSError) as error:
        return Finding("torch", "unusable", one_line(error), f"pip install 'torch>={low}'", True)
    remedy = "" if good else f"pip install 'torch>={low}'; until then everything runs in eager"
    return Finding("torch", "ok" if good else "unusable", said, remedy, True)


def versions() -> Finding:
    """Whether these versions are tested; if not, the self-check's result."""
    if not usable() or is_tested_here():
        return Finding(
            "versions", "ok", f"tested with {installed_versions()}" if usable() else "see above"
        )
    check = importlib.import_module("..frontend.self_check", __package__)
    failed = check.features_off(
        importlib.import_module("..frontend.api", __package__).compile_checked
    )
    off = "; ".join(f"{feature} is off: {why}" for feature, why in failed.items())
    if check.needed_features() & failed.keys():
        return Finding(
            "versions",
            "unusable",
            off,
            "update framejit, or install versions that it knows; until then all is eager",
            True,
        )
    said = f"{installed_versions()} is newer than framejit's tests; its self-check passed"
    return Finding(
        "versions",
        "absent" if failed else "ok",
        f"{said}, but {off}" if failed else said,
        "update framejit" if failed else "",
    )


def hook() -> Finding:
    """Compiles something small."""
    if config.disable:
        return Finding("frame hook", "unusable", "FRAMEJIT_DISABLE is set", "unset it", True)
    try:
        framejit = importlib.import_module(__package__.partition(".")[0])
        tensor = importlib.import_module("torch").ones(3)
        with framejit.config.patch(strict=True):
            handle = framejit.compile(lambda x: x.sin() + 1, backend="eager")
            handle(tensor)
        entries = handle.framejit.compiles
    except Exception as error:  # whatever it is, the user wants to know it
        remedy = (
            "install framejit again where a C compiler and Python's headers are: pip install "
            "--force-reinstall --no-deps framejit"
        )
        return Finding("frame hook", "unusable", one_line(error), remedy, True)
    return Finding("frame hook", "ok", f"{entries} function compiled and called", needed=True)


def c_compiler() -> Finding:
    tools = importlib.import_module("..backends.native.toolchain.compile_c", __package__)
    try:
        command, identity, vector = tools.compiler()
    except tools.NoCompiler as error:
        remedy = "install gcc or clang, or set CC; without one the CPU runs torch's own operators"
        return Finding("C compiler", "absent", one_line(error), remedy)
    said = f"{command}, {identity.splitlines()[0]}{'' if vector else ', without vector maths'}"
    return Finding(
        "C compiler",
        "ok",
        said,
        "" if vector else "glibc's libmvec would make sin, exp and others faster",
    )


def triton() -> Finding:
    try:
        return Finding("Triton", "ok", importlib.import_module("triton").__version__)
    except Exception as error:  # a Triton that does not match torch fails in many ways
        return Finding(
            "Triton",
            "absent",
            one_line(error),
            "only GPUs need it; it comes with torch for CUDA, else: pip install triton",
        )


def gpu() -> Finding:
    """Whether kernels can be compiled for a GPU."""
    try:
        cuda = importlib.import_module("torch").cuda
    except (ImportError, OSError) as error:
        return Finding("GPU", "absent", one_line(error), "install torch first")
    if cuda.is_available():
        try:
            importlib.import_module("..backends.native.gpu", __package__).check_compiler()
        except (ImportError, RuntimeError) as error:
            return Finding(
                "GPU",
                "unusable",
                f"{cuda.get_device_name()}: {one_line(error)}",
                "graphs on it run torch's own kernels",
            )
        return Finding("GPU", "ok", f"{cuda.device_count()} x {cuda.get_device_name()}")
    if importlib.import_module("torch").version.cuda is None:
        return Finding(
            "GPU", "absent", "this torch is built for the CPU", "with a GPU: install torch for CUDA"
        )
    return Finding(
        "GPU",
        "absent",
        "no CUDA device is visible",
        "with a GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    )


def cache_folder() -> Finding:
    """Whether the cache folder can be written to, and its size."""
    folder = config.cache_dir
    remedy = (
        "make it writable, or set FRAMEJIT_CACHE_DIR; without it graphs are measured and "
        "compiled again in each process"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return Finding("cache", "unusable", f"{folder} cannot be written to", remedy)
        size = sum(cache.measure_kind(kind).size for kind in cache.KINDS)
    except Exception as error:  # a folder or a database in any state
        return Finding(
            "cache",
            "unusable",
            f"{folder}: {one_line(error)}",
            remedy + "; framejit cache --clear empties it",
        )
    return Finding("cache", "ok", f"{folder}, {decimal(size)}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    python, torch, versions, hook, c_compiler, triton, gpu, cache_folder,
)  # fmt: skip


def one_line(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {first}"
