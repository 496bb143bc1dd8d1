"""The many ways in which programs spell what they do with a tensor: 850 expressions, compiled against
eager in values, types, dtypes, strides and exceptions."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import math
import operator
import pickle
import random
from pathlib import Path

import framejit
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

FORMS = Path(__file__).with_name("tensor_forms.txt").read_text().splitlines()
NAMES = {
    "collections": collections, "copy": copy, "functools": functools, "itertools": itertools, "math": math, "operator": operator,
    "pickle": pickle, "random": random, "np": np, "torch": torch, "nn": nn, "F": F,
}  # fmt: skip
FUNCTION = """def f(x):
    y = x * 1
    found = {form}
    return found, y + 1
"""


def modules():
    torch.manual_seed(0)
    return {
        "lin": nn.Linear(4, 4), "bn": nn.BatchNorm1d(4), "emb": nn.Embedding(10, 4),
        "mods": nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()}),
        "pl": nn.ParameterList([nn.Parameter(torch.ones(4))]),
    }  # fmt: skip


def outcomes(function, calls=2):
    """What some calls give or raise."""
    found = []
    for seed in range(calls):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        try:
            found.append(function(x))
        except Exception as error:
            found.append(error)
    return found


def same(one, other):
    """Whether two results are the same for a program."""
    if isinstance(other, Exception):
        return type(one) is type(other) and str(one)[:60] == str(other)[:60]
    if type(one) is not type(other) and type(one).__name__ != type(other).__name__:
        return False  # a class made in each call has its name only
    if isinstance(other, torch.Tensor):
        return same_metadata(one, other) and torch.allclose(
            one.to_dense(), other.to_dense(), 1e-5, 1e-6, equal_nan=True
        )
    if isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.allclose(one, other)
    if isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in other)
    if isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(other, float) and math.isfinite(other):
        return abs(one - other) <= 1e-5 * max(1, abs(other))
    return one == other or repr(one) == repr(other)


def same_metadata(one, other):
    def metadata(tensor):
        return tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad

    return metadata(one) == metadata(other)


@pytest.mark.sweep(10)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    names = {**NAMES, **modules()}
    exec(FUNCTION.format(form=form), names)
    expected = outcomes(names["f"])
    for backend in ("eager", "native"):
        names.update(modules())
        found = outcomes(framejit.compile(names["f"], backend=backend))
        assert all(map(same, found, expected)), f"{backend}: {found}, eager: {expected}"
