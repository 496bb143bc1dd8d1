"""Numbers that vary: what differs between two calls becomes a symbol, only that, and every result
is eager's."""

import copy
import logging
import math
import warnings

import framejit
import pytest
import torch
from torch.utils._pytree import tree_leaves

torch.manual_seed(0)
LINEAR = torch.nn.Linear(4, 4)


def rows(*sizes, columns=4):
    return [(torch.randn(size, columns),) for size in sizes]


def same(got, want):
    assert type(got) is type(want)
    if isinstance(want, torch.Tensor):
        assert torch.equal(got, want) and got.stride() == want.stride() and got.dtype == want.dtype
    else:
        assert got == want


def compiles(function, calls, backend="eager", **asked):
    """Runs eager and compiled on each call; how often something was compiled."""
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(function, backend=backend, **asked)
    for arguments in calls:
        wanted, got = tree_leaves(function(*arguments)), tree_leaves(compiled(*arguments))
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same(one, other)
    return compiled.framejit.compiles


def by_len(x):
    return x * len(x), x.shape, x.numel() * 2 + 1, x.size(0) // 2, x.shape[0] % 3, -x.shape[0]


def with_new(x):
    return torch.zeros(x.shape[0], 2 * x.shape[0] + 1) + torch.arange(x.shape[0])[:, None]


def with_closure(x):
    n = x.shape[0]

    def inner(y):
        return y.reshape(n * 2, -1)

    return inner(x) + n / 2


