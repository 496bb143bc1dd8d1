"""Operators without a kernel for the dtype they are given raise eager's error, at their line, on
each backend."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from framejit.frontend.tracing.fake_tensors.refused_dtypes import dtypes_of_trial

from ...semantics.harness import strict_compile

REFUSED = {
    "abs of bool": (torch.abs, torch.bool), "round of bool": (torch.Tensor.round, torch.bool),
    "clamp of bool": (lambda x: x.clamp(x, x), torch.bool), "relu of bool": (F.relu, torch.bool),
    "frac of int": (torch.frac, torch.int64), "silu of int": (F.silu, torch.int64),
    "softmax of int": (lambda x: F.softmax(x, -1), torch.int32), "std of int": (torch.std, torch.int64),
    "log_softmax of int": (lambda x: x.log_softmax(-1), torch.int64), "logsigmoid of int": (F.logsigmoid, torch.int64),
    "hardshrink of int": (F.hardshrink, torch.uint8), "threshold of bool": (lambda x: F.threshold(x, 0, 1), torch.bool),
    "smooth_l1_loss of int": (lambda x: F.smooth_l1_loss(x, x), torch.int64),
    "resized int": (lambda x: F.interpolate(x[None, None], scale_factor=2), torch.int64),
    "mse_loss of complex": (lambda x: F.mse_loss(x, x), torch.complex64), "nansum of complex": (torch.nansum, torch.complex64),
    "dropout of int": (lambda x: F.dropout(x, 0.5, True, True), torch.int64),
    "log_ndtr of half": (torch.special.log_ndtr, torch.float16), "lerp of int": (lambda x: torch.lerp(x, x, x), torch.int64),
    "batch norm of int": (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), torch.int64),
    "max_pool1d of int": (lambda x: F.max_pool1d(x, 2), torch.int32), "cross of bool": (lambda x: torch.linalg.cross(x.T, x.T, dim=1), torch.bool),
    "softmax of int in int": (lambda x: F.softmax(x, -1, dtype=torch.int64), torch.int64),
}  # fmt: skip
TAKEN = {
    "softmax of int in float": (lambda x: F.softmax(x, -1, dtype=torch.float32), torch.int64),
    "abs of int": (torch.abs, torch.int64), "clamp of int": (lambda x: x.clamp(0, 1), torch.int64),
    "relu of int": (F.relu, torch.int32), "nansum of int": (torch.nansum, torch.int64),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("function", "dtype"), REFUSED.values(), ids=REFUSED)
def test_refused(function, dtype, backend):
    def run(x, log):
        log.append(x + x)
        return function(x)

    x, messages, logs = torch.ones(3, 4).to(dtype), [], []
    for fn in (run, strict_compile(run, backend=backend)):
        log = []
        with pytest.raises(Exception) as caught:
            fn(x, log)
        messages.append((type(caught.value), str(caught.value)))
        logs.append(log)
    assert messages[0] == messages[1]
    assert torch.equal(logs[0][0], logs[1][0])


@pytest.mark.parametrize(("function", "dtype"), TAKEN.values(), ids=TAKEN)
def test_taken(function, dtype):
    x = torch.ones(3, 4).to(dtype)
    compiled = strict_compile(lambda x: function(x) + 1, fullgraph=True)
    assert torch.equal(compiled(x), function(x) + 1)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("exponent", [True, False, 1])
def test_a_result_whose_dtype_fakes_get_wrong(backend, exponent):
    def power(x):
        y = x**exponent
        return y, str(y.dtype), y * 2

    x = torch.tensor([True, False])
    expected, found = power(x), strict_compile(power, backend=backend)(x)
    assert found[1] == expected[1]
    for mine, eagers in zip(found[::2], expected[::2], strict=True):
        torch.testing.assert_close(mine, eagers, rtol=0, atol=0)


def test_a_trial_draws_no_numbers_of_the_programs():
    def draw(x, generator):
        return torch.dropout(x, 0.5, True), torch.bernoulli(x, generator=generator)

    def run(function):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0)
        drawn = function(torch.full((9, 9), 0.5, dtype=torch.bfloat16), generator)
        return *drawn, torch.rand(3), torch.rand(3, generator=generator)

    assert all(map(torch.equal, run(strict_compile(draw)), run(draw)))


def test_functions_of_a_higher_order_operator_are_not_called():
    def branch(*args):
        called.append(args)
        return args

    called, x = [], torch.ones(2, dtype=torch.int64)
    args = [lambda *args: not called, branch, (x,), ()]
    assert not dtypes_of_trial("call_function", torch.ops.higher_order.while_loop, args, {})
    assert called == []


def test_positions_in_a_trial_exist():
    """Others would make a GPU unusable for the process."""
    x, positions = torch.ones(1, 5), torch.full((20,), 3)
    args = [x, [None, positions]]
    assert dtypes_of_trial("call_function", torch.ops.aten.index.Tensor, args, {}) == {x.dtype}
    args = [x, [positions, None]]
    assert dtypes_of_trial("call_function", torch.ops.aten.index.Tensor, args, {}) == {x.dtype}


SOBOL = """
import torch, framejit

def points(n):
    engine = torch.quasirandom.SobolEngine(3, scramble=True, seed=5)
    return engine.draw(n) * 2, engine.draw(n, dtype=torch.float64)

compiled = framejit.compile(points, backend="eager")
for n in (4, 5):
    for mine, eagers in zip(compiled(n), points(n), strict=True):
        torch.testing.assert_close(mine, eagers, rtol=0, atol=0)
"""


def test_what_trusts_the_sizes_of_its_operands_is_not_tried_on_others():
    """It would write to memory that is not its operands'."""
    done = subprocess.run([sys.executable, "-c", SOBOL], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
