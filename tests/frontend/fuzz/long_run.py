"""The command line of the fuzzers whose programs are the functions of a seed, and their source."""

from __future__ import annotations

import argparse
import linecache
import warnings
from collections.abc import Callable
from typing import Any

import framejit
import torch

Program = Callable[..., Any]


def function_of(source: str, seed: int) -> Program:
    """The function named `program`, whose lines tracebacks show."""
    file = f"<fuzz {seed}: {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, file, "exec"), namespace)
    program: Program = namespace["program"]
    return program


def main(
    description: str | None, write: Callable[[int], str], examine: Callable[[int, str], str | None]
) -> None:
    """Examines the programs of many seeds, and prints those that differ from eager."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--backend", default="eager")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    different = 0
    for seed in range(asked.first, asked.first + asked.programs):
        found = examine(seed, asked.backend)
        if found is not None:
            different += 1
            print(f"seed {seed}: {found}\n{write(seed)}", flush=True)
        framejit.reset()
    print(
        f"end: {asked.backend}: {asked.programs} programs from seed {asked.first}, {different} different"
    )
