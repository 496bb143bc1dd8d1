"""A candidate that was struck out, as a script: the graph, inputs of the same layout with made-up numbers, the backend."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx

FOLDER = "struck_out"

TEXT = '''"""Backend {name!r} was struck out: {reason}

Inputs have the layout of those of the program, not their numbers.
"""
import torch

{code}

inputs = [
    {inputs}
]

if __name__ == "__main__":
    import framejit

    wanted = forward(None, *[one.clone() if isinstance(one, torch.Tensor) else one for one in inputs])
    got = framejit.compile(forward, backend={name!r})(None, *inputs)
    for number, (one, other) in enumerate(zip(got, wanted)):
        print(number, (one - other).abs().max().item() if isinstance(one, torch.Tensor) else (one, other))
'''


def save_repro(folder: Path, key: str, gm: torch.fx.GraphModule, inputs: Sequence[Any], name: str, reason: str) -> Path | None:
    """Writes the script and returns its path; None where it cannot be written."""
    path = folder / FOLDER / f"{key}-{name.replace('+', '-')}.py"
    text = TEXT.format(name=name, reason=reason.replace('"""', "'''"), code=gm.code.strip(), inputs=",\n    ".join(map(made_like, inputs)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        return None
    return path


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
