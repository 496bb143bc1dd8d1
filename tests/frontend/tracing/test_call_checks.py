"""Calls that a graph does not take are breaks, with the reason."""

from __future__ import annotations

import framejit
import numpy as np
import pytest
import torch
import torch.ao.quantization as quantization

GRU = torch.nn.GRU(4, 4, batch_first=True)


def numpy_data(x):
    return x + torch.asarray([np.float64(2.5), 1.0]).sum()


def one_length_of_a_recurrence(x):
    return GRU(x)[0].sin()


CASES = {
    "data of a tensor": (numpy_data, [torch.ones(3)], "a numpy number as data of asarray"),
    "lengths": (
        one_length_of_a_recurrence,
        [torch.ones(2, n, 4) for n in (3, 5, 6)],
        "a length that varies, in gru",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_breaks(name):
    function, inputs, reason = CASES[name]
    compiled = framejit.compile(function, backend="eager")
    with torch.no_grad():
        for x in inputs:
            state = torch.get_rng_state()
            expected = function(x)
            torch.set_rng_state(state)
            torch.testing.assert_close(compiled(x), expected)
    assert any(reason in broken.reason for broken in compiled.framejit.explain().breaks)
    assert compiled.framejit.explain().graphs


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_the_first_call_of_an_observer_per_channel_resizes_its_buffers(backend):
    def model():
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 3)
        layer.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        return quantization.prepare_qat(torch.nn.Sequential(layer).train())

    expected, module = model(), model()
    compiled = framejit.compile(module, backend=backend)
    for _ in range(3):
        x = torch.randn(5, 4)
        for one, run in ((expected, expected), (module, compiled)):
            one.zero_grad()
            run(x).square().sum().backward()
        torch.testing.assert_close(module.state_dict(), expected.state_dict())
        torch.testing.assert_close(module[0].weight.grad, expected[0].weight.grad)
    explanation = compiled.framejit.explain()
    assert any("sizes of an observer" in broken.reason for broken in explanation.breaks)


ABSOLUTE = {
    "a function": lambda x: torch.as_strided(x, (2, 2), (1, 1), 3) + 1,
    "a method, by name": lambda x: x.as_strided((2, 2), (1, 1), storage_offset=3) + 1,
    "of a view": lambda x: x[1:].as_strided((2, 2), (1, 1), 3) + 1,
    "scattered": lambda x: torch.as_strided_scatter(x, torch.ones(2), (2,), (1,), 3) + 1,
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ABSOLUTE)
def test_offsets_count_from_the_start_of_the_storage(name, dynamic, backend):
    compiled = framejit.compile(ABSOLUTE[name], backend=backend, dynamic=dynamic)
    rows = torch.arange(120.0).reshape(6, 4, 5)
    for x in (rows[0], rows[2], rows[5], torch.arange(20.0, 40.0).reshape(4, 5)):
        torch.testing.assert_close(compiled(x), ABSOLUTE[name](x))
    assert not compiled.framejit.explain().breaks
