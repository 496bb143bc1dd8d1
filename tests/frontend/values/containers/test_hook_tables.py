"""Hooks of modules are guarded by their number and what they do, not by the ids of their
registration."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch import nn

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def double_input(module, args):
    return (args[0] * 2,)


def shift_input(module, args, kwargs):
    return (args[0] - 1,), kwargs


def add_one(module, args, result):
    return result + 1


def triple(module, args, result):
    return result * 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()

    def forward(self, x):
        return self.act(x) * 2


def compiled_call():
    """A new function that calls a module, compiled."""

    def call(module, x):
        return module(x)

    return framejit.compile(call, backend="eager")


def test_modules_with_equal_hooks_share_an_entry():
    blocks = [Block() for _ in range(5)]
    for block in blocks:
        block.act.register_forward_pre_hook(double_input)
        block.act.register_forward_pre_hook(shift_input, with_kwargs=True)
        block.act.register_forward_hook(add_one)
    call = compiled_call()
    for block in blocks:
        torch.testing.assert_close(call(block, X), block(X), rtol=0, atol=0)
    assert call.framejit.compiles == 1


def test_a_hook_registered_before_each_call():
    block, call = Block(), compiled_call()
    for _ in range(6):
        handle = block.act.register_forward_hook(add_one)
        torch.testing.assert_close(call(block, X), block(X), rtol=0, atol=0)
        handle.remove()
    assert call.framejit.compiles == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda act: act.register_forward_hook(triple),
        lambda act: act.register_forward_hook(add_one),
        lambda act: act.register_forward_hook(triple, prepend=True),
        lambda act: act.register_forward_pre_hook(double_input),
        lambda act: act._forward_hooks.clear(),
        lambda act: act._forward_hooks.update(dict.fromkeys(act._forward_hooks, triple)),
        lambda act: act._forward_pre_hooks_with_kwargs.clear(),
    ],
    ids="another equal first before removed replaced without_kwargs".split(),
)
def test_changed_hooks_are_seen(change):
    block, call = Block(), compiled_call()
    block.act.register_forward_hook(add_one)
    block.act.register_forward_pre_hook(shift_input, with_kwargs=True)
    call(block, X)
    change(block.act)
    try:
        expected = block(X)
    except TypeError:  # a hook that takes keyword arguments is called without
        with pytest.raises(TypeError):
            call(block, X)
    else:
        torch.testing.assert_close(call(block, X), expected, rtol=0, atol=0)


def test_an_always_called_hook():
    block, call = Block(), compiled_call()
    for _ in range(3):
        handle = block.act.register_forward_hook(triple, always_call=True)
        torch.testing.assert_close(call(block, X), block(X), rtol=0, atol=0)
        handle.remove()


def test_hooks_registered_while_the_frame_runs():
    block = Block()
    block.act.register_forward_hook(add_one)

    def call(module, x):
        handle = module.act.register_forward_hook(triple)
        result = module(x)
        handle.remove()
        return result, len(module.act._forward_hooks)

    compiled = framejit.compile(call, backend="eager")
    for _ in range(3):
        result, count = compiled(block, X)
        torch.testing.assert_close(result, call(block, X)[0], rtol=0, atol=0)
        assert count == 1


def test_backward_hooks_of_other_modules():
    gradients = []

    def keep(module, grad_input, grad_output):
        gradients.append(grad_output[0].sum())

    blocks, call = [Block() for _ in range(4)], compiled_call()
    for block in blocks:
        block.act.register_full_backward_hook(keep)
        x = X.clone().requires_grad_()
        call(block, x).sum().backward()
        block(x).sum().backward()
        assert gradients[-1] == gradients[-2]
    assert len(gradients) == 8