ANY_SIZE = {
    "pointwise": lambda x: torch.sin(x) * 2 + 1,
    "linear": lambda x: torch.relu(LINEAR(x)),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "view": lambda x: x.view(x.shape[0], 2, 2) + x.shape[0],
    "shape arithmetic": by_len,
    "cat": lambda x: torch.cat([x, x]).sum(0),
    "slice by size": lambda x: x[: x.shape[0] // 2 + 1] * 2,
    "new tensors": with_new,
    "closure": with_closure,
}


@pytest.mark.parametrize("function", ANY_SIZE.values(), ids=ANY_SIZE)
def test_sizes_2_to_13_compile_twice(function):
    assert compiles(function, rows(*range(2, 14))) == 2


@pytest.mark.parametrize("name", ["pointwise", "linear", "softmax", "layer_norm"])
def test_sizes_0_and_1_need_no_compile_of_their_own(name):
    assert compiles(ANY_SIZE[name], rows(5, 6, 1, 0, 9)) == 2


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_0_and_1_compile_where_they_mean_something_else(size):
    def f(x):
        y = x.squeeze(0)
        return y + 1 if y.dim() == 2 else y * 2

    assert compiles(f, rows(5, 6, size, 7, size)) <= 3


def test_a_product_with_a_vector():
    """Torch 2.11's C++ has none of three dimensions with one where sizes are symbols."""
    weight = torch.randn(16)
    calls = [(torch.randn(4, length, 16),) for length in (7, 12, 5)]
    assert compiles(lambda x: (x @ weight).softmax(1), calls, dynamic=True, fullgraph=True) == 1


def test_what_torch_does_with_symbols_in_python_only(caplog):
    calls = [(torch.randn(8, 1, n), torch.randn(8, n, 4), torch.randn(8, 4, n)) for n in (7, 12, 5)]
    assert (
        compiles(lambda x, y, z: x.baddbmm(y, z, alpha=0.5), calls, dynamic=True, fullgraph=True)
        == 1
    )
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_two_tensors_of_one_size():
    calls = [(torch.randn(n, 4), torch.randn(n, 4)) for n in (2, 3, 7, 1, 5)]
    assert compiles(lambda x, y: x + y, calls) == 2
    broadcast = [
        *calls,
        (torch.randn(6, 4), torch.randn(1, 4)),
        (torch.randn(1, 4), torch.randn(6, 4)),
    ]
    assert compiles(lambda x, y: x + y, broadcast) <= 4


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.vmap(lambda row: row.sin() * row.sum())(x),
        lambda x: torch.vmap(LINEAR)(x),
        lambda x: torch.vmap(lambda row: torch.vmap(lambda item: item * row.sum())(row))(x),
        lambda x: torch.vmap(torch.func.grad(lambda row: LINEAR(row[None]).sum()))(x),
        lambda x: torch.vmap(lambda row: row * 2, out_dims=1)(x),
        lambda x: x.reshape(math.prod(x.shape)) + math.prod(x.shape[1:], start=2),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_batches_of_vmap_vary(function, backend):
    assert compiles(function, rows(*range(5, 10)), backend) == 2


def test_a_layer_of_attention_in_training_is_compiled_twice():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    compiled = framejit.compile(layer, backend="native")
    for size in (4, 5, 6, 7):
        x, pads = torch.randn(2, size, 8), torch.zeros(2, size, dtype=torch.bool)
        wanted = torch.autograd.grad(
            layer(x, src_key_padding_mask=pads).sum(), [*layer.parameters()]
        )
        got = torch.autograd.grad(
            compiled(x, src_key_padding_mask=pads).sum(), [*layer.parameters()]
        )
        torch.testing.assert_close(got, wanted)
    report = compiled.framejit.explain()
    assert compiled.framejit.compiles == 2 and not report.breaks
    attention = "multi_head_attention_forward"
    assert not any(attention in str(capture.graph) for capture in report.captures)


def test_a_seed_that_varies():
    def function(x, seed):
        torch.manual_seed(seed)
        return x + torch.rand(4)

    assert compiles(function, [(torch.ones(4), seed) for seed in range(9)]) == 2


@pytest.mark.parametrize(
    "holds",
    [
        lambda x, y: x.shape == y.shape,
        lambda x, y: x.size() != y.size(),
        lambda x, y: x.shape[:-1] == y.shape[:1],
        lambda x, y: (x.size(1), x.size(0)) == (y.size(1), y.size(0)),
        lambda x, y: list(x.shape) == list(y.shape),
        lambda x, y: x.shape == (300, 4),
        lambda x, y: x.shape in ((300, 4), (400, 4)),
        lambda x, y: len(x) in (300, 400, 500),
        lambda x, y: len(x) in [len(y)],
        lambda x, y: tuple(x.shape) < (400, 4),
        lambda x, y: [*x.shape].index(4) == 1 and y.shape.count(4) == 1,
    ],
)
@pytest.mark.parametrize("more", [0, 1])
def test_sizes_are_compared_one_by_one(holds, more):
    def function(x, y):
        return x + 1 if holds(x, y) else y - 1

    pairs = [(torch.randn(size, 4), torch.randn(size + more, 4)) for size in range(5, 14)]
    assert compiles(function, pairs) == 2


def test_only_the_dimension_that_differs():
    def f(x):
        return x.view(-1), x.shape

    assert compiles(f, [(torch.randn(2, 3),), (torch.randn(4, 3),), (torch.randn(9, 3),)]) == 2
    assert (
        compiles(
            f,
            [
                (torch.randn(2, 3),),
                (torch.randn(4, 3),),
                (torch.randn(4, 5),),
                (torch.randn(6, 6),),
            ],
        )
        == 3
    )


@pytest.mark.parametrize(
    ("dynamic", "expected"),
    [(True, 1), (False, 4), (None, 2)],
)
def test_dynamic(dynamic, expected):
    calls = [(torch.randn(n, n), torch.randn(n, n)) for n in range(2, 6)]
    assert compiles(lambda x, y: x @ y + 1, calls, dynamic=dynamic) == expected


def test_equal_sizes_share_a_symbol_with_dynamic_true():
    calls = [(torch.randn(n, 4), torch.randn(m, 4)) for n, m in ((3, 3), (5, 5), (5, 6), (7, 8))]
    assert compiles(lambda x, y: (x * 2, y * 3), calls, dynamic=True) == 2


def test_a_branch_on_a_size():
    def f(x):
        if x.shape[0] > 6:
            return x + 1
        return x - 1

    assert compiles(f, rows(*range(2, 14))) == 3


def test_a_loop_over_a_size_is_made_for_that_size():
    def f(x):
        for i in range(x.shape[0]):
            x = x + i
        return x

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f)
    for n in (2, 3, 4):
        same(compiled(torch.ones(n)), f(torch.ones(n)))
    events = [
        e for e in compiled.framejit.history.events if isinstance(e, framejit.events.Specialised)
    ]
    assert [(e.source, e.number) for e in events] == [("x.size(0)", "3"), ("x.size(0)", "4")]
    assert all(e.where.startswith(__file__) for e in events)


