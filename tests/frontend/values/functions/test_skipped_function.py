"""Which Python functions are not inlined, and how few graphs remain around them."""

from __future__ import annotations

import logging
import types

import framejit
import pytest
import torch
from framejit.frontend.values.functions.skipped_function import is_skipped
from framejit.frontend.values.functions.trace_rules import TraceRule, rule_of_function
from torch import nn
from torch.ao.nn import quantized
from torch.ao.quantization import fake_quantize, observer
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
        (fake_quantize.FakeQuantize.forward, False),
        (fake_quantize.FusedMovingAvgObsFakeQuantize.forward, False),
        (quantized.Linear.forward, True),
        (quantized.FloatFunctional.add, False),
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
    assert is_skipped(function) is expected


def test_lazy_modules_break_at_their_initialization_alone():
    def layers():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.LazyConv1d(6, 3, padding=1), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(3)
        )

    expected, module = layers(), layers()
    compiled = framejit.compile(module, backend="eager")
    torch.manual_seed(1)
    wanted = [expected(torch.ones(4, 2, 5).normal_()) for _ in range(3)]
    torch.manual_seed(1)
    torch.testing.assert_close([compiled(torch.ones(4, 2, 5).normal_()) for _ in range(3)], wanted)
    assert type(module[0]) is nn.Conv1d
    torch.testing.assert_close(module.state_dict(), expected.state_dict())
    assert compiled.framejit.compiles <= 6  # 40 where each line of the initialization breaks


def test_fake_quantizers_break_once_for_a_call():
    quantize = fake_quantize.FakeQuantize(observer.MovingAverageMinMaxObserver, 0, 255)
    expected = fake_quantize.FakeQuantize(observer.MovingAverageMinMaxObserver, 0, 255)
    compiled = framejit.compile(lambda x: quantize(x * 2) + 1, backend="eager")
    for batch in (3, 3, 5):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(compiled(x), expected(x * 2) + 1)
    torch.testing.assert_close(quantize.state_dict(), expected.state_dict())
    assert compiled.framejit.compiles <= 4


def test_observers_without_branches_are_captured():
    def observers():
        return nn.Sequential(
            observer.MinMaxObserver(), nn.ReLU(), observer.MovingAverageMinMaxObserver()
        )

    module, expected = observers(), observers()
    compiled = framejit.compile(module, backend="eager")
    for batch in (3, 3, 5, 6):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(compiled(x), expected(x))
    torch.testing.assert_close(module.state_dict(), expected.state_dict())
    [only] = {one.where for one in compiled.framejit.explain().breaks}  # a branch of the second
    assert "observer.py" in only and compiled.framejit.compiles <= 5


def test_tensorboard_is_not_inlined():
    """A scalar of each step writes protocol buffers: it cost 16 compiles."""
    add_scalar = made_in("torch.utils.tensorboard.writer")
    assert rule_of_function(add_scalar) is TraceRule.OUTPUT


BACKENDS = """
class Backend: pass
class First(Backend): pass
class Second(Backend):
    def scale(self, x):
        return x * 2
class Third(Second): pass

known = {}

def backend_of(x):
    if type(x) in known:
        return known[type(x)]
    found = Backend.__subclasses__()
    for cls in found:
        found.extend(cls.__subclasses__())
        if hasattr(cls, "scale"):
            known[type(x)] = cls()
    return known[type(x)]
"""


def test_a_function_that_searches_once_breaks_at_its_call():
    """As einops looks for its backend in the first call of a process."""
    searching = {"__name__": "einops._backends"}
    exec(compile(BACKENDS, "/somewhere/einops/_backends.py", "exec"), searching)
    backend_of = searching["backend_of"]

    def f(x):
        y = x.sin()
        return backend_of(y).scale(y) + 1

    handle = framejit.compile(f, backend="eager")
    for rows in (2, 2, 3, 4):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(handle(x), x.sin() * 2 + 1)
    assert [type(one) for one in searching["known"].values()] == [searching["Third"]]
    assert handle.framejit.compiles == 3  # before the call, after it, then all, for any size
