"""Which Python functions are not inlined because of the module that defines them."""

from __future__ import annotations

import logging
import types

import pytest
from framejit.frontend.values.functions.opaque_function import is_opaque
from torch.nn import functional
from torch.utils.data import DataLoader
from tqdm import tqdm


def made_in(module):
    return types.FunctionType(made_in.__code__, {"__name__": module})


@pytest.mark.parametrize(
    "function, expected",
    [
        (tqdm.update, True),
        (tqdm.__iter__, True),
        (DataLoader.__iter__, True),
        (logging.info, True),
        (made_in("matplotlib.pyplot"), True),
        (made_in("wandb.sdk.wandb_run"), True),
        (made_in("tqdmlike"), False),
        (made_in("__main__"), False),
        (made_in(None), False),
        (functional.relu, False),
        (len, False),
        (None, False),
    ],
    ids=lambda case: str(getattr(case, "__module__", case)),
)
def test_functions_by_module(function, expected):
    assert is_opaque(function) is expected
