"""Shrinks a repro while it keeps failing in the same way: fewer results, fewer operations, fewer
and smaller inputs.

A repro is text; each statement of its graph's code is one operation. Every smaller version runs in
a forked process, which may crash or hang. The script itself says what is wrong, so nothing here
depends on backends.
"""

from __future__ import annotations

import ast
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from ...records import record
from .isolation import run_isolated
from .repro import INVALID, MAIN, made_like

T = TypeVar("T")
ROOM = 4 << 30  # bytes that a run may take
SHAPED = re.compile(r"torch\.empty_strided\((\([^)]*\)), (\([^)]*\)),")


class NoReproError(ValueError):
    """The script was not written by save_repro, or does not fail here."""


@record
class Repro:
    """The parts of a repro. `lines`: the graph's operations."""

    head: str  # up to the graph: imports, the backend's name
    inputs: tuple[tuple[str, str], ...]  # name, expression
    lines: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Repro:
        """Raises NoReproError."""
        try:
            tree = ast.parse(text)
            forward = next(
                one
                for one in tree.body
                if isinstance(one, ast.FunctionDef) and one.name == "forward"
            )
            given = next(
                one.value
                for one in tree.body
                if isinstance(one, ast.Assign) and assigns(one, "inputs")
            )
        except (SyntaxError, StopIteration):
            raise NoReproError(
                "no repro: it has no function `forward` and no list `inputs`"
            ) from None
        assert isinstance(given, ast.List)
        names = [one.arg for one in forward.args.args[1:]]
        head = [
            one
            for one in tree.body[: tree.body.index(forward)]
            if not assigns(one, "inputs") and not is_text(one)
        ]
        lines: dict[int, list[str]] = {}
        for one in forward.body[:-1]:
            if not drops_names(one):
                lines.setdefault(one.lineno, []).append(ast.unparse(one))
        result = forward.body[-1]
        if not isinstance(result, ast.Return) or not isinstance(result.value, ast.Tuple):
            raise NoReproError("no repro: `forward` does not end in a tuple of results")
        return cls(
            "\n".join(map(ast.unparse, head)),
            tuple(zip(names, map(ast.unparse, given.elts), strict=True)),
            tuple("; ".join(parts) for parts in lines.values()),
            tuple(map(ast.unparse, result.value.elts)),
        )

    @property
    def text(self) -> str:
        names = "".join(f", {name}" for name, _ in self.inputs)
        results = f"({', '.join(self.outputs)}{',' if len(self.outputs) == 1 else ''})"
        body = "\n".join(f"    {line}" for line in (*self.lines, f"return {results}"))
        given = "".join(f"    {made},  # {name}\n" for name, made in self.inputs)
        return (
            f"{self.head}\n\n\ndef forward(self{names}):\n{body}\n\n\ninputs = "
            f"[\n{given}]\n\n{MAIN}"
        )

    def without_unused(self) -> Repro:
        """The repro without unused inputs."""
        used = set().union(*map(names_in, (*self.lines, *self.outputs)))
        return replace(self, inputs=tuple(pair for pair in self.inputs if pair[0] in used))

    def undefined_names(self) -> set[str]:
        """Names of the graph that are read but not assigned."""
        known = {name for name, _ in self.inputs}
        lost: set[str] = set()
        for line in self.lines:
            lost |= names_in(line) & self.own_names - known - assigned_names(line)
            known |= assigned_names(line)
        return lost | (set().union(*map(names_in, self.outputs)) & self.own_names) - known

    @property
    def own_names(self) -> set[str]:
        return set(self._own_names) or {name for name, _ in self.inputs}.union(
            *map(assigned_names, self.lines)
        )

    _own_names: frozenset[str] = frozenset()  # all names of the original graph


def assigns(node: ast.stmt, name: str) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    )


def is_text(node: ast.stmt) -> bool:
    """A docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def drops_names(node: ast.stmt) -> bool:
    """Whether a statement is `x = y = None`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value is None
    )


