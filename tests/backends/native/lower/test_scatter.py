"""Scatters and gathers: values, order of additions, errors and gradients as in eager; what becomes
one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import framejit
import pytest
import torch
from framejit.backends.native.bounds import require
from torch.nn import functional as F

ROWS, WIDTH, EDGES = 50, 24, 400


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def places(below: int, *shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def wide(places: torch.Tensor) -> torch.Tensor:
    return places[:, None].expand(-1, WIDTH)


@dataclass
class Case:
    """A function and its inputs. kernels, calls: how many there should be."""

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    kernels: int = 2
    calls: int = 0


X, SOURCE = values(ROWS, WIDTH), values(EDGES, WIDTH, seed=2)
TO, FROM, WEIGHT = places(ROWS, EDGES), places(ROWS, EDGES, seed=3), values(EDGES, seed=4)


def convolution(x, to, come_from, weight):
    return torch.zeros_like(x).index_add(0, to, x[come_from] * weight[:, None])


def written(x, to, source):
    y = x * 2
    y.index_add_(0, to, source + 1)
    return y + 1


def reduced(kind: str, **more: Any) -> Callable[..., Any]:
    return lambda x, to, source: x.scatter_reduce(0, wide(to), source * 3, kind, **more)


CASES = {
    "index_add": Case(lambda x, to, s: x.index_add(0, to, s * 2), (X, TO, SOURCE)),
    "index_add, scaled": Case(
        lambda x, to, s: x.index_add(0, to, s * 2, alpha=0.5), (X, TO, SOURCE)
    ),
    "index_add of columns": Case(
        lambda x, to, s: x.index_add(1, to, s * 2),
        (X, places(WIDTH, EDGES), values(ROWS, EDGES)),
    ),
    "index_add of numbers": Case(lambda x, to, s: x.index_add(0, to, s * 2), (X[:, 0], TO, WEIGHT)),
    "index_add of one row": Case(
        lambda x, to, s: x.index_add(0, to, s * 2), (X, TO[:1], SOURCE[:1])
    ),
    "index_add of nothing": Case(
        lambda x, to, s: x.index_add(0, to, s * 2), (X, TO[:0], SOURCE[:0]), 1
    ),
    "all to one row": Case(
        lambda x, to, s: x.index_add(0, to, s * 2), (X, torch.full_like(TO, 3), SOURCE)
    ),
    "gather, product, scatter": Case(convolution, (X, TO, FROM, WEIGHT)),
    "in place": Case(written, (X, TO, SOURCE), 3),
    "twice, and read besides": Case(
        lambda x, to, s: (x.index_add(0, to, s).index_add(0, to, s * 3).relu(), x + 1),
        (X, TO, SOURCE),
        5,
    ),
    "onto a sum": Case(
        lambda to, s: s.sum(0).expand(ROWS, WIDTH).index_add(0, to, s * 2), (TO, SOURCE), 3
    ),
    "scatter_add": Case(
        lambda x, to, s: x.scatter_add(1, to, s * 3),
        (X, places(WIDTH, ROWS - 3, 70), values(ROWS - 3, 70)),
    ),
    "scatter_add of rows": Case(
        lambda x, to, s: x.scatter_add(0, wide(to), s * 3), (X, TO, SOURCE)
    ),
    "scatter_add of some": Case(
        lambda x, to, s: x.scatter_add(1, to, s * 3),
        (X.long(), places(WIDTH, ROWS - 3, 70), places(9, ROWS, 80)),
    ),
    **{f"scatter_reduce {kind}": Case(reduced(kind), (X, TO, SOURCE)) for kind in
       ("sum", "prod", "amax", "amin")},
    "mean": Case(reduced("mean"), (X, TO, SOURCE), 1, 1),
    "amax of others": Case(reduced("amax", include_self=False), (X, TO, SOURCE), 1, 1),
    "int16": Case(reduced("sum"), (X.short(), TO, SOURCE.short())),
    "halves": Case(reduced("sum"), (X.bfloat16(), TO, SOURCE.bfloat16()), 1, 1),
    "scatter of a number": Case(
        lambda x, to: x.scatter(1, to, 2.5) + 1, (X, places(WIDTH, ROWS, 3)), 3
    ),
    "index_put": Case(
        lambda x, to, s: x.index_put((to,), s * 2, accumulate=True), (X, TO - ROWS // 2, SOURCE)
    ),
    "index_put of elements": Case(
        lambda x, to, at, s: x.index_put((to, at), s * 2, accumulate=True),
        (X, TO - ROWS // 2, TO % WIDTH, WEIGHT),
    ),
    "index_put of columns": Case(
        lambda x, at, s: torch.ops.aten.index_put(x, [None, at], s * 2, True),
        (X, TO % WIDTH, values(ROWS, EDGES)),
    ),
    "index_put of a grid": Case(
        lambda x, to, at, s: x.index_put((to[:, None], at), s * 2, accumulate=True),
        (X, TO[:30], TO[:70] % WIDTH, values(30, 70)),
    ),
    "index_put of one value": Case(
        lambda x, to, s: x.index_put((to,), s * 2, accumulate=True),
        (X, TO.view(20, 20), values(WIDTH)),
    ),
    "small positions": Case(
        lambda x, to, s: x.index_add(0, to, s * 2), (X, TO.int(), SOURCE)
    ),
    "positions with gaps": Case(
        lambda x, to, s: x.index_add(0, to, s * 2), (X, torch.stack([TO, TO], 1)[:, 0], SOURCE)
    ),
    "index": Case(lambda x, to: x[to - 9] + 1, (X, TO), 2),
    "index_select": Case(lambda x, to: x.index_select(1, to % WIDTH) + 1, (X, TO), 2),
    "gather": Case(lambda x, to: x.gather(1, to) * 2, (X, places(WIDTH, ROWS, 7)), 1),
    "embedding": Case(lambda x, to: F.embedding(to.view(20, 20), x) * 2, (X, TO), 1),
    "a lookup alone": Case(lambda x, to: F.embedding(to, x), (X, TO), 0, 1),
}  # fmt: skip


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request, monkeypatch):
    """Loops of any size are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    if request.param > 1:
        monkeypatch.setattr(
            "framejit.backends.native.printers.c.loops.CFunction.uses_threads",
            property(lambda _: True),
        )
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, dynamic, threads, reports):
    case = CASES[name]
    compiled = framejit.compile(case.function, backend="native", dynamic=dynamic)
    torch.testing.assert_close(
        compiled(*case.inputs), case.function(*case.inputs), check_stride=True, equal_nan=True
    )
    (report,) = reports
    launched = report.host.count("run(kernel")
    if not dynamic:
        assert (launched, len(report.called)) == (case.kernels, case.calls), report.host


