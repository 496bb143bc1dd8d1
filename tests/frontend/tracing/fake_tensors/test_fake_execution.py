"""Nothing that runs while a function is captured reads memory: operators that take numbers from
tensors on the CPU.

Each program is called with several lengths of one total, so that sizes become symbols while others
stay. The programs run in a process of their own: what goes wrong here ends it.
"""

from __future__ import annotations

import importlib

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors import fake_execution
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import rnn

LENGTHS = ([5, 4, 2], [6, 3, 2], [7, 2, 2], [2, 4, 8], [1, 1, 1])
RNNS = {
    "lstm": lambda: nn.LSTM(4, 6, batch_first=True), "gru": lambda: nn.GRU(4, 6, batch_first=True),
    "rnn": lambda: nn.RNN(4, 6, batch_first=True), "rnn_relu": lambda: nn.RNN(4, 6, nonlinearity="relu", batch_first=True),
    "two ways": lambda: nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True),
}  # fmt: skip


def packed(module):
    def run(x, lengths):
        result, state = module(
            rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        )
        return rnn.pad_packed_sequence(result, batch_first=True)[0], state

    return run


PROGRAMS = {
    "tensor_split": lambda x, n: x.flatten(0, 1).tensor_split(n.cumsum(0)),
    "tensor_split by lengths": lambda x, n: torch.tensor_split(x.flatten(0, 1), n),
    "ctc_loss": lambda x, n: F.ctc_loss(
        x.transpose(0, 1).log_softmax(2), torch.ones(3, 2).long(), n, torch.full((3,), 1)
    ),
    "repeat_interleave": lambda x, n: torch.repeat_interleave(torch.arange(3), n),
    "embedding_bag": lambda x, n: F.embedding_bag(
        torch.arange(x.shape[1]), torch.ones(20, 3), n.sort()[0] - n.min(), mode="sum"
    ),
    "segment_reduce": lambda x, n: torch.segment_reduce(
        x, "sum", lengths=torch.stack([n, x.shape[1] - n], 1), axis=1
    ),
    "bincount": lambda x, n: torch.bincount(n),
    "one_hot": lambda x, n: F.one_hot(n, 20),
    "pack_sequence": lambda x, n: (
        rnn.pack_sequence(
            [t[:k] for t, k in zip(x, n.tolist(), strict=True)], enforce_sorted=False
        ).data
    ),
    "unpad_sequence": lambda x, n: rnn.unpad_sequence(x, n, batch_first=True),
    "nested": lambda x, n: torch.nested.nested_tensor(
        [t[:k] for t, k in zip(x, n.tolist(), strict=True)], layout=torch.jagged
    ).values(),
    "jagged": lambda x, n: torch.ops.aten._jagged_to_padded_dense_forward(
        x.flatten(0, 1), [torch.cat([torch.zeros(1).long(), n.cumsum(0)])], [x.shape[1]]
    ),
    "lstm of data": lambda x, n: torch.lstm(
        x.flatten(0, 1),
        torch.full((x.shape[1],), 3),
        [torch.zeros(1, 3, 4)] * 2,
        [torch.ones(16, 4)] * 2,
        False,
        1,
        0.0,
        False,
        False,
    ),
    "pad_packed": lambda x, n: torch._pad_packed_sequence(
        x.flatten(0, 1), torch.full((x.shape[1],), 3), True, 0.0, x.shape[1]
    ),
    "sparse": lambda x, n: torch.sparse_coo_tensor(n[None] - 1, x[:, 0, 0], (30,)).to_dense(),
    "narrow": lambda x, n: x.narrow(1, n[-1] - 1, 1),
    "histogramdd": lambda x, n: torch.histogramdd(x.flatten(0, 1), bins=[2, 2, 2, 2])[0],
    "batch_norm of one dimension": lambda x, n: torch.batch_norm(
        x[0, :, 0], None, None, None, None, True, 0.1, 1e-5, True
    ),
    "slice by a tensor": lambda x, n: x[:, : n[0]],
}


def parts(found):
    if isinstance(found, tuple | list):
        return [part for one in found for part in parts(one)]
    return [found]


def outcome(call, *args):
    torch.manual_seed(0)
    try:
        return parts(call(*args))
    except Exception as error:
        return [type(error), str(error).splitlines()[0]]


def compare(name, call, backend, dynamic):
    """Whether compiled code gave what eager does, for all lengths."""
    handle = framejit.compile(call, backend=backend, dynamic=dynamic)
    for lengths in LENGTHS:
        inputs = torch.randn(3, max(*lengths, 2), 4), torch.tensor(lengths)
        expected, found = outcome(call, *inputs), outcome(handle, *inputs)
        same = len(expected) == len(found) and all(map(alike, expected, found))
        print(
            f"{name} {dynamic} {lengths} {'same' if same else f'DIFFERENT: {expected} {found}'}",
            flush=True,
        )


def alike(one, other):
    return (
        torch.allclose(one, other, atol=1e-6, equal_nan=True)
        if isinstance(one, torch.Tensor)
        else one == other
    )


def run_all(backend):
    torch.manual_seed(0)
    with framejit.config.patch(strict=True):
        for dynamic in (None, True):
            for name, make in RNNS.items():
                compare(name, packed(make()), backend, dynamic)
            for name, call in PROGRAMS.items():
                compare(name, call, backend, dynamic)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.sweep(2)