def names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def assigned_names(line: str) -> set[str]:
    return {
        node.id
        for node in ast.walk(ast.parse(line))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def failure_kind(verdict: str) -> str:
    """The part of a failure that stays the same while a repro shrinks: "is wrong", "fails:
    TypeError", "crashed: SIGSEGV", "hung"; "" for no failure."""
    first, _, rest = verdict.partition(":")
    return f"{first}: {rest.split(':')[0].strip()}" if first in ("fails", "crashed") else first


def run_script(text: str) -> str:
    """Runs a repro in this process; returns what is wrong."""
    try:
        exec(compile(text, "<repro>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        return str(end.code or "")
    return ""


class Minifier:
    """Shrinks one repro. `say` is called with a line for each step."""

    def __init__(self, text: str, limit_s: float, say: Callable[[str], None]) -> None:
        self.limit_s, self.say = limit_s, say
        self.verdicts: dict[str, str] = {}
        parsed = Repro.parse(text)
        self.best = replace(parsed, _own_names=frozenset(parsed.own_names))
        self.verdict = self.run(text)
        self.kind = failure_kind(self.verdict)
        if not self.kind:
            raise NoReproError(
                "it does not fail here: the backend is right on inputs of this layout"
            )
        if self.kind == INVALID:
            raise NoReproError(f"its graph does not run in eager: {self.verdict}")
        if failure_kind(self.run(self.best.text)) != self.kind:
            raise NoReproError("no repro: it fails otherwise when written anew")

    def run(self, text: str) -> str:
        """Runs a repro in a separate process; returns what is wrong."""
        if text not in self.verdicts:
            self.verdicts[text] = run_isolated(lambda: run_script(text), self.limit_s, ROOM)
        return self.verdicts[text]

    def tries(self, smaller: Repro) -> bool:
        """Keeps a smaller repro if it fails in the same way."""
        smaller = smaller.without_unused()
        if smaller == self.best or smaller.undefined_names() or not smaller.outputs:
            return False
        verdict = self.run(smaller.text)
        if failure_kind(verdict) != self.kind:
            return False
        self.best, self.verdict = smaller, verdict
        self.say(
            f"{len(smaller.lines)} operations, {len(smaller.inputs)} inputs, "
            f"{len(smaller.outputs)} results"
        )
        return True

    def minify(self) -> Repro:
        before = None
        while before != self.best:
            before = self.best
            self.drop_results()
            self.end_earlier()
            self.drop_operations()
            self.shrink_inputs()
        return self.best

    def drop_results(self) -> None:
        reduce_list(
            list(self.best.outputs),
            lambda kept: self.tries(replace(self.best, outputs=tuple(kept))),
        )

    def end_earlier(self) -> None:
        """Ends the graph earlier, by bisection: at the first operation with which it fails."""
        low, high = 0, len(self.best.lines)
        while low < high:
            middle = (low + high) // 2
            lines = self.best.lines[: middle + 1]
            name = min(assigned_names(lines[-1]), default="")
            if name and self.tries(replace(self.best, lines=lines, outputs=(name,))):
                high = len(self.best.lines) - 1
            else:
                low = middle + 1

    def drop_operations(self) -> None:
        """Drops operations; a dropped result that others need becomes an input with the same
        layout."""
        made = self.layouts()
        lines = list(self.best.lines)

        def keep(kept: Sequence[str]) -> bool:
            smaller = replace(self.best, lines=tuple(kept))
            lost = smaller.undefined_names()
            if not lost <= set(made):
                return False
            return self.tries(
                replace(
                    smaller,
                    inputs=(*smaller.inputs, *((name, made[name]) for name in sorted(lost))),
                )
            )

        reduce_list(lines, keep)

    def layouts(self) -> dict[str, str]:
        """An expression for each value of the graph that creates a tensor or number like it, by
        name."""
        best = self.best
        with tempfile.TemporaryDirectory() as folder:
            layouts_file = Path(folder) / "layouts.json"

            def work() -> str:
                """Runs the script and writes the layouts of its values to the file."""
                found: dict[str, Any] = {}
                exec(best.head, found)
                for name, made in best.inputs:
                    found[name] = eval(made, found)
                found["self"] = None
                for line in best.lines:
                    exec(line, found)
                layouts_file.write_text(
                    json.dumps(
                        {
                            name: made_like(found[name])
                            for name in best.own_names
                            if can_be_made(found.get(name))
                        }
                    )
                )
                return ""

            run_isolated(work, self.limit_s, ROOM)
            return json.loads(layouts_file.read_text()) if layouts_file.exists() else {}

    def shrink_inputs(self) -> None:
        """Reduces sizes, each in all inputs at once."""
        for size in sorted(
            {size for _, made in self.best.inputs for size in shape_of(made)}, reverse=True
        ):
            for less in (1, 2, *halves(size)):
                resized = tuple(
                    (name, with_size(made, size, less)) for name, made in self.best.inputs
                )
                if less < size and self.tries(replace(self.best, inputs=resized)):
                    break


def can_be_made(item: Any) -> bool:
    return isinstance(item, int | float | bool) or (
        type(item) in (torch.Tensor, torch.nn.Parameter) and item.layout is torch.strided
    )


def shape_of(made: str) -> tuple[int, ...]:
    found = SHAPED.search(made)
    return ast.literal_eval(found[1]) if found else ()


def with_size(made: str, size: int, less: int) -> str:
    """An input's expression with one size replaced by another, without gaps in memory."""
    shape = tuple(less if one == size else one for one in shape_of(made))
    if shape == shape_of(made):
        return made
    strides = tuple(
        math.prod(max(one, 1) for one in shape[position + 1 :]) for position in range(len(shape))
    )
    return SHAPED.sub(lambda _: f"torch.empty_strided({shape}, {strides},", made)


def halves(size: int) -> Iterator[int]:
    while size > 4:
        size //= 2
        yield size


def reduce_list(items: list[T], keep: Callable[[Sequence[T]], bool]) -> list[T]:
    """Delta debugging: drops parts of a list, larger ones first, as long as `keep` accepts the
    rest."""
    part = max(1, len(items) // 2)
    while items:
        position, dropped = 0, False
        while position < len(items):
            rest = items[:position] + items[position + part :]
            if keep(rest):
                items, dropped = rest, True
            else:
                position += part
        if part > 1:
            part = max(1, part // 2)
        elif not dropped:
            break
    return items
