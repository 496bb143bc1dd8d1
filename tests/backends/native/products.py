"""Functions whose matrix product and what follows become one kernel, as programs with the memory
that they run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from framejit.backends.native.decompositions import decompositions
from framejit.backends.native.fuse.fuse import fuse
from framejit.backends.native.fuse.products import JoinCandidate, find_joinable
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.program import Kernel, Program
from framejit.backends.native.lower.build import lower
from framejit.backends.native.printers.products import Blocks
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

FLOAT, HALF, BRAIN = torch.float32, torch.float16, torch.bfloat16


@dataclass(frozen=True)
class Case:
    """A function of tensors of these shapes; the shapes' order of dimensions is that in memory."""

    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = FLOAT

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        return [torch.randn(shape, generator=generator).to(self.dtype) for shape in self.shapes]


def linear(x, w, b):
    return F.gelu(F.linear(x, w, b))


def residual(x, w, b, y):
    return F.linear(x, w, b) + y


def heads(x, w, b):
    return F.linear(x, w, b).view(2, 9, 4, 5).permute(0, 2, 1, 3) * 0.5


def weighted(b, x, w):
    return torch.sigmoid(torch.addmm(b, x, w, beta=0.5, alpha=2))


def rows_and_columns(x, w, r, c):
    return (x @ w) * r[:, None] + c


JOINED = {
    "a number": Case(lambda x, w: (x @ w) * 3, ((33, 20), (20, 18))),
    "gelu of a linear": Case(linear, ((2, 9, 40), (20, 40), (20,))),
    "a residual": Case(residual, ((33, 32), (48, 32), (48,), (33, 48)), BRAIN),
    "a cast": Case(lambda x, w: (x @ w).float() + 1, ((17, 64), (64, 16)), HALF),
    "split into heads": Case(heads, ((2, 9, 16), (20, 16), (20,))),
    "weighted sum": Case(weighted, ((7,), (5, 70), (70, 7))),
    "a matrix added": Case(
        lambda y, x, w: torch.addmm(y, x, w).relu(), ((65, 3), (65, 16), (16, 3)), BRAIN
    ),
    "batches": Case(lambda x, y: torch.bmm(x, y).tanh(), ((3, 20, 17), (3, 17, 33))),
    "batches and a matrix": Case(
        lambda z, x, y: torch.baddbmm(z, x, y) * 2, ((3, 1, 33), (3, 20, 17), (3, 17, 33)), HALF
    ),
    "batches, turned": Case(
        lambda x, y: (x.transpose(1, 2) @ y.transpose(1, 2)).exp(), ((2, 20, 17), (2, 33, 20))
    ),
    "a row and a column": Case(rows_and_columns, ((130, 48), (48, 200), (130,), (200,))),
    "written turned": Case(lambda x, w: (x @ w).t().contiguous() + 1, ((40, 16), (16, 24))),
    "part of a matrix": Case(lambda x, w: (x[3:, 2:18] @ w).relu(), ((20, 24), (16, 16))),
    "whole blocks": Case(lambda x, w: (x @ w).cos(), ((64, 48), (48, 32))),
    "tall": Case(lambda x, w: (x @ w).neg(), ((200, 1), (1, 1))),
    "a lone element": Case(lambda x, w: (x @ w).neg(), ((1, 300), (300, 1))),
    "a square": Case(lambda x: (x @ x).abs(), ((24, 24),)),
    "read twice": Case(lambda x, w: (lambda y: torch.sigmoid(y) * y)(x @ w), ((24, 24), (24, 24))),
}
LEFT = {
    "also a result": Case(lambda x, w: (lambda y: (y, y.relu()))(x @ w), ((4, 5), (5, 6))),
    "a part is read": Case(lambda x, w: (x @ w)[1:].relu(), ((4, 5), (5, 6))),
    "a sum": Case(lambda x, w: torch.softmax(x @ w, -1), ((4, 5), (5, 6))),
    "a sum behind": Case(lambda x, w: (x @ w).exp().sum(0), ((4, 5), (5, 6))),
    "integers": Case(lambda x, w: (x @ w) * 2, ((4, 5), (5, 6)), torch.int64),
    "doubles": Case(lambda x, w: (x @ w) * 2, ((4, 5), (5, 6)), torch.float64),
    "no depth": Case(lambda x, w: (x @ w) + 1, ((4, 0), (0, 6))),
    "spread out": Case(lambda x, w: (x @ w) + torch.ones(3, 4, 6), ((4, 5), (5, 6))),
}
BLOCKS = Blocks(32, 16, 16, 4, 1)


@lru_cache
def program(case: Case) -> Program:
    """Fused and simplified, as for the GPU."""
    with torch.no_grad(), FakeTensorMode() as mode, enable_python_dispatcher():
        fakes = [mode.from_tensor(tensor) for tensor in case.inputs()]

        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = case.function(*tensors)
            return found if isinstance(found, tuple) else (found,)

        gm = make_fx(
            functionalize(run, remove="mutations"), decomposition_table=dict(decompositions())
        )(*fakes)
    made, _ = fuse(lower(gm))
    made.write_out()
    made.steps = [simplify(step) if isinstance(step, Kernel) else step for step in made.steps]
    return made


def found(case: Case) -> list[JoinCandidate]:
    return list(find_joinable(program(case), ("cpu",)))


def memory(case: Case) -> dict[str, torch.Tensor]:
    """The inputs and the output, flat, by name of a buffer."""
    made = program(case)
    given = {
        name: tensor.flatten() for name, tensor in zip(made.inputs, case.inputs(), strict=True)
    }
    (output,) = made.outputs
    size = case.function(*case.inputs()).numel()
    return given | {output.buffer: torch.zeros(size, dtype=output.dtype)}


def result(case: Case, ran: dict[str, torch.Tensor]) -> torch.Tensor:
    (output,) = program(case).outputs
    size, stride = (
        [number.value for number in numbers] for numbers in (output.size, output.stride)
    )
    return ran[output.buffer].as_strided(size, stride)


def told_difference(name: str, case: Case, got: torch.Tensor) -> str | None:
    want = case.function(*(tensor.double() for tensor in case.inputs()))
    loose = {FLOAT: 1e-4, HALF: 1e-2, BRAIN: 4e-2}[case.dtype]
    try:
        torch.testing.assert_close(got.double(), want.double(), rtol=loose, atol=loose)
    except AssertionError as error:
        return f"{name}: {error}"
    return None