# numbers


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda x, n: x * n, range(10)),
        (lambda x, n: (x * n, n * 2.5, n + 1, abs(n), float(n)), range(-3, 8)),
        (lambda x, n: (x - n * x, n * n, n / 2), [0.1 * 0.9**i for i in range(12)]),
        (lambda x, n: x * (1 - 0.9**n) ** 0.5, [float(i) for i in range(1, 12)]),
        (lambda x, n: x[:n], range(1, 10)),
        (lambda x, n: (x * (n // 3), n % 3, -n), range(1, 12)),
        (lambda x, n: x + max(n, 2) + min(1.0, n), range(3, 12)),
        (lambda x, n: x.reshape(n, -1).sum(0), [2, 3, 6, 4, 12]),
    ],
)
def test_numbers_that_vary_compile_twice(function, numbers):
    assert compiles(function, [(torch.randn(12), n) for n in numbers]) <= 3


def test_a_float_is_compared_to_its_last_bit():
    limit = 0.1 + 0.2

    def f(x, n):
        return x + 1 if n > limit else x - 1

    near = [limit + 2**-54 * step for step in range(-8, 9)]
    assert len(set(near)) > 6
    assert compiles(f, [(torch.ones(2), n) for n in (0.0, 1.0, *near)]) <= 4


def test_an_int_compared_with_a_float():
    def f(x, n):
        match n:
            case 42.0:
                return x + 1
            case 3:
                return x + 2
        return x + n

    assert compiles(f, [(torch.ones(2), n) for n in (42.0, 42, 0.0, 0, 1.5, 3, 3.0, -0.0, 7)]) <= 10


def test_numbers_of_any_size_are_exact():
    f = lambda x, n: (x + 1, n + 1, n * n)  # noqa: E731
    assert compiles(f, [(torch.ones(2), n) for n in (1, 2, 2**31, 2**63, 2**70, -(2**64))]) == 2
    assert (
        compiles(f, [(torch.ones(2), n) for n in (0.1, 0.2, 0.30000000000000004, 1e300, -0.0)]) == 2
    )


def test_division_by_zero_is_eagers():
    f = lambda x, n: x * (1 / n)  # noqa: E731
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f)
    for n in (1, 2, 3):
        same(compiled(torch.ones(2), n), f(torch.ones(2), n))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), 0)


def test_not_a_number_and_infinity():
    f = lambda x, n: (x * n, n > 1)  # noqa: E731
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f)
    for n in (1.0, 2.0, float("inf"), float("nan"), -float("inf"), 3.0):
        got, want = compiled(torch.ones(2), n), f(torch.ones(2), n)
        assert torch.equal(got[0], want[0]) or n != n
        assert got[1] is want[1]


def test_knobs_for_numbers():
    calls = [(torch.ones(2), n) for n in range(5)]
    with framejit.config.patch(specialize_int=True):
        assert compiles(lambda x, n: x + n, calls) == 5
    with framejit.config.patch(specialize_float=True):
        assert compiles(lambda x, n: x + n, [(x, float(n)) for x, n in calls]) == 5
    with framejit.config.patch(automatic_dynamic_shapes=False):
        assert compiles(lambda x, n: x + n, calls) == 5
        assert compiles(lambda x: x + 1, rows(2, 3, 4)) == 3
    with framejit.config.patch(assume_static_by_default=False):
        assert compiles(lambda x: x + 1, rows(2, 3, 4, columns=5)) == 1


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.decay = copy.deepcopy(LINEAR), 0, 1.0

    def forward(self, x):
        self.calls += 1
        self.decay *= 0.9
        return self.linear(x) * self.calls + self.decay


