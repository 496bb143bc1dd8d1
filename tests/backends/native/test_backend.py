"""Functions with backend="native": values, strides, aliases and writes as in eager, and which
operators become one kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from torch.nn import functional as F


@dataclass
class Case:
    """A function, what makes its inputs, and how many kernels and calls of operators it should
    become."""

    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    kernels: int
    calls: int = 0


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def attention(q, k, v):
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


def block(x, w, b):
    return (
        F.layer_norm(F.gelu(x @ w + b), (48,)).view(4, 8, 6, 8).permute(0, 2, 1, 3).contiguous() + 1
    )


def written(x, y):
    x.add_(y)
    return x * 2


CASES = {
    "pointwise": Case(
        lambda x, y: torch.sin(x) * torch.cos(y) + x * 0.5, lambda: (rows(8, 9), rows(9)), 1
    ),
    "softmax": Case(lambda x: torch.softmax(x * 2, -1), lambda: (rows(16, 33),), 1),
    "layer norm between views": Case(block, lambda: (rows(4, 8, 32), rows(32, 48), rows(48)), 1, 1),
    "attention by hand": Case(
        attention, lambda: (rows(2, 3, 5, 4), rows(2, 3, 5, 4), rows(2, 3, 5, 4)), 1, 2
    ),
    "sums over columns": Case(lambda x: (x.sum(0), (x * x).sum(0)), lambda: (rows(300, 70),), 1),
    "a whole sum": Case(lambda x: (x - x.mean()).pow(2).mean().sqrt(), lambda: (rows(7, 11),), 1),
    "cat": Case(lambda x, y: torch.cat([x, y + 1], 1).relu(), lambda: (rows(4, 3), rows(4, 5)), 1),
    "slices": Case(lambda x: x[:, 1:] - x[:, :-1], lambda: (rows(5, 9),), 1),
    "transposed": Case(lambda x: x.t() * 2, lambda: (rows(5, 9),), 1),
    "a number spread out": Case(lambda x: x.sum().expand(2, 3), lambda: (rows(5, 9),), 1),
    "a number as a matrix": Case(
        lambda x: (x.sum().expand(1, 1), x.sum().view(1, 1)), lambda: (rows(5, 9),), 1
    ),
    "an input spread out": Case(lambda x: x.expand(2, 3), lambda: (rows(),), 0),
    "a view of an input": Case(lambda x: x.t(), lambda: (rows(5, 9),), 0),
    "a write into an input": Case(written, lambda: (rows(5, 9), rows(5, 9)), 1),
    "integers": Case(
        lambda x: (x // 3, x % 3, (x > 2).sum(), x.argmax(1)),
        lambda: (torch.arange(-6, 6).view(3, 4),),
        3,
    ),
    "half precision": Case(
        lambda x: F.silu(x) * x.sum(-1, keepdim=True), lambda: (rows(6, 40).bfloat16(),), 1
    ),
    "nothing in it": Case(lambda x: x.exp().sum(0), lambda: (rows(0, 4),), 1),
    "a single number": Case(lambda x: x.exp().sum(), lambda: (rows(),), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, reports):
    case = CASES[name]
    mine, theirs = case.inputs(), case.inputs()
    want, got = case.function(*mine), framejit.compile(case.function, backend="native")(*theirs)
    torch.testing.assert_close(theirs, mine)
    torch.testing.assert_close(got, want, check_stride=True)
    (report,) = reports
    assert (report.host.count("run(kernel"), len(report.called)) == (case.kernels, case.calls), (
        report.host
    )


@pytest.mark.parametrize(
    "name",
    [name for name in CASES if name not in ("integers", "a write into an input", "nothing in it")],
)
def test_gradients_equal_eager(name):
    case = CASES[name]
    results = []
    for function in (case.function, framejit.compile(case.function, backend="native")):
        inputs = [tensor.requires_grad_() for tensor in case.inputs()]
        outputs = function(*inputs)
        total = sum(
            (output * output).sum()
            for output in (outputs if isinstance(outputs, tuple) else (outputs,))
        )
        results.append(torch.autograd.grad(total, inputs))
    half = name == "half precision"  # between fused operations nothing is rounded
    torch.testing.assert_close(
        results[1], results[0], rtol=0.05 if half else 1e-4, atol=0.05 if half else 1e-4
    )


def test_an_output_that_is_a_view_shares_memory():
    x = rows(4, 6)
    framejit.compile(lambda x: x[1:].t(), backend="native")(x).zero_()
    assert x[1:].eq(0).all() and not x[:1].eq(0).any()


def test_random_operators_stay_in_order():
    def f(x, y):
        z = x * 0.5
        return (
            torch.bernoulli(z),
            torch.rand_like(y),
            z + y,
        )  # what computes z + y computes z too, which the first one waits for

    x, y = rows(8, 9).sigmoid(), rows(8, 9)
    torch.manual_seed(1)
    want = f(x, y)
    torch.manual_seed(1)
    torch.testing.assert_close(framejit.compile(f, backend="native")(x, y), want)


def test_nan_and_infinity():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1.0])

    def f(x):
        return (
            torch.relu(x),
            x.clamp(-1, 1),
            x.max(),
            torch.maximum(x, x.flip(0)),
            torch.sigmoid(x),
            F.softplus(x),
            x.amax(),
            x / 0,
        )

    torch.testing.assert_close(framejit.compile(f, backend="native")(x), f(x), equal_nan=True)


def test_a_backward_graph_frees_what_it_has_read(reports):
    x = rows(8, 9).requires_grad_()
    framejit.compile(lambda x: torch.sin(x).exp() @ x.t(), backend="native")(x).sum().backward()
    forward, backward = (report.host for report in reports)
    assert "args.clear()" not in forward
    inputs = backward.split(" = args\n")[0].split("\n")[-1].strip().strip(",").split(", ")
    dropped = [
        name
        for line in backward.splitlines()
        if line.strip().startswith("del ")
        for name in line.strip()[4:].split(", ")
    ]
    assert len(inputs) > 1 and set(inputs) <= set(dropped), backward


def test_results_that_nobody_reads_are_not_looked_at(reports):
    """An operator may return None for one of them, where its fake result is a tensor."""
    x = rows(8, 9)
    torch.testing.assert_close(
        framejit.compile(lambda x: x.topk(2)[1] + 1, backend="native")(x), x.topk(2)[1] + 1
    )
    assert "_, topk_1 = " in reports[0].host


def test_sizes_that_vary(reports):
    def f(x, y):
        return (
            torch.softmax(x @ y, -1).sum(0),
            (x * 2).reshape(-1)[: x.shape[0]],
            x.new_ones(x.shape[0], 2),
        )

    compiled = framejit.compile(f, backend="native", dynamic=True)
    for rows_, columns in ((3, 5), (7, 2), (20, 9), (2, 33)):
        x, y = rows(rows_, 6), rows(6, columns)
        torch.testing.assert_close(compiled(x, y), f(x, y))
    assert len(reports) == 1


def test_without_a_compiler_operators_are_called(monkeypatch, reports):
    def nothing_works():
        raise native.NoCompiler("none of $CC, gcc, clang and cc is on PATH")

    native.usable_devices.cache_clear()
    monkeypatch.setattr(native, "compiler", nothing_works)
    x = rows(4, 6)
    with pytest.warns(RuntimeWarning, match="install gcc or clang, or set CC"):
        got = framejit.compile(lambda x: torch.softmax(x * 2, -1), backend="native")(x)
    torch.testing.assert_close(got, torch.softmax(x * 2, -1))
    assert reports[0].kernels == [] and len(reports[0].called) == 2
    native.usable_devices.cache_clear()


def test_explain_tells_what_is_compiled_and_what_is_called():
    compiled = framejit.compile(lambda x, w: torch.relu(x @ w) + 1, backend="native")
    compiled(rows(4, 6), rows(6, 5))
    assert "compiled: 1 different kernels; torch's own operators for mm" in str(
        compiled.framejit.explain()
    )


def test_autocast():
    def f(x, w):
        with torch.autocast("cpu", enabled=False):
            exact = x @ w
        return exact, x @ w, torch.softmax(x @ w, -1)

    x, w = rows(4, 6), rows(6, 5)
    compiled = framejit.compile(f, backend="native")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(compiled(x, w), f(x, w))


def test_an_optimizers_step():
    weights = []
    for compile_it in (lambda step: step, lambda step: framejit.compile(step, backend="native")):
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(layer.weight)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        layer(torch.ones(2)).sum().backward()
        compile_it(lambda optimizer=optimizer: optimizer.step())()
        weights.append(layer.weight.detach())
    torch.testing.assert_close(*weights)


REFUSED = {
    "sub": lambda x: x - (x > 0),
    "rsub": lambda x: 1 - (x > 0),
    "a truth value subtracted": lambda x: x.int() - True,
    "and": lambda x: x & 1,
    "xor": lambda x: x.half() ^ x.half(),
    "not": lambda x: torch.bitwise_not(x),
    "gelu": lambda x: F.gelu(x.int()),
    "largest of nothing": lambda x: x[:0].amax(0),
    "norm of nothing": lambda x: torch.linalg.vector_norm(x[:0], float("inf")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operands_that_an_operator_refuses(name):
    """The compiled function raises what torch raises."""
    f, x = REFUSED[name], torch.ones(3)
    with pytest.raises((RuntimeError, IndexError)) as in_eager:
        f(x)
    compiled = framejit.compile(lambda x: f(x * 2) + 1, backend="native")
    with pytest.raises(in_eager.type, match=re.escape(str(in_eager.value)[:40])):
        compiled(x)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_softmax_of_nothing(shape):
    def f(x):
        return (x + 1).softmax(-1), x.log_softmax(0), x.sum(0), torch.linalg.vector_norm(x)

    compiled = framejit.compile(f, backend="native")
    assert all(map(torch.equal, compiled(torch.ones(shape)), f(torch.ones(shape))))


def test_numbers_that_an_operator_refuses():
    compiled = framejit.compile(lambda x: F.binary_cross_entropy(x, x) * 2, backend="native")
    torch.testing.assert_close(
        compiled(torch.full((3,), 0.5)), F.binary_cross_entropy(*[torch.full((3,), 0.5)] * 2) * 2
    )
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(torch.full((3,), 2.0))


def test_a_variable_named_as_an_operator_hides_no_helper():
    def f(x):
        windows = torch.as_strided(x, (2, 3), (3, 1))
        kept = x.clone()
        kept.fill_diagonal_(0.5)
        return windows.sin(), kept * 2, x[:, ::2].cos(), kept.t()

    x = rows(4, 4)
    for mine, yours in zip(f(x), framejit.compile(f, backend="native")(x), strict=True):
        torch.testing.assert_close(mine, yours)


@pytest.mark.parametrize(
    "element", [lambda w: w[1, 1:], lambda w: w[:, 1:].unbind(0)[0], lambda w: w.narrow(1, 1, 1)[1]]
)
def test_one_element_of_a_window_around_a_number(element):
    def f(number):
        return element(number.as_strided((2, 2), (2, 1)))

    number = torch.arange(10)[3]
    result = framejit.compile(f, backend="native")(number)
    assert torch.equal(result, f(number)) and result.data_ptr() == f(number).data_ptr()


@pytest.mark.parametrize("history", [False, True])
def test_what_is_written_through_data_shares_memory(history):
    def f(x):
        inner = x.data
        inner.neg_()
        return inner, inner * 2

    x = torch.ones(2, 3, requires_grad=history)
    inner, doubled = framejit.compile(f, backend="native")(x)
    assert (
        inner.data_ptr() == x.data_ptr()
        and x[0, 0] == -1
        and doubled[0, 0] == -2
        and not inner.requires_grad
    )


@pytest.mark.parametrize("history", [False, True])
def test_numbers_made_of_sizes_that_vary(history):
    def f(x):
        n, m = x.shape
        scaled = x * (1.0 / n) + x / m**0.5 - n / 3
        return (
            scaled,
            torch.addcmul(x, x, x, value=n / 3),
            F.leaky_relu(x, m / 10),
            (x * n).sum(),
            torch.full((3,), n / 7),
            n / 2,
        )

    compiled = framejit.compile(f, backend="native", dynamic=True, fullgraph=True)
    for n in (2, 3, 5, 9):
        x = (rows(n, 4) - 1).requires_grad_(history)
        for mine, yours in zip(f(x), compiled(x), strict=True):
            torch.testing.assert_close(yours, mine, rtol=2e-6, atol=1e-6)