@pytest.mark.sweep(3, each=("threads",))
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("mean", "halves")])
def test_gradients_equal_eager(name, threads):
    case = CASES[name]
    results = []
    for function in (case.function, framejit.compile(case.function, backend="native")):
        inputs = [
            given.clone().requires_grad_() if given.is_floating_point() else given
            for given in case.inputs
        ]
        wanted = [given for given in inputs if given.requires_grad]
        if not wanted:
            return
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results.append(torch.autograd.grad(sum(output.sin().sum() for output in outputs), wanted))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("padding", [None, 3])
def test_gradient_of_an_embedding(padding, threads, reports):
    table, positions = values(ROWS, WIDTH), places(ROWS, 20, 20)

    def f(table):
        return F.embedding(positions, table, padding_idx=padding).sin()

    results = []
    for function in (f, framejit.compile(f, backend="native")):
        own = table.clone().requires_grad_()
        results.append(torch.autograd.grad(function(own).square().sum(), own))
    torch.testing.assert_close(results[1], results[0])
    assert not any(report.called for report in reports)


FETCHED = {  # function, width of a row, how many places are asked for
    "two places": (convolution, 64, 2),
    "one place": (lambda x, to, at, w: x.index_add(0, to, (x * w[0]).repeat(9, 1)[:400]), 64, 1),
    "pairs of positions": (
        lambda x, to, at, w: x.index_put((to.view(20, 20),), x[at].view(20, 20, -1), True),
        64,
        2,
    ),
    "short rows": (convolution, 16, 0),
    "very long rows": (convolution, 2048, 0),
    "columns": (lambda x, to, at, w: x.index_add(1, to % 7, w.expand(ROWS, -1)), 64, 0),
    "a grid": (lambda x, to, at, w: x.index_put((to[:, None], at[:64]), w[:64], True), 64, 0),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FETCHED)