def test_a_modules_counter():
    eager, compiled = Counts(), Counts()
    with framejit.config.patch(strict=True):
        framejit.compile(compiled)
    x = torch.randn(3, 4)
    for _ in range(20):
        same(compiled(x), eager(x))
        assert (compiled.calls, compiled.decay) == (eager.calls, eager.decay)
    assert compiled.framejit.compiles == 1


STEP = 0


def test_a_global_counter():
    def f(x):
        global STEP
        STEP += 1
        return x * STEP

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f)
    for n in range(1, 30):
        same(compiled(torch.ones(2)), torch.ones(2) * (STEP if STEP == n else -1))
    assert compiled.framejit.compiles == 2


# breaks


def test_what_varies_before_a_break_varies_behind_it():
    def f(x, n):
        y = [x * 2, n + 1]
        print(end="")
        return y[0] + x.shape[0] + n, y[1]

    assert compiles(f, [(torch.randn(n, 4), n) for n in range(2, 9)]) == 4


def test_a_number_from_a_tensor_varies_from_the_start():
    def f(x):
        n = x.sum().item()
        return x * n + 1

    assert compiles(f, [(torch.randn(4),) for _ in range(8)]) == 1
    with framejit.config.patch(capture_scalar_outputs=False):
        assert compiles(f, [(torch.randn(4),) for _ in range(8)]) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_take_symbols(backend):
    calls = [(torch.randn(n, 4), n, n / 4) for n in range(2, 10)]
    assert compiles(lambda x, n, s: (LINEAR(x).relu() * n + s).sum(0), calls, backend=backend) == 2


def test_gradients_with_symbols():
    eager, compiled = copy.deepcopy(LINEAR), copy.deepcopy(LINEAR)
    with framejit.config.patch(strict=True):
        framejit.compile(compiled, backend="aot_eager")
    for n in (2, 3, 5, 8):
        x = torch.randn(n, 4)
        for module in (eager, compiled):
            module.zero_grad()
            (module(x).square().sum() / n).backward()
        assert torch.equal(eager.weight.grad, compiled.weight.grad)
    assert compiled.framejit.compiles == 2


# marks


def test_a_marked_dimension_is_dynamic_from_the_start():
    x = torch.randn(5, 4)
    framejit.mark_dynamic(x, 0, min=2, max=10)
    assert compiles(lambda x: x.relu() * 2, [(x,), *rows(2, 10, 3)]) == 1
    assert compiles(lambda x: x.relu() * 2, [(x,), *rows(2, 11, 3)]) == 2


def test_a_dimension_marked_static_is_never_dynamic():
    calls = rows(2, 3, 4)
    for (x,) in calls:
        framejit.mark_static(x, 0)
    assert compiles(lambda x: x + 1, calls) == 3


def test_a_mark_that_does_not_hold():
    def f(x):
        return x.view(5, 4) + 1

    x = torch.randn(5, 4)
    framejit.maybe_mark_dynamic(x, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(framejit.compile(f)(x), f(x))
    framejit.mark_dynamic(x, 0)
    told = r"x.size\(0\) was marked dynamic, but .*test_shapes.py:\d+ needs it to be 5"
    with framejit.config.patch(strict=False), pytest.warns(UserWarning, match=told):
        same(framejit.compile(f)(x), f(x))
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f)
    with pytest.raises(
        torch.fx.experimental.symbolic_shapes.ConstraintViolationError, match="needs it to be 5"
    ):
        compiled(x)


