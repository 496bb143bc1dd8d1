"""Graphs of many equal blocks: the program that is made of a few of them is the one that all of
them are lowered to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import framejit
import pytest
import torch
from framejit.backends.native import backend, repeated_steps
from framejit.backends.native.fuse.fuse import fuse
from framejit.backends.native.ir.ir import Bound, Call, Program
from framejit.backends.native.lower.build import lower
from framejit.backends.native.lower.repeated_blocks import find_repeated_blocks
from torch import nn
from torch.nn import functional as F

BLOCKS = 10


class Attention(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int = 8, heads: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = query @ key.transpose(-2, -1)
        if mask is not None:
            weights = weights + mask
        y = (weights.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + F.dropout(self.out(y), self.dropout, self.training)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Stack(nn.Module):
    """Blocks one after the other. run: how `forward` calls them."""

    def __init__(self, blocks: list[nn.Module], run: Callable[..., Any]) -> None:
        super().__init__()
        self.blocks, self.run = nn.ModuleList(blocks), run
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


def in_turn(stack: Stack, x: torch.Tensor) -> Any:
    for block in stack.blocks:
        x = block(x)
    return stack.head(x)


def with_mask(stack: Stack, x: torch.Tensor) -> Any:
    mask = torch.full((x.shape[1], x.shape[1]), -1e4).triu(1)
    for block in stack.blocks:
        x = block(x, mask)
    return stack.head(x)


def with_all_states(stack: Stack, x: torch.Tensor) -> Any:
    states = []
    for block in stack.blocks:
        x = block(x)
        states.append(x)
    return stack.head(x), *states


def with_sum_of_states(stack: Stack, x: torch.Tensor) -> Any:
    total = torch.zeros_like(x)
    for block in stack.blocks:
        x = block(x)
        total = total + x.sin()
    return total


def with_stack_of_states(stack: Stack, x: torch.Tensor) -> Any:
    states = []
    for block in stack.blocks:
        x = block(x)
        states.append(x)
    return torch.stack(states).sum(0)


def with_first_weight(stack: Stack, x: torch.Tensor) -> Any:
    for block in stack.blocks:
        x = block(x)
    return x @ stack.blocks[2].out.weight, x @ stack.blocks[-1].out.weight


def with_constants(stack: Stack, x: torch.Tensor) -> Any:
    x = x * torch.tensor([1.0, 2.0] * 4)
    for block in stack.blocks:
        x = block(x)
    return x + torch.tensor([3.0, 4.0] * 4)


def with_tied_weight(stack: Stack, x: torch.Tensor) -> Any:
    """One more layer with the weight of the layer before the blocks."""
    tied = stack.blocks[0][0]
    x = tied(x).sin()
    for block in stack.blocks[1:]:
        x = block(x)
    return tied(x).cos()


def with_same_results(stack: Stack, x: torch.Tensor) -> Any:
    states = []
    for block in stack.blocks:
        x = block(x)
        states += [x, x.view_as(x)]
    return stack.head(x), *states


def with_next_weight(stack: Stack, x: torch.Tensor) -> Any:
    weights = [block.weight for block in stack.blocks]
    for one, other in zip(weights, weights[1:], strict=False):
        x = (x @ one).tanh() @ other
    return x


def transformer(run: Callable[..., Any] = in_turn, dropout: float = 0.0) -> nn.Module:
    return Stack([Attention(dropout=dropout) for _ in range(BLOCKS)], run)


def linears(run: Callable[..., Any] = in_turn) -> nn.Module:
    return Stack([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(BLOCKS)], run)


def of_one_weight() -> nn.Module:
    return Stack([nn.Sequential(nn.Linear(8, 8), nn.Tanh())] * BLOCKS, in_turn)


def of_two_weights() -> nn.Module:
    two = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)]
    return Stack(two * (BLOCKS // 2), in_turn)


def of_changing_widths() -> nn.Module:
    widths = [8, *range(9, 9 + BLOCKS - 2), 8]
    pairs = zip(widths, widths[1:], strict=False)
    return Stack([nn.Sequential(nn.Linear(*pair), nn.Tanh()) for pair in pairs], in_turn)


# by name: the model, and whether its blocks are lowered once: in inference, and in
# training forward and backward, where that has graphs of its own
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[bool, ...]]] = {
    "transformer": (transformer, (True, True, True)),
    "mask": (lambda: transformer(with_mask), (True, True, True)),
    "dropout": (lambda: transformer(dropout=0.3), (True, True, True)),
    "all states": (lambda: transformer(with_all_states), (True, False, True)),
    "sum of states": (lambda: transformer(with_sum_of_states), (False, False, True)),
    "stack of states": (lambda: transformer(with_stack_of_states), (False, False, False)),
    "weights used again": (lambda: transformer(with_first_weight), (False, True, True)),
    "constants": (lambda: transformer(with_constants), (True, True, True)),
    "tied weight": (lambda: linears(with_tied_weight), (True, True, True)),
    "same results": (lambda: linears(with_same_results), (True,)),
    "linears": (linears, (True, True, True)),
    "next weight": (
        lambda: Stack([nn.Linear(8, 8) for _ in range(BLOCKS + 2)], with_next_weight),
        (True, True, True),
    ),
    "one weight": (of_one_weight, (True, True, False)),
    "two weights": (of_two_weights, (False, False, False)),
    "changing widths": (of_changing_widths, (False, False, False)),
}


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that the backend lowers."""
    seen: list[Any] = []

    def lower_and_fuse(gm: Any, devices: Any) -> Any:
        seen.append(gm)
        return repeated_steps.lower_and_fuse(gm, devices)

    monkeypatch.setattr(backend, "lower_and_fuse", lower_and_fuse)
    yield seen
    framejit.reset()


