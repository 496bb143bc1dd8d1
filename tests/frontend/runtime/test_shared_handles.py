"""Modules of one structure, compiled one by one, share what is compiled for them; others do not."""

from __future__ import annotations

import gc

import framejit
import pytest
import torch
from framejit.frontend.api import make_options
from framejit.frontend.runtime.shared_handles import SharedHandles, shared_handles, structure_of
from torch import nn


class Block(nn.Module):
    def __init__(self, width=8, number=0):
        super().__init__()
        self.norm, self.linear, self.number = nn.LayerNorm(width), nn.Linear(width, width), number

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu() * (self.number + 1)


def compiled(blocks, **options):
    for block in blocks:
        framejit.compile(block, **{"backend": "eager"} | options)
    return list(blocks)


def check(blocks, x):
    """The values and gradients of the blocks in a row are eager's."""
    results = []
    for call in (lambda block, x: block(x), lambda block, x: type(block).forward(block, x)):
        y = x
        for block in blocks:
            block.zero_grad()
            y = call(block, y)
        y.sum().backward()
        results.append(
            [y.detach()] + [p.grad.clone() for block in blocks for p in block.parameters()]
        )
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "autotune"])
def test_blocks_of_one_structure_are_compiled_once(backend):
    blocks = compiled([Block() for _ in range(6)], backend=backend)
    with torch.no_grad():
        for block in blocks:
            x = torch.randn(3, 8)
            torch.testing.assert_close(block(x), Block.forward(block, x))
    assert [block.framejit.compiles for block in blocks] == [1] * 6
    assert "serves several modules of one structure" in str(blocks[5].framejit.explain())


def test_gradients_are_each_modules_own():
    blocks = compiled([Block() for _ in range(4)])
    for _ in range(2):
        check(blocks, torch.randn(3, 8, requires_grad=True))
    assert blocks[0].framejit.compiles == 1


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(lambda: [Block(16)], id="sizes"),
        pytest.param(lambda: [Block(number=1)], id="a number"),
        pytest.param(lambda: [Block().eval()], id="mode"),
        pytest.param(lambda: [Block().double()], id="dtype"),
        pytest.param(lambda: [Block().requires_grad_(False)], id="without gradients"),
        pytest.param(lambda: [type("Other", (Block,), {})()], id="class"),
    ],
)
def test_other_modules_have_code_of_their_own(others):
    first, other = Block(), others()[0]
    compiled([first, other])
    width = other.linear.in_features
    first(torch.randn(3, 8))
    x = torch.randn(3, width, dtype=other.linear.weight.dtype)
    assert torch.equal(other(x), type(other).forward(other, x))
    assert first.framejit.compiles == other.framejit.compiles == 1
    assert "several modules" not in str(other.framejit.explain())


@pytest.mark.parametrize("options", [{"backend": "aot_eager"}, {"dynamic": True}, {"verify": 1}])
def test_other_options_have_code_of_their_own(options):
    first, other = Block(), Block()
    compiled([first])
    compiled([other], **options)
    first(torch.randn(3, 8))
    assert (first.framejit.compiles, other.framejit.compiles) == (1, 0)


def test_an_edit_of_one_module_leaves_the_others_alone():
    blocks = compiled([Block() for _ in range(3)])
    x = torch.randn(3, 8)
    before = [block(x) for block in blocks]
    blocks[1].number = 4
    blocks[2].linear = nn.Identity()
    assert torch.equal(blocks[0](x), before[0])
    for block in blocks[1:]:
        assert torch.equal(block(x), Block.forward(block, x))


def test_hooks_of_one_module_run_for_it_alone():
    blocks, seen = compiled([Block() for _ in range(3)]), []
    blocks[1].register_forward_hook(lambda module, args, result: seen.append(module))
    x = torch.randn(3, 8)
    for block in blocks:
        block(x)
    assert seen == [blocks[1]]


def test_a_copy_is_compiled_with_the_first():
    first = Block()
    compiled([first])
    first(torch.randn(3, 8))
    other = Block()
    other.load_state_dict(first.state_dict())
    compiled([other])
    other(torch.randn(3, 8))
    assert other.framejit.compiles == 1


def test_a_module_that_is_compiled_again_starts_anew():
    first = Block()
    for _ in range(2):
        compiled([first])
        first(torch.randn(3, 8))
        assert first.framejit.compiles == 1


def test_nothing_is_kept_when_the_modules_go():
    blocks = compiled([Block(32) for _ in range(3)])
    blocks[0](torch.randn(3, 32))
    key = Block.forward, structure_of(blocks[0])
    (shared,) = shared_handles._handles[key]
    blocks.pop()
    assert shared.in_use
    blocks.clear()
    assert not shared.in_use
    compiled([Block(33)])
    assert key not in shared_handles._handles
    gc.collect()
    assert shared.cache() is None


def test_a_module_without_sizes_yet_is_not_shared():
    options = make_options(None, None, False, None, None)
    made = [SharedHandles().handle(nn.LazyLinear(3), None, options, lambda *given: given)]
    assert made == [(None, options)]
