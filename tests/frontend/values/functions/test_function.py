"""Attributes of functions."""

from __future__ import annotations

import functools

import pytest

from ...semantics.harness import PYTHON, check, vec


@pytest.mark.skipif(PYTHON < (3, 12), reason="the syntax of generic functions")
def test_type_parameters_are_copied():
    names: dict = {}
    exec("def generic[T](a: int): pass", names)
    generic = names["generic"]

    def f(x):
        def wrapper(b):
            pass

        functools.update_wrapper(wrapper, generic)
        return (
            x + 1,
            wrapper.__type_params__ == generic.__type_params__,
            len(wrapper.__type_params__),
        )

    check(f, vec(2), graphs=None, breaks=None)
