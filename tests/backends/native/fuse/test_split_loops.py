"""A loop for each operand of a concatenation: equal to eager, and nothing computed in vain."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.fuse import split_loops
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.fuse.split_loops import split_at_bounds
from torch.nn import functional as F

from .. import kernels
from ..evaluate import evaluate

CASES = {  # function, how many loops its first kernel has
    "columns": (lambda a, b: torch.cat([a.sin(), b.cos()], 1) * 2, 2),
    "rows": (lambda a, b: torch.cat([a.sin(), a.cos(), a.exp()]), 3),
    "one of them narrow": (lambda a, b: torch.cat([a[:, :1].sin(), b.cos(), a.exp()], 1), 3),
    "of a concatenation": (
        lambda a, b: torch.cat([torch.cat([a.sin(), b], 1).exp(), b.cos()], 1), 3
    ),
    "padded": (lambda a, b: F.pad(a.sin(), (2, 3)).exp(), 3),
    "waves of positions": (
        lambda a, b: (lambda waves: torch.cat([a, waves.sin(), waves.cos()], 1))(
            (a[:, :, None] * b[0, :4]).flatten(1)
        ), 3
    ),
    "cheap": (lambda a, b: torch.cat([a, b + 1], 1), 1),
    "cheap but long": (lambda a, b: torch.cat([a.flatten(), a.flatten() + 1]), 2),
    "rolled": (lambda a, b: a.flatten().roll(3, 0) * 2, 2),
    "rolled twice": (lambda a, b: a.flatten().roll((3, -5), (0, 0)) * 2, 2),
}  # fmt: skip


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(40, width, generator=generator) for width in (17, 9)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, threads, reports, monkeypatch):
    function, loops = CASES[name]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    given = inputs()
    compiled = framejit.compile(function, backend="native")
    torch.testing.assert_close(compiled(*given), function(*given), check_stride=True)
    (record,) = reports[0].kernels
    assert max(1, record.text.splitlines().count("    {")) == loops, record.text
    assert "?" not in record.text or loops == 1, record.text


def test_what_is_concatenated_is_stored_before_it_is_added_up(reports):
    def f(a, b):
        return torch.cat([a.sin(), b.cos()], 1).sum(1)

    given = inputs()
    torch.testing.assert_close(framejit.compile(f, backend="native")(*given), f(*given))
    assert reports[0].host.count("run(kernel") == 2
    assert "a loop for each of its operands" in str(reports[0].apart)


def test_parts_make_the_whole(monkeypatch):
    """On memory, by the reference interpreter."""
    monkeypatch.setattr(split_loops, "EXPENSIVE", 0)
    split = set()
    for name, case in kernels.all_cases().items():
        kernel = simplify(case.kernel)
        parts = split_at_bounds(kernel)
        if parts:
            want, got = (
                {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
            )
            evaluate(kernel, want, case.sizes)
            for part in parts:
                evaluate(part, got, case.sizes)
            for buffer in want:
                assert kernels.told_difference(name, got[buffer], want[buffer]) is None
            split.add(name)
    assert split == {"masked", "shifted", "channels last"}