def test_numbers_taken_from_tensors(backend, torch_server, tmp_path):
    program = f"import runpy; runpy.run_path({__file__!r})['run_all']({backend!r})"
    done = torch_server.run(program, tmp_path)
    said = done.stdout.splitlines()
    assert done.returncode == 0, f"{said[-1:]} {done.stderr[-2000:]}"
    assert len(said) == 2 * len(LENGTHS) * (len(RNNS) + len(PROGRAMS))
    assert [line for line in said if not line.endswith(" same")] == []


def test_this_torch_lets_reading_be_forbidden():
    assert fake_execution.reading_check() > 0


def symbolic(mode, real):
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode.shape_env = ShapeEnv()
    mode.cache_enabled = False
    return mode.from_tensor(real, static_shapes=False)


@pytest.mark.parametrize("kind", ["input", "result", "view"])
@pytest.mark.parametrize(
    "read",
    [torch.Tensor.data_ptr, lambda t: torch.tensor_split(torch.ones(9), t)],
    ids=["pointer", "numbers"],
)
def test_the_memory_of_fake_tensors_with_symbols_cannot_be_read(kind, read):
    mode = fake_execution.CaptureFakeMode()
    fake = symbolic(mode, torch.arange(5))
    with mode:
        made = {"input": fake, "result": fake + 1, "view": fake[1:]}[kind]
        with pytest.raises(RuntimeError, match="data pointer|invalid python storage"):
            read(made)


def test_the_first_symbols_are_those_of_a_tensor_met_in_a_transform():
    importlib.import_module("torch._dynamo")  # which changes what the guards of a transform compare
    kept = {}

    def f(w):
        def loss(v):
            return (v * kept["x"].sum()).sin().sum()

        _, backwards = torch.func.vjp(torch.func.grad(loss), w)
        return backwards(w)[0]

    handle, w = framejit.compile(f, backend="eager"), torch.ones(3)
    fake_execution.reading_check.cache_clear()
    for size in (4, 6, 7):
        kept["x"] = torch.ones(size)
        torch.testing.assert_close(handle(w), f(w))
    assert fake_execution.reading_check() > 0


def test_no_operator_runs_for_real_on_made_up_numbers():
    ran = []
    library = torch.library.Library("prims", "FRAGMENT")
    library.define("framejit_without_meta(Tensor x) -> Tensor")
    library.impl("framejit_without_meta", lambda x: ran.append(x) or x.clone(), "CPU")

    def f(x):
        return torch.ops.prims.framejit_without_meta(x + 1) * 2

    handle = framejit.compile(f)
    x = torch.randn(3)
    assert handle(x).equal(f(x)) and handle(x).equal(f(x))
    assert all(seen.equal(x + 1) for seen in ran) and len(ran) == 4
    assert [one.reason for one in handle.framejit.explain().breaks] != []


def test_operators_on_constants_of_the_program_run():
    def f(x):
        return x * torch.tensor([1, 2, 3])[1].item()

    handle = framejit.compile(f)
    assert handle(torch.ones(2)).equal(torch.full((2,), 2.0))


LAID_OUT = {
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True), "poisson": lambda x: torch.poisson(x.abs()),
    "normal": lambda x: torch.normal(x, x.abs() + 1), "rrelu": lambda x: F.rrelu(x, training=True),
    "gamma": lambda x: torch._standard_gamma(x.abs() + 1), "dirichlet": lambda x: torch._sample_dirichlet(x.abs() + 1),
    "unpooled": lambda x: F.max_unpool2d(x, torch.arange(x.numel()).reshape(x.shape) % 12, 2),
    "shuffled": lambda x: F.channel_shuffle(x, 2),
    "rolled": lambda x: x.roll(1, 1), "rolled by all": lambda x: x.roll((1, 3), (1, 2)), "rolled flat": lambda x: x.roll(1),
    "copied sign": lambda x: x.copysign(-x[0]), "quotient": lambda x: x // 0.3, "rounded": lambda x: torch.div(x, x + 1, rounding_mode="floor"),
    "x log y": lambda x: torch.xlogy(x, x[0]),
    "log of softmax": lambda x: x.log_softmax(1),
    "normalised": lambda x: F.batch_norm(x, None, None, training=True), "by statistics": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("make", [
    lambda: torch.rand(2, 4, 3, 3).to(memory_format=torch.channels_last), lambda: torch.rand(2, 4, 3, 3).mT, lambda: torch.rand(2, 4, 3, 3),
], ids=["channels last", "transposed", "contiguous"])  # fmt: skip
@pytest.mark.parametrize("dynamic", [None, True], ids=["", "sizes vary"])
@pytest.mark.parametrize("operator", LAID_OUT.values(), ids=LAID_OUT)
def test_strides_of_results_that_the_program_asks_for(operator, dynamic, make, backend):
    def program(x):
        made = operator(x)
        return made, made.stride(), made.is_contiguous()

    given = make()
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(program, backend=backend, dynamic=dynamic)
    got, wanted = compiled(given), program(given)
    assert got[1:] == wanted[1:] and got[0].stride() == wanted[0].stride()


def test_a_tensor_without_elements_is_rolled():
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(lambda x: x.roll(1, 0), fullgraph=True)
    assert compiled(torch.ones(0, 3)).shape == (0, 3)
