"""A slice of torch's operator database, compiled against eager. sweep.py runs the whole."""

from __future__ import annotations

import pytest

from . import sweep

EVERY = 24  # how many operators one of the slice stands for
SLICE = [
    (name, setting)
    for name in list(sweep.operators())[::EVERY]
    for setting in ("eager", "aot_eager+grad")
]
# torch.compile(fullgraph=True), counted by the same script with torch 2.13: operators of which each
# sample is one graph.
TORCH_COMPILE = {"eager": (630, 677), "eager+grad": (511, 540)}


@pytest.mark.sweep(2, each=("setting",))
@pytest.mark.parametrize(("name", "setting"), SLICE, ids=lambda value: str(value))
def test_operator(name, setting):
    op = sweep.operators()[name]
    if not sweep.applies(op, setting):
        setting = setting.removesuffix("+grad")
    row = sweep.measure(name, op, setting)
    assert row.difference is None
    assert row.captured or name in sweep.known_open()[setting], row.reason


# Operators whose gradients were laid out otherwise than eager's: the incoming ones are contiguous,
# the results are not, or
# torch has another formula for fake tensors.
@pytest.mark.parametrize("setting", ("native+grad", "aot_eager+grad"))
@pytest.mark.parametrize(
    "name",
    (
        "to",
        "ormqr",
        "rot90",
        "linalg.householder_product",
        "T",
        "movedim",
        "nn.functional.layer_norm",
    ),
)
@pytest.mark.sweep(2)
def test_layout_of_gradients(name, setting):
    assert sweep.measure(name, sweep.operators()[name], setting).difference is None


# Operators whose results, random numbers or gradients differed with inputs that are transposed or
# channels-last.
@pytest.mark.sweep(5, each=("name", "setting", "layout"))
@pytest.mark.parametrize("layout", ("transposed", "channels_last"))
@pytest.mark.parametrize("setting", ("native", "native+grad", "aot_eager+grad"))
@pytest.mark.parametrize("name", (
    "nn.functional.batch_norm", "native_batch_norm", "_batch_norm_with_update", "nn.functional.channel_shuffle",
    "nn.functional.alpha_dropout", "resize_as_", "native_dropout_backward", "prod", "max.reduction_no_dim",
    "nn.functional.pad.replicate_negative", "nn.functional.cross_entropy",
))  # fmt: skip
def test_inputs_of_another_layout(name, setting, layout):
    op = sweep.operators()[name]
    if sweep.applies(op, setting):
        row = sweep.measure(name, op, f"{setting}+{layout}")
        assert row.difference is None and row.captured, row.reason


# Inputs that are wrapper subclasses: those that differed, or were not captured, and a slice.
MENDED = (
    ("nn.functional.batch_norm", "eager+wrapped"), ("nn.functional.channel_shuffle", "native+wrapped"),
    ("to", "native+grad+wrapped"), ("fft.hfft", "native+grad+wrapped"), ("allclose", "eager+sharded"), ("uniform", "eager+sharded"),
    ("cumprod", "native+grad+sharded"), ("permute", "native+grad+wrapped"), ("t", "native+grad+wrapped"),
    ("matmul", "native+grad+sharded"),
    ("linalg.inv", "native+sharded"),
)  # fmt: skip
# What differs by design (docs/distributed.md): a gradient that arrives in another layout than a
# distributed result's takes that layout, and so does what is computed of it.
NOT_AS_EAGER = {("to", f"native+grad+{word}") for word in ("sharded", "replicated")}
WRAPPED = [
    pair
    for name in list(sweep.operators())[7::EVERY]
    for setting in ("eager", "native+grad")
    for word in sweep.wrapped_samples.WRAPPERS
    if (pair := (name, f"{setting}+{word}")) not in NOT_AS_EAGER
]


@pytest.mark.usefixtures("process_group")
@pytest.mark.sweep(11, each=("setting",))
@pytest.mark.parametrize(("name", "setting"), WRAPPED, ids=str)
def test_wrapper_subclasses(name, setting):
    op = sweep.operators()[name]
    if not sweep.applies(op, setting):
        setting = setting.replace("+grad", "")
    row = sweep.measure(name, op, setting)
    assert row.difference is None
    plain = "eager+grad" if "grad" in setting else "eager"
    assert row.captured or name in sweep.known_open()[plain], row.reason


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize(("name", "setting"), MENDED, ids=str)
@pytest.mark.sweep(2)
def test_wrapper_subclasses_are_like_eager(name, setting):
    row = sweep.measure(name, sweep.operators()[name], setting)
    assert row.difference is None and (row.captured or name == "allclose"), row.reason


@pytest.mark.parametrize(("name", "captured"), [("add", True), ("resize_", False)])
def test_torch_compile_is_counted(name, captured):
    row = sweep.measure(name, sweep.operators()[name], sweep.TORCH_COMPILE)
    assert row.captured is captured and row.samples > 0 and bool(row.reason) is not captured


@pytest.mark.parametrize("setting", TORCH_COMPILE)
def test_more_is_captured_than_by_torch_compile(setting):
    captured, of = TORCH_COMPILE[setting]
    for backend in ("eager", "aot_eager"):
        missed = sweep.known_open()[setting.replace("eager", backend)]
        assert len(missed) == len(set(missed)) <= of - captured
