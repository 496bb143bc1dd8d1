"""Results of operators on operands with symbols, found with static tensors."""

from __future__ import annotations

import logging

import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext


def test_a_symbol_that_is_known_to_be_a_number_fits_an_operand_of_that_size(monkeypatch):
    """torch would log an error of the operator on the static tensors, for the user to read."""
    logged = []
    monkeypatch.setattr(logging.Logger, "exception", lambda *args: logged.append(args))
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes = ShapeEnv(), False
    context = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC] * 2, constraint_sizes=[None] * 2
    )
    x = mode.from_tensor(torch.ones(5, 6), static_shapes=False, symbolic_context=context)
    row = mode.from_tensor(torch.ones(6), static_shapes=True)
    with mode:
        assert x.shape[1] == 6
        angles = torch.atan2(x, row)
    assert angles.shape == x.shape
    assert not logged
