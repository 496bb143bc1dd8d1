"""Sizes that vary stay open in operators whose implementation in C++ would fix them."""

from __future__ import annotations

import contextlib
import logging

import framejit
import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from framejit.frontend.tracing.fake_tensors.size_fixing import NAMES, PREFIX
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from ... import sweep_slice
from . import sweep

FUNCTIONS = {
    "pad": lambda x: F.pad(x, (0, 1), value=-1.0),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2.0),
    "interpolate to a size": lambda x: F.interpolate(x[None, None], size=(8, 8), mode="bilinear"),
    "upsample": lambda x: torch.nn.Upsample(scale_factor=2)(x[None, None]),
    "unfold": lambda x: F.unfold(x[None, None], 3),
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "stft": lambda x: torch.stft(x, 8, window=torch.ones(8), return_complex=True).abs(),
    "local_response_norm": lambda x: F.local_response_norm(x[None], 2),
    "polar": lambda x: torch.polar(x, x).real,
    "batched product": lambda x: x[:, :3, None].expand(-1, -1, 2) @ x[:, None].expand(-1, 2, -1),
    "linear without bias": lambda x: F.linear(x.mT[None], torch.ones(3, 4)),
    "torch.matmul": lambda x: torch.matmul(x[None].mT, x[None]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_compiles_serve_each_size(name, backend):
    function = FUNCTIONS[name]
    handle = framejit.compile(function, backend=backend)
    for length in (12, 14, 17, 20):
        x = torch.rand(4, length)
        torch.testing.assert_close(handle(x), function(x))
    report = handle.framejit.explain()
    assert len(report.captures) == 2 and not report.breaks


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("layer", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
def test_recurrent_layers_leave_the_batch_open(layer, batch_first, backend):
    torch.manual_seed(0)
    model = layer(3, 5, bidirectional=True, batch_first=batch_first)
    handle = framejit.compile(model.forward, backend=backend)
    for count in (2, 4, 3, 6):
        x = torch.randn(count, 7, 3) if batch_first else torch.randn(7, count, 3)
        outcomes = []
        for call in (handle, model.forward):
            model.zero_grad()
            given = x.clone().requires_grad_()
            output, state = call(given)
            (output.sin().sum() + pytree.tree_leaves(state)[0].square().sum()).backward()
            results = (output, *pytree.tree_leaves(state), given.grad)
            outcomes.append((*results, *(weight.grad for weight in model.parameters())))
        for mine, its in zip(*outcomes, strict=True):
            torch.testing.assert_close(mine, its)
            assert mine.stride() == its.stride()
    assert len(handle.framejit.explain().captures) == 2


def test_causal_language_modelling_loss():
    def loss(logits, labels):
        labels = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return F.cross_entropy(logits.view(-1, 8), labels.view(-1), ignore_index=-100)

    handle = framejit.compile(loss, backend="eager")
    for length in (12, 14, 16, 18):
        logits, labels = torch.randn(4, length, 8), torch.randint(0, 8, (4, length))
        assert torch.equal(handle(logits, labels), loss(logits, labels))
    assert len(handle.framejit.explain().captures) == 2


def fixed(op, sample, dispatcher):
    """How many of the sizes of a sample's tensors a fake run fixes; None where it refuses."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_fallback_kernels=False)

    def fake(item):
        if not isinstance(item, torch.Tensor) or item.layout is not torch.strided:
            return item
        return mode.from_tensor(
            item.detach(),
            symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * item.dim()),
        )

    first, args, kwargs = pytree.tree_map(fake, (sample.input, sample.args, sample.kwargs))
    try:
        with mode, dispatcher:
            op(first, *args, **kwargs)
    except Exception:
        return None
    return sum(value.is_Integer for value in mode.shape_env.replacements.values())


def test_the_names_are_those_that_the_python_dispatcher_helps():
    missing = set()
    logging.disable(logging.CRITICAL)
    try:
        for op in sweep_slice.one_of(10, sweep.op_db):
            sample = (
                next(iter(op.sample_inputs("cpu", torch.float32)), None)
                if torch.float32 in op.dtypes
                else None
            )
            plainly = None if sample is None else fixed(op, sample, contextlib.nullcontext())
            if plainly and (fixed(op, sample, enable_python_dispatcher()) or 0) < plainly:
                missing.add(op.name.removeprefix("nn.functional.").replace("fft.", PREFIX))
    finally:
        logging.disable(logging.NOTSET)
    assert {name for name in missing if not name.startswith(PREFIX)} <= NAMES
