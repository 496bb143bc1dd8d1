"""A candidate that was struck out, as a script: the graph, inputs of the same layout with made-up numbers, the backend.

The script runs alone: it exits with 0 if the backend is right on the graph, and says what is wrong otherwise.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.fx

from ..registry import GRAPHED, SHIPPED, lookup
from .compare import difference
from .trial import Ran, Trial

FOLDER = "struck_out"
GIVEN = {"inf": "from math import inf", "nan": "from math import nan", "device": "from torch import device"}

TEXT = '''"""Backend {name!r} was struck out: {reason}

Inputs have the layout of those of the program, not their numbers.
"""
{imports}

torch.manual_seed(0)
torch.set_grad_enabled({grad})
backend = {name!r}


{code}


inputs = [
    {inputs}
]

{main}'''
MAIN = '''if __name__ == "__main__":
    import framejit
    from framejit.backends.autotune.repro import judge

    with framejit.config.patch(suppress_errors=False):
        sys.exit(judge(forward, framejit.compile(forward, backend=backend), inputs))
'''


def save_repro(folder: Path, key: str, gm: torch.fx.GraphModule, inputs: Sequence[Any], name: str, reason: str) -> Path | None:
    """Writes the script and returns its path; None where it cannot be written."""
    path = folder / FOLDER / f"{key}-{name.replace('+', '-')}.py"
    made = gm.graph.python_code("self")
    text = TEXT.format(
        name=name, reason=reason.replace('"""', "'''"), imports="\n".join([*imports(made.src, made.globals), *registering(name)]),
        grad=torch.is_grad_enabled(), code=made.src.strip(), inputs=",\n    ".join(map(made_like, inputs)), main=MAIN,
    )  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        return None
    return path


def imports(code: str, names: Mapping[str, Any]) -> list[str]:
    """Import statements for what a graph's code names."""
    used = set(re.findall(r"\w+", code))
    lines = {"import sys", "import torch"}
    for name, found in names.items():
        if name not in used or name == "torch":
            continue
        if name in GIVEN:
            lines.add(GIVEN[name])
        elif isinstance(found, ModuleType):
            lines.add(f"import {found.__name__} as {name}")
        elif hasattr(found, "__qualname__") and found.__module__ != "builtins":
            lines.add(f"from {found.__module__} import {found.__qualname__} as {name}")
    return sorted(lines, key=lambda line: (line.startswith("from"), line))


def registering(name: str) -> list[str]:
    """The import that registers a backend which neither framejit nor an installed plugin brings."""
    name = name.removesuffix(GRAPHED)
    if name in SHIPPED:
        return []
    backend = lookup(name)
    module = inspect.getmodule(backend.function)
    if backend.origin or module is None or module.__name__ == "__main__":
        return []
    return [f"import {module.__name__}  # registers the backend"]


def made_like(item: Any) -> str:
    """An expression for an input of the same layout."""
    if not isinstance(item, torch.Tensor):
        return repr(item)
    shape, stride, kind = tuple(item.shape), tuple(item.stride()), f"dtype={item.dtype}, device={str(item.device)!r}"
    made = f"torch.empty_strided({shape}, {stride}, {kind})"
    if item.is_floating_point() or item.is_complex():
        made += ".normal_()"
    else:
        made += ".zero_()"
    return made + (".requires_grad_()" if item.requires_grad else "")


INVALID = "eager fails"


def judge(forward: Callable[..., Any], compiled: Callable[..., Any], inputs: Sequence[Any]) -> str | None:
    """What is wrong with a compiled graph, by the rules of the autotuner; None if nothing."""
    trial = Trial(None, inputs)
    state = torch.get_rng_state()

    def run(call: Callable[..., Any], given: Sequence[Any]) -> Ran:
        torch.set_rng_state(state)
        return trial.run(lambda *args: call(None, *args), given)

    def exact() -> Ran | None:
        try:
            return run(forward, trial.in_float64())
        except Exception:  # a graph that asks for a precision of its own
            return None

    try:
        wanted = run(forward, trial.copies())
    except Exception as error:
        return f"{INVALID}: {type(error).__name__}: {error}"
    try:
        got = run(compiled, trial.copies())
    except Exception as error:
        return f"fails: {type(error).__name__}: {error}"
    reason = difference(got, wanted, exact)
    return f"is wrong: {reason}" if reason else None