def as_text(program: Program) -> list[str]:
    lines = [
        f"{step.kernel}"
        if isinstance(step, Bound)
        else f"{step.function} {step.args} {step.kwargs} {step.results} {step.single} {step.effect}"
        for step in program.steps
        if isinstance(step, (Bound, Call))
    ]
    names = {name for step in program.steps for name in (*step.read, *written(step))}
    buffers = sorted(str(program.buffers[name]) for name in names)
    rest = program.outputs, program.writes, program.sizes, sorted(program.constants)
    return [*program.inputs, *lines, str(rest), *buffers]


def written(step: Any) -> list[str]:
    names = step.stored_names if isinstance(step, Bound) else step.results
    return [name for name in names if name]


def is_repeated(gm: Any) -> bool:
    found = find_repeated_blocks(gm)
    if found is None:
        return False
    short, _ = fuse(lower(found.short, ("cpu",)))
    return repeated_steps.Repetition(found, short).is_steady()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_the_program_is_that_of_all_blocks(name: str, trains: bool, graphs: list[Any]) -> None:
    make, repeats = MODELS[name]
    torch.manual_seed(0)
    model = make()
    x = torch.randn(2, 4, 8)
    results = []
    for run in (model, framejit.compile(model, backend="native")):
        torch.manual_seed(1)
        with torch.set_grad_enabled(trains):
            outputs = run(x)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        gradients: Any = ()
        if trains:
            loss = sum(one.square().sum() for one in outputs)
            gradients = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
        results.append((*outputs, *gradients))
        model = run
    torch.testing.assert_close(results[1], results[0])
    assert [is_repeated(gm) for gm in graphs] == list(repeats[1:] if trains else repeats[:1])
    for gm in graphs:
        whole, reasons = repeated_steps.lower_and_fuse(gm, ("cpu",))
        expected, expected_reasons = fuse(lower(gm, ("cpu",)))
        assert as_text(whole) == as_text(expected)
        assert reasons == expected_reasons


def test_blocks_in_the_middle_are_not_lowered(
    graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[int] = []

    def count(gm: Any, devices: Any) -> Program:
        lowered.append(len(gm.graph.nodes))
        return lower(gm, devices)

    monkeypatch.setattr(repeated_steps, "lower", count)
    for blocks in (12, 24):
        model = Stack([Attention() for _ in range(blocks)], in_turn)
        with torch.no_grad():
            framejit.compile(model, backend="native")(torch.randn(2, 4, 8))
    assert lowered[0] == lowered[1]
