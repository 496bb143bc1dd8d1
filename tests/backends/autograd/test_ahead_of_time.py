"""Graphs that run as they were captured say why."""

from __future__ import annotations

import framejit
import pytest
import torch


def data_of_an_input(x):
    return x.sin(), x.data


def leaf_of_a_detached_tensor(x):
    y = x.sin()
    return y * y.detach().requires_grad_()


def two_grad_modes(x):
    with torch.no_grad():
        before = x.sin()
    inside = before * x
    with torch.no_grad():
        return before + inside.cos(), inside * 2


REASONS = {
    data_of_an_input: "it returns the `.data` of an input",
    leaf_of_a_detached_tensor: "it makes a leaf of what it detaches",
}


@pytest.mark.parametrize("function", REASONS, ids=lambda function: function.__name__)
def test_the_reason_is_noted(function):
    compiled = framejit.compile(function, backend="native")
    compiled(torch.ones(3, requires_grad=True))
    notes = [note.text for note in compiled.framejit.explain().notes]
    assert f"runs torch's operators: {REASONS[function]}" in notes


def test_compiled_graphs_note_none():
    compiled = framejit.compile(two_grad_modes, backend="native")
    compiled(torch.ones(3, requires_grad=True))
    notes = [note.text for note in compiled.framejit.explain().notes]
    assert notes and not any("runs torch's operators" in note for note in notes)