def test_a_size_that_left_its_marked_range():
    x = torch.randn(5, 4)
    framejit.mark_dynamic(x, 0, min=2, max=8)
    x.resize_(9, 4)
    with pytest.raises(
        torch.fx.experimental.symbolic_shapes.ConstraintViolationError, match="has size 9"
    ):
        framejit.compile(lambda x: x + 1)(x)


# numbers from tensors, in the graph


def graphs_of(function, *arguments):
    return len(framejit.explain(function)(*arguments).graphs)


def test_capture_scalar_outputs():
    def f(x):
        n = x.sum().int().item()
        return torch.zeros(n) + x.sum().item()

    with framejit.config.patch(capture_scalar_outputs=True):
        assert graphs_of(f, torch.ones(3)) == 1
        assert compiles(f, [(torch.ones(n),) for n in (2, 3, 7)]) == 2


def test_capture_dynamic_output_shapes():
    f = lambda x: x.nonzero().sum(0) * 2  # noqa: E731
    with framejit.config.patch(capture_dynamic_output_shape_ops=True):
        assert graphs_of(f, torch.tensor([1.0, 0, 2])) == 1
        assert compiles(f, [(torch.tensor([1.0, 0, 2][:n]),) for n in (3, 2, 1)]) == 2


FROM_VALUES = {
    "a factor": lambda x: x * x.sum().item(),
    "a size": lambda x: torch.zeros(x[0].int().item()) + 1,
    "a size of a size": lambda x: torch.zeros(torch.zeros(x[0].int().item()).shape[0] * 2),
    "an int of a float": lambda x: torch.arange(int(x.sum().item())),
    "numbers only": lambda x: (x.sum().item() * 2 + 1, x.max().item()),
    "nonzero": lambda x: torch.zeros(x.nonzero().shape[0]) + x.nonzero().sum(),
    "a mask": lambda x: x[x > 1] * 2,
    "unique": lambda x: torch.unique(x) * 2,
    "a checked size": lambda x: (
        torch._check(x[0].int().item() > 0),
        torch.zeros(x[0].int().item()),
    )[1],
}


