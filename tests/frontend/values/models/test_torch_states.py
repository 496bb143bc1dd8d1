"""What code asks torch about the way in which it runs."""

import framejit
import pytest
import torch

from ...semantics.harness import check, strict_compile


@pytest.mark.parametrize("state", [
    lambda: torch.onnx.is_in_onnx_export(),
    lambda: torch.jit.is_tracing(),
    lambda: torch._C._are_functorch_transforms_active(),
], ids=["onnx export", "jit tracing", "functorch"])  # fmt: skip
def test_a_state_of_torch_breaks_no_graph(state):
    check(lambda x: x.exp() if state() else x.sin() + 1, torch.ones(2))


def test_transforms_are_those_around_the_code():
    def f(x):
        return x.sin() if torch._C._are_functorch_transforms_active() else x * 3

    handle = framejit.compile(f, backend="eager")
    x = torch.ones(2)
    for around in (lambda f: f, torch.vmap, lambda f: f, lambda f: torch.func.jacrev(f)):
        torch.testing.assert_close(around(handle)(x), around(f)(x))
    inside = strict_compile(lambda x: (torch.vmap(f)(x), f(x)), backend="eager")
    torch.testing.assert_close(inside(x), (x.sin(), x * 3))
    assert not inside.framejit.explain().breaks