def test_memory_of_long_rows_is_asked_for_ahead(name, dynamic, threads, reports):
    function, width, count = FETCHED[name]
    inputs = values(ROWS, width), TO, FROM, WEIGHT
    compiled = framejit.compile(function, backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
    if not dynamic:
        texts = "".join(kernel.text for kernel in reports[0].kernels)
        assert texts.count("__builtin_prefetch") == count, texts


def test_sums_have_eager_order(threads):
    """Each element's additions are in the order of the source: equal bits."""
    x, source, to = torch.randn(9, 5), torch.randn(3000, 5) * 1e3, places(9, 3000)
    compiled = framejit.compile(lambda x, to, s: x.index_add(0, to, s), backend="native")
    assert compiled(x, to, source).equal(x.index_add(0, to, source))


def test_nan_is_kept(threads):
    source = SOURCE.clone()
    source[3:9, 4] = float("nan")
    for kind in ("amax", "amin"):
        compiled = framejit.compile(reduced(kind), backend="native")
        torch.testing.assert_close(
            compiled(X, TO, source), reduced(kind)(X, TO, source), equal_nan=True
        )


REFUSED = {
    "one column": lambda x, to, s: x.index_add(0, to, s[:, :1]),
    "one row of columns": lambda x, to, s: x.index_add(1, to % WIDTH, s.t()[:1]),
    "in place": lambda x, to, s: x.clone().index_add_(0, to, s[:, :1]),
    "added": lambda x, to, s: x.scatter_add(0, wide(to), s[:3]),
    "reduced": lambda x, to, s: x.scatter_reduce(0, wide(to), s[:3], "amax"),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_torch_refuses(name, dynamic):
    compiled = framejit.compile(REFUSED[name], backend="native", dynamic=dynamic)
    with pytest.raises(RuntimeError) as eagers:
        REFUSED[name](X, TO, SOURCE)
    with pytest.raises(RuntimeError) as ours:
        compiled(X, TO, SOURCE)
    assert str(ours.value) == str(eagers.value)


WRONG, SIGNS = torch.tensor([1, 2, 70]), torch.tensor([1, 1, -1])
LOOKUPS = {
    "index": lambda x, at: x[at] + 1,
    "index of columns": lambda x, at: x[:, at] + 1,
    "index_select": lambda x, at: x.index_select(0, at) + 1,
    "index_select of columns": lambda x, at: x.index_select(1, at) + 1,
    "gather": lambda x, at: x.gather(1, at[:, None]) + 1,
    "embedding": lambda x, at: F.embedding(at, x) + 1,
    "index_add": lambda x, at: x.index_add(0, at, x[:3] * 2),
    "index_add of numbers": lambda x, at: x[:, 0].contiguous().index_add(0, at, x[:3, 0] * 2),
    "scatter_add": lambda x, at: x.scatter_add(0, at[:, None], x[:3] * 2),
    "scatter": lambda x, at: x.scatter(0, at[:, None], 2) + 1,
    "index_put": lambda x, at: x.index_put((at,), x[:3] * 2, accumulate=True),
}


def error_of(function: Callable[..., Any], *given: torch.Tensor) -> tuple[type, str] | None:
    try:
        function(*given)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("wrong", [WRONG, WRONG * SIGNS, WRONG.int()], ids=["high", "low", "int32"])
@pytest.mark.parametrize("name", LOOKUPS)
def test_positions_outside_raise_eager_error(name, wrong, reports, monkeypatch):
    """By the check itself: the frame is not run again in eager."""
    function, seen = LOOKUPS[name], []

    def watched(*given):
        try:
            return require(*given)
        except Exception as error:
            seen.append((type(error), str(error)))
            raise

    monkeypatch.setattr("framejit.backends.native.lower.build.require", watched)
    monkeypatch.setattr("framejit.backends.native.backend.require", watched)
    compiled = framejit.compile(function, backend="native")
    good = torch.tensor([0, 1, 2], dtype=wrong.dtype)
    torch.testing.assert_close(compiled(X, good), function(X, good))
    assert seen == []
    want = error_of(function, X, wrong)
    assert want is not None and error_of(compiled, X, wrong) == want
    assert set(seen) == (set() if reports[0].called else {want})


def test_a_write_before_a_wrong_position_stays():
    def f(x, to, source):
        x.add_(1)
        return x.index_add(0, to, source * 2)

    results = []
    for function in (f, framejit.compile(f, backend="native")):
        x = X.clone()
        function(x, TO[:3], SOURCE[:3])
        results.append((error_of(function, x, WRONG, SOURCE[:3]), x.sum()))
    assert results[0] == results[1] and results[0][0] is not None


def test_equal_checks_are_made_once(reports):
    def f(x, to, come_from, weight):
        for _ in range(3):
            x = convolution(x, to, come_from, weight).relu()
        return x

    given = X, TO, FROM, WEIGHT
    torch.testing.assert_close(framejit.compile(f, backend="native")(*given), f(*given))
    assert reports[0].host.count("= restride(positions") == 2


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in CASES]
    + [(name, torch.int64) for name in ("index_add", "scatter_add", "index_put of elements")],
)
def test_on_a_gpu(name, dtype):
    case = CASES[name]
    given = [(one.to(dtype) if one.is_floating_point() else one).cuda() for one in case.inputs]
    torch.testing.assert_close(
        framejit.compile(case.function, backend="native")(*given),
        case.function(*given),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.gpu
def test_deterministic_algorithms_are_torchs(reports):
    given = [one.cuda() for one in (X.float(), TO, FROM, WEIGHT.float())]
    compiled = framejit.compile(convolution, backend="native")
    compiled(*given)
    torch.use_deterministic_algorithms(True)
    try:
        assert compiled(*given).equal(compiled(*given))
    finally:
        torch.use_deterministic_algorithms(False)
    assert [report.called for report in reports] == [[], ["aten.index_add.default"]]
