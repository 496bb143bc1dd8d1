"""Candidates that tests register for a while, and settings of torch."""

from __future__ import annotations

import framejit
import pytest
from framejit.backends.graph.product_precision import INHERITED, SETTER
from framejit.events import Chosen


@pytest.fixture
def tuned(cache_dir):
    """Compiles with candidates and gives the compiled function and how its choices were told."""

    def compile_with(function, *candidates, **options):
        # a budget that ends nothing on a busy machine
        compiled = framejit.compile(
            function,
            backend="autotune",
            options={"candidates": candidates, "tune_budget_s": 30.0, **options},
        )
        return compiled, lambda: [
            event for event in compiled.framejit.history.events if isinstance(event, Chosen)
        ]

    return compile_with


@pytest.fixture
def rounded_convolutions():
    """Convolutions on the CPU may round their operands, as on a GPU by default."""
    SETTER("mkldnn", "conv", "bf16")
    yield
    SETTER("mkldnn", "conv", INHERITED)
