"""Writes a script that reproduces a backend's wrong result: the graph, the backend, and made-up
inputs with the layout and the shared memory of the program's.

The script needs nothing else. It exits with 0 if the backend is right, and prints what is wrong
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...overlap import may_repeat
from ..registry import name_of
from .compare import MoreRuns, difference_in_any_precision
from .trial import RunResult, Trial, coarsest_of
from .user_backends import backend_statements

FOLDER = "struck_out"
GIVEN = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "device": "from torch import device",
}

TEXT = '''"""Backend {name!r} was struck out: {reason}

Inputs have the layout of those of the program, not their numbers.
"""
{imports}

torch.manual_seed(0)
torch.set_grad_enabled({grad})
{backend}
{shared}

{code}


inputs = [
    {inputs}
]

{main}'''
MAIN = """if __name__ == "__main__":
    import framejit
    from framejit.backends.autotune.repro import judge

    with framejit.config.patch(suppress_errors=False, verify=0):
        sys.exit(judge(forward, framejit.compile(forward, backend=backend), inputs))
"""


def save_repro(
    folder: Path,
    key: str,
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: str | Callable[..., Any],
    reason: str,
) -> Path | None:
    """Write the script and return its path; None where it cannot be written."""
    name = name_of(backend)
    path = folder / FOLDER / f"{key}-{re.sub('[^A-Za-z0-9_.]', '-', name)}.py"
    made = gm.graph.python_code("self")
    storages = SharedStorages(inputs)
    text = TEXT.format(
        name=name,
        reason=reason.replace('"""', "'''"),
        imports="\n".join(imports(made.src, made.globals)),
        grad=torch.is_grad_enabled(),
        backend="\n".join(backend_statements(backend)),
        shared="".join(f"{line}\n" for line in storages.statements),
        code=made.src.strip(),
        inputs=",\n    ".join(map(storages.expression, inputs)),
        main=MAIN,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        return None
    return path


def imports(code: str, names: Mapping[str, Any]) -> list[str]:
    """Import statements for the names in a graph's code."""
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


class SharedStorages:
    """Statements of a script that create the memory which several inputs share."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        tensors = [item for item in inputs if isinstance(item, torch.Tensor) and item.numel()]
        keys = [storage_of(tensor) for tensor in tensors]
        firsts = dict(zip(reversed(keys), reversed(tensors), strict=True))
        shared = {
            key: first
            for key, first in firsts.items()
            if keys.count(key) > 1 or may_repeat(first.shape, first.stride())
        }
        self.names = {key: f"shared_{number}" for number, key in enumerate(shared)}
        self.statements = [
            f"{self.names[key]} = {random_storage(first)}" for key, first in shared.items()
        ]

    def expression(self, item: Any) -> str:
        """An expression for an input of the same layout."""
        if not isinstance(item, torch.Tensor) or storage_of(item) not in self.names:
            return made_like(item)
        made = (
            f"torch.empty(0, dtype={item.dtype}, device={str(item.device)!r})"
            f".set_({self.names[storage_of(item)]}, {item.storage_offset()}, {tuple(item.shape)}, "
            f"{item.stride()})"
        )
        return made + (".requires_grad_()" if item.requires_grad else "")


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def random_storage(tensor: torch.Tensor) -> str:
    """An expression for a storage of the same size as a tensor's."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    make = "randn" if tensor.is_floating_point() or tensor.is_complex() else "zeros"
    return (
        f"torch.{make}({count}, dtype={tensor.dtype}, "
        f"device={str(tensor.device)!r}).untyped_storage()"
    )


def made_like(item: Any) -> str:
    """An expression for an input of the same layout, on separate memory."""
    if not isinstance(item, torch.Tensor):
        return repr(item)
    shape = tuple(item.shape)
    stride = tuple(item.stride())
    kind = f"dtype={item.dtype}, device={str(item.device)!r}"
    made = f"torch.empty_strided({shape}, {stride}, {kind})"
    made += ".normal_()" if item.is_floating_point() or item.is_complex() else ".zero_()"
    return made + (".requires_grad_()" if item.requires_grad else "")


INVALID = "eager fails"


class ResultDtypes(TorchDispatchMode):
    """Records the dtypes of operators' results."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.dtypes |= {item.dtype for item in tree_leaves(made) if isinstance(item, torch.Tensor)}
        return made


def judge(
    forward: Callable[..., Any], compiled: Callable[..., Any], inputs: Sequence[Any]
) -> str | None:
    """What is wrong with a compiled graph, by the rules of the autotuner; None if nothing."""
    trial = Trial(None, inputs)
    state = torch.get_rng_state()

    def run(call: Callable[..., Any], given: Sequence[Any]) -> RunResult:
        torch.set_rng_state(state)
        return trial.first_run(lambda *args: call(None, *args), given)

    def run_in_float64() -> RunResult | None:
        try:
            return run(forward, trial.in_float64())
        except Exception:  # the graph fixes its precision
            return None

    try:
        wanted = run(forward, trial.copies())
    except Exception as error:
        return f"{INVALID}: {type(error).__name__}: {error}"
    try:
        got = run(compiled, trial.copies())
    except Exception as error:
        return f"fails: {type(error).__name__}: {error}"

    def computed_in() -> torch.dtype | None:
        with ResultDtypes() as noted:
            run(forward, trial.copies())
        return coarsest_of(noted.dtypes)

    def run_both_again() -> tuple[RunResult, RunResult]:
        return run(compiled, trial.copies()), run(forward, trial.copies())

    def run_nudged(roundings: int) -> RunResult:
        return run(forward, trial.nudged_inputs(roundings))

    more = MoreRuns(run_both_again, run_in_float64, run_nudged, computed_in)
    reason = difference_in_any_precision(got, wanted, more)
    return f"is wrong: {reason}" if reason else None
