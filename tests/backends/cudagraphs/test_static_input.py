"""Inputs of any layout are copied into memory of the same strides; the logic runs on the CPU."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.cudagraphs.recording import copy_all
from framejit.backends.cudagraphs.static_input import StaticInput

LAYOUTS = {
    "dense": (lambda base: base.view(4, 6), False), "transposed": (lambda base: base.view(4, 6).t(), False),
    "columns": (lambda base: base.view(4, 6)[:, 1:3], False), "every other": (lambda base: base[1::2], False),
    "expanded": (lambda base: base[3:6].expand(4, 3), True), "one number": (lambda base: base[5].expand(2, 3), True),
    "windows": (lambda base: base.unfold(0, 4, 2), True), "expanded windows": (lambda base: base.unfold(0, 4, 2).expand(2, -1, -1), True),
    "strided": (lambda base: base.as_strided((3, 3), (1, 1), 2), True), "empty": (lambda base: base[:0].expand(3, 0), False),
    "no dimensions": (lambda base: base[7], False),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_input_of_any_layout_is_copied_in(name):
    make, repeats = LAYOUTS[name]
    static_input = StaticInput(make(torch.zeros(24)))
    assert static_input.repeats is repeats
    for start in (0.0, 50.0):  # inputs of two calls
        given = make(torch.arange(start, start + 24))
        copy_all([static_input.once], [static_input.elements(given)])
        assert (
            torch.equal(static_input.tensor, given)
            and static_input.tensor.stride() == given.stride()
        )


@pytest.mark.parametrize("name", [name for name, (_, repeats) in LAYOUTS.items() if not repeats])
def test_what_was_written_is_copied_back_and_nothing_beside_it(name):
    base, expected = torch.zeros(24), torch.zeros(24)
    given, static_input = LAYOUTS[name][0](base), StaticInput(LAYOUTS[name][0](base))
    static_input.once.fill_(3)
    copy_all([given], [static_input.tensor])
    LAYOUTS[name][0](expected).fill_(3)
    assert torch.equal(base, expected)


def test_several_at_once():
    one, other = torch.arange(24.0), torch.arange(24.0) * 2
    given = [one.expand(2, 24), other[::3], one.unfold(0, 3, 1)]
    static_inputs = [StaticInput(item) for item in given]
    copy_all(
        [static_input.once for static_input in static_inputs],
        [
            static_input.elements(item)
            for static_input, item in zip(static_inputs, given, strict=True)
        ],
    )
    assert all(
        torch.equal(static_input.tensor, item)
        for static_input, item in zip(static_inputs, given, strict=True)
    )
