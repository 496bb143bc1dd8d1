"""The frames being interpreted, and the positions at which they can be left."""

import framejit
import torch


def test_a_break_inside_vmap_in_a_frame_that_goes_on_after_a_break():
    rows = []

    def inner(x):
        y = x.sin()
        rows.append("a break")
        print(end="")
        return torch.vmap(lambda row: (print(end=""), row * 2)[1])(y) + 1

    def outer(x):
        return inner(x) * 2

    compiled = framejit.compile(outer, backend="eager")
    x = torch.rand(3, 4)
    for _ in range(3):
        assert torch.equal(compiled(x), outer(x))
    assert rows == ["a break"] * 6
    assert len(compiled.framejit.explain().breaks) == 2
