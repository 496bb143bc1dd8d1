"""pickle.dumps() of options, as the keys of a cache of methods."""

from __future__ import annotations

import pickle

import framejit
import pytest
import torch


def keyed(x, **options):
    key = pickle.dumps(options)
    return x + len(key), key


@pytest.mark.parametrize(
    "options", [{}, {"upper": True}, {"a": 1, "b": None, "c": 2.5}], ids=["none", "one", "three"]
)
def test_options_of_numbers(options):
    handle = framejit.compile(keyed, backend="eager", fullgraph=True)
    assert handle(torch.ones(2), **options)[1] == keyed(torch.ones(2), **options)[1]


def test_other_objects_are_left_to_python():
    handle = framejit.compile(keyed, backend="eager")
    name = "".join(["a", "b"])
    options = {"first": name, "second": name}
    assert handle(torch.ones(2), **options)[1] == keyed(torch.ones(2), **options)[1]
    assert len(handle.framejit.explain().breaks) == 1