@pytest.mark.parametrize("function", FROM_VALUES.values(), ids=FROM_VALUES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_backends_take_what_depends_on_values(function, backend):
    calls = [
        (torch.tensor(numbers),)
        for numbers in ([1.0, 2.0], [3.0, 4.0], [3.0, 4.0, 0.0], [2.0, 2.0])
    ]
    with framejit.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        assert compiles(function, calls, backend) <= 4


MUST_AGREE = {
    "a sum": lambda x, y: x[x > 0] + y,
    "a condition": lambda x, y: torch.where(x[x > 0] > 1, x[x > 0], y),
    "without a dimension": lambda x, y: x[x > 0].squeeze(0) + y,
    "a stack": lambda x, y: torch.stack([x[x > 0], x[x < 0]]),
    "a product": lambda x, y: x[x > 0][None] @ torch.ones(3, 2),
    "rows": lambda x, y: x[x > 0].view(-1, 3).sum(0) + y,
}


@pytest.mark.parametrize("function", MUST_AGREE.values(), ids=MUST_AGREE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_sizes_that_depend_on_values_and_disagree(function, backend):
    """Eager broadcasts one element, and raises for other numbers of them."""
    y = torch.tensor([1.0, 2, 3])
    with framejit.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = framejit.compile(function, backend=backend)
        for positive in (3, 1, 2, 0, 6, 3):
            x = torch.arange(1.0, 7) * torch.tensor([1.0] * positive + [-1.0] * (6 - positive))
            try:
                expected = function(x, y)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    compiled(x, y)
            else:
                assert torch.equal(compiled(x, y), expected)


def test_a_branch_on_such_a_number_breaks():
    def f(x):
        n = x.sum().item()
        return x + 1 if n > 3 else x - 1

    with framejit.config.patch(capture_scalar_outputs=True):
        assert compiles(f, [(torch.ones(n),) for n in (2, 3, 7)]) <= 8


FUNCTIONS = [
    math.sqrt,
    math.cos,
    math.sin,
    math.tan,
    math.tanh,
    math.atan,
    math.cosh,
    math.sinh,
    math.acos,
    math.asin,
    math.log2,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functions_of_numbers_that_vary(function, backend):
    numbers = [(torch.ones(3), number) for number in (0.25, 0.5, 0.75, 0.125, 0.625)]
    assert (
        compiles(lambda x, number: (x * function(number), function(number) + 1), numbers, backend)
        == 2
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_branches_on_functions_of_numbers_that_vary(function):
    limit = function(0.4)
    numbers = [(torch.ones(3), number) for number in (0.25, 0.3, 0.35, 0.5, 0.75, 0.3)]
    assert compiles(lambda x, number: x + 1 if function(number) > limit else x - 1, numbers) == 3


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_where_they_are_not_defined(function):
    def f(x, number):
        try:
            return x + function(number)
        except (ValueError, OverflowError) as error:
            return x, str(error)

    compiles(
        f,
        [
            (torch.ones(3), number)
            for number in (0.25, 0.5, math.inf, -math.inf, 2.0, -1.0, 800.0, 0.0, 0.75)
        ],
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_float_that_was_to_vary_and_cannot(backend):
    numbers = [(torch.ones(3), number) for number in (0.25, 0.5, 0.75)]
    assert compiles(lambda x, number: x * math.gamma(number), numbers, backend) == 3


OPTIMIZERS = {
    "AdamW": {}, "AdamW, many at once": {"foreach": True}, "Adam": {"amsgrad": True}, "NAdam": {}, "Adagrad": {}, "SGD": {"momentum": 0.9},
}  # fmt: skip


@pytest.mark.parametrize(
    "name, backend",
    [
        *((name, None) for name in OPTIMIZERS),
        ("SGD", "aot_eager"),
        ("AdamW, many at once", "aot_eager"),
    ],
)
def test_an_optimizer_with_a_scheduler(name, backend):
    """torch.optim asks torch.compiler.is_compiling() and then keeps its bias correction in tensors,
    which rounds otherwise."""
    models = [
        torch.nn.Sequential(copy.deepcopy(LINEAR), *(torch.nn.Linear(4, 4) for _ in range(4)))
    ]
    models.append(copy.deepcopy(models[0]))
    made: list = []
    for model in models:
        optimizer = getattr(torch.optim, name.partition(",")[0])(
            model.parameters(), lr=0.01, **OPTIMIZERS[name]
        )
        made.append((model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)))

    def step(optimizer, scheduler):
        optimizer.step()
        scheduler.step()

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(step, **({"backend": backend} if backend else {}))
    x = torch.randn(3, 4)
    for _ in range(30):
        for (model, optimizer, scheduler), do in zip(made, (step, compiled), strict=True):
            model.zero_grad()
            model(x).square().mean().backward()
            do(optimizer, scheduler)
    # what is new in the first step is the state, in the second the numbers that vary
    assert all(len(site.entries) <= 2 for site in compiled.framejit.cache.sites())
    torch.testing.assert_close(list(models[1].parameters()), list(models[0].parameters()))
    assert made[0][2].get_last_lr() == made[1][2].get_last_lr()


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_optimizers_step_is_one_graph(wrapped, monkeypatch):
    """Also where torch.compile ran in this process before: it then wraps a method of torch's
    optimizers."""
    if wrapped:
        monkeypatch.setattr(
            torch.optim.Adam, "_init_group", torch._dynamo.disable(torch.optim.Adam._init_group)
        )
    model = copy.deepcopy(LINEAR)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()  # makes its state
    compiled = framejit.compile(lambda: optimizer.step())
    report = framejit.explain(compiled)()
    assert len(report.graphs) == 1
    compiled()
    compiled()
    assert all(len(site.entries) <= 1 for site in compiled.framejit.cache.sites())


def test_guards_of_the_last_operation_have_its_line():
    def f(x):
        return torch.corrcoef(x)

    x = torch.randn(2, 3)
    assert compiles(f, [(x,)], dynamic=True)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.shape[0] > 0, x + 1),
        lambda x: (x.shape[0] >= 1, len(x) == 0, x.sum(0)),
        lambda x: (min(1, x.shape[0] * 2), x + 1),
    ],
)
def test_no_rows(function, dynamic):
    compiles(function, rows(3, 4, 0, 5, 1), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
def test_where_a_storage_begins(dynamic):
    base = torch.arange(12.0)
    parts = [(base[at : at + 4],) for at in (0, 3, 0, 1, 5)]
    compiles(
        lambda x: (x.storage_offset(), x.storage_offset() > 0, min(1, x.storage_offset()), x + 1),
        parts,
        dynamic=dynamic,
    )
    compiles(lambda x: (x[1:].storage_offset(), x + 1), parts, dynamic=dynamic)


def test_a_gradient_that_asks_where_a_storage_begins():
    def f(x):
        return torch.as_strided_copy(x, (2, 2), (1, 2), 1)

    x = torch.randn(3, 3, requires_grad=True)
    (wanted,) = torch.autograd.grad(f(x).sum(), x)
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f, backend="aot_eager", dynamic=True)
    (got,) = torch.autograd.grad(compiled(x).sum(), x)
    assert torch.equal(got, wanted)


HUGE = 10**5000  # more digits than Python shows


@pytest.mark.parametrize("use", [
    lambda x, n: (x + 1, n + 1, n % 7, n > 3),
    lambda x, n: (x * (n % 5), n // 2, n == HUGE),
    lambda x, n: (x + 1, [n] * 2, {n: 1}, -n, n * n, n << 3, n.bit_length(), {n: 2}.get(n + 1)),
    lambda x, n: (x + 1, (n % 10) * HUGE, n % 10 - HUGE < 3, (n % 9 + 2) ** 20000),
    lambda x, n: (x + 1, range(n)[5], range(n), slice(n)),
    lambda x, n: (x + 1, str(n)),
    lambda x, n: x * n,
])  # fmt: skip
def test_numbers_of_more_digits_than_python_shows(use):
    def asked(run, n):
        try:
            return list(map(same_tensors, run(torch.ones(2), n)))
        except (ValueError, RuntimeError, OverflowError) as error:
            return type(error), str(error)

    def same_tensors(item):
        return item.tolist() if isinstance(item, torch.Tensor) else item

    with framejit.config.patch(strict=True):
        handle = framejit.compile(use, backend="eager")
    for n in (HUGE, HUGE + 1, HUGE * 3, 7, HUGE - 9, 8, 9, HUGE):
        assert (asked(handle, n) == asked(use, n)) is True
    handle.framejit.generated_code(), handle.framejit.explain()


def test_a_refused_write_into_a_tensor_of_varying_size_loses_nothing_before_it():
    def f(x, items):
        x += 1
        items.append(x * 2)
        row = x.sum(0, keepdim=True).expand(x.shape)
        row += 1
        return row

    handle = framejit.compile(f, backend="eager", dynamic=True)
    for rows in (2, 3, 4):
        mine, yours, x, y = [], [], torch.ones(rows, 3), torch.ones(rows, 3)
        for run, items, given in ((f, mine, x), (handle, yours, y)):
            with pytest.raises(
                RuntimeError, match="more than one element of the written-to tensor"
            ):
                run(given, items)
        assert torch.equal(x, y) and len(mine) == len(yours) == 1 and torch.equal(mine[0], yours[0])
    assert torch.equal(handle(torch.ones(1, 3), []), f(torch.ones(1, 3), []))


def test_a_view_of_varying_size_beside_what_it_is_a_view_of():
    def f(view, x):
        return view * 2, x.shape[0], x

    handle = framejit.compile(f, backend="eager")
    for rows in (4, 5, 7):
        x = torch.ones(rows, 3)
        view = x.t().t()
        framejit.mark_dynamic(view, 0)
        doubled, size, same = handle(view, x)
        assert doubled.shape == x.shape and size == rows and same is x
    assert handle.framejit.compiles == 1


WITHOUT_A_SYMBOL = """
import sys
import torch
import framejit

def f(x, out, items):
    for item in items:
        x = x * 2 + item
    return torch.add(x, 1, out=out), out[1:]

handle = framejit.compile(f, backend="eager")
handle(torch.ones(3), torch.empty(3), [1, 2, 3])
assert handle.framejit.compiles == 1
assert "framejit.frontend.tracing.trace" in sys.modules
assert "framejit.frontend.tracing.sizes.shapes" not in sys.modules
"""


def test_a_capture_without_a_symbol_does_not_load_symbolic_shapes(torch_server, tmp_path):
    """They take half a second to import, and fakes of their environment have symbols in places of
    their own."""
    done = torch_server.run(WITHOUT_A_SYMBOL, tmp_path)
    assert done.returncode == 0, done.stderr


def copied_deeply(x):
    y = x * 2
    copied = copy.deepcopy({"y": y, "x": x})
    copied["y"].add_(1)
    copied["x"].add_(1)
    return y, copied, x


def test_deep_copies_of_tensors_that_vary():
    handle = framejit.compile(copied_deeply, backend="eager", dynamic=True)
    for size in (5, 6, 7):
        torch.testing.assert_close(handle(torch.ones(size, 3)), copied_deeply(torch.ones(size, 3)))
    handle = framejit.compile(lambda x: copy.deepcopy([x[1:]]), backend="eager", dynamic=True)
    for size in (5, 6):
        copied = handle(torch.ones(size, 3))[0]  # of a part of memory, all of it
        assert copied.untyped_storage().nbytes() == size * 12 and copied.storage_offset() == 3


STRIDES_OF_ONE = (
    lambda x: x.reshape(1, -1).stride(), lambda x: x.sum().expand(1, 1).stride(), lambda x: x.permute(1, 0)[None].mul(2).stride(0),
    lambda x: x.reshape(-1, 1).stride(), lambda x: (x[:, :1] * 2).stride(1), lambda x: x.sum()[None].expand(1, 1).stride(),
)  # fmt: skip


@pytest.mark.parametrize("asked", STRIDES_OF_ONE, ids=range(len(STRIDES_OF_ONE)))
def test_strides_of_dimensions_of_one_element(asked):
    compiles(lambda x: (x + 1, asked(x)), rows(5, 6, 1, 7), dynamic=True)


@pytest.mark.parametrize(
    "more", [{}, {"n": 2}, {"dim": 0}, {"prepend": 1}, {"append": 2, "prepend": 1}]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_differences_of_sizes_that_vary(more, dtype):
    def f(x):
        ends = {name: x[:, : more[name]] for name in ("prepend", "append") if name in more}
        return torch.diff(x, **{name: more[name] for name in ("n", "dim") if name in more}, **ends)

    def cases():
        for rows, columns in ((3, 4), (4, 5), (5, 7), (6, 9)):
            yield ((torch.arange(rows * columns) ** 2 % 5).reshape(rows, columns).to(dtype),)

    assert compiles(f, cases()) == 2


def test_a_size_that_is_the_smaller_of_two_is_given_to_python():
    def f(x):
        x.t_()
        diagonal = x.diagonal()
        return diagonal.expand(2, *diagonal.shape), diagonal.chunk(2, -1)[1]

    handle = framejit.compile(f, backend="eager")
    for shape in ((4, 4), (4, 3), (3, 5), (7, 6)):
        x = torch.arange(float(shape[0] * shape[1])).view(shape)
        for mine, yours in zip(handle(x.clone()), f(x.clone()), strict=True):
            assert torch.equal(mine, yours)
