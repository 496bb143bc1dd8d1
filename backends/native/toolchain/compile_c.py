"""C text to functions, with gcc or clang. Plain C without torch's headers; results are cached on
disk."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from ....options import asked_c_compiler, config
from ....records import record
from .artifact_cache import ArtifactCache, content_key

# No contraction: a*b - a*b must be 0. No errno and no floating-point traps: nothing reads them, and
# they prevent SIMD. gcc would join sin(x) and cos(x) to a function that has no SIMD version.
# Integers wrap around, as in torch: otherwise x + 1 > x would be true for the largest integer.
FLAGS: tuple[str, ...] = (
    "-O3", "-march=native", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fwrapv", "-fopenmp", "-fPIC", "-shared", "-w",
    *(f"-fno-builtin-{name}" for name in ("sin", "cos", "sinf", "cosf")),
)  # fmt: skip
# By default gcc uses half of the vector register on Intel's processors, which doubles the time of
# exp, tanh and erf.
WIDE = {"__AVX512F__": "-mprefer-vector-width=512"}  # by macro
PROBE = """
__attribute__((simd("notinbranch"), const)) float tanhf(float);
void probe(float* x, int n) {
    _Pragma("omp simd")
    for (int i = 0; i < n; i++) x[i] = tanhf(x[i]);
}
"""


class NoCompiler(Exception):
    """No working C compiler; the message is the compiler's."""


@lru_cache(1)
def compiler() -> tuple[str, str, bool]:
    """The C compiler's command, its version and processor as text, and whether libmvec is there.
    Raises NoCompiler."""
    said = []
    for name in [asked_c_compiler(), "gcc", "clang", "cc"]:
        command = shutil.which(name) if name else None
        if command is None:
            continue
        for vector in (True, False):
            text = PROBE if vector else "void probe(float* x, int n) { x[0] = n; }"
            try:
                _compile(command, FLAGS, text, Path(os.devnull), vector)
            except subprocess.CalledProcessError as error:
                said.append(f"{command}: {error.stderr.decode(errors='replace').strip()[:200]}")
                continue
            return command, _identity(command), vector
    raise NoCompiler("; ".join(said) or "none of $CC, gcc, clang and cc is on PATH")


def _identity(command: str) -> str:
    version = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    native = subprocess.run(
        [command, "-march=native", "-E", "-dM", "-x", "c", os.devnull],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return version + "\n" + native


def flags_for(identity: str) -> tuple[str, ...]:
    """The flags for a compiler and processor as compiler() tells of them."""
    return (*FLAGS, *(flag for macro, flag in WIDE.items() if f"#define {macro} " in identity))


def _compile(command: str, flags: Sequence[str], text: str, target: Path, vector: bool) -> None:
    libraries = ["-lmvec", "-lm"] if vector else ["-lm"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.c"
        source.write_text(text)
        output = Path(folder) / "kernels.so"
        subprocess.run(
            [command, *flags, str(source), "-o", str(output), *libraries],
            check=True,
            capture_output=True,
            timeout=600,
        )
        if str(target) != os.devnull:
            shutil.move(output, target)


@record
class Symbol:
    """A compiled function: the key of its library among the artifacts, and its name there."""

    library: str
    name: str

    def address(self) -> int:
        """Raises Missing where the artifact is gone."""
        loaded = load_library(self.library, str(config.cache_dir))
        return ctypes.cast(getattr(loaded, self.name), ctypes.c_void_p).value or 0


class Missing(LookupError):
    """A compiled library is no longer among the artifacts."""


@lru_cache
def load_library(key: str, cache_dir: str) -> ctypes.CDLL:
    """A compiled library of this cache folder. Raises Missing."""
    path = ArtifactCache("c").get(key)
    if path is None:
        raise Missing(key)
    return ctypes.CDLL(str(path))


def library(text: str) -> str:
    """The key of the library compiled of a C text. Raises NoCompiler, or CalledProcessError with
    the compiler's message."""
    command, identity, vector = compiler()
    flags = flags_for(identity)
    key = content_key(identity, " ".join(flags), text)
    ArtifactCache("c").make(key, lambda target: _compile(command, flags, text, target, vector))
    return key


def functions(preamble: str, texts: Sequence[str], units: int) -> list[Symbol]:
    """The functions in `texts` (each named NAME there), compiled by up to `units` compiler
    processes in parallel."""
    units = max(1, min(units, len(texts)))
    parts = [list(range(unit, len(texts), units)) for unit in range(units)]

    def build(numbers: Sequence[int]) -> dict[int, Symbol]:
        body = "\n\n".join(
            texts[number].replace("NAME", f"kernel_{place}") for place, number in enumerate(numbers)
        )
        key = library(preamble + "\n\n" + body)
        return {number: Symbol(key, f"kernel_{place}") for place, number in enumerate(numbers)}

    with ThreadPoolExecutor(units) as pool:
        made: dict[int, Symbol] = {}
        for found in pool.map(build, parts):
            made |= found
    return [made[number] for number in range(len(texts))]
