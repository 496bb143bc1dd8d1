"""Numbers and sizes that depend on values are nodes of the graph: one graph, and eager's results
for each call, whatever torch takes for granted of such sizes."""

from __future__ import annotations

import framejit
import pytest
import torch

POSITIVE = (3, 1, 2, 0, 6, 3, 1)  # how many elements are positive, call by call
BACKENDS = ("eager", "aot_eager", "native", "torchscript")


def arguments(positive, grad):
    x = torch.arange(1.0, 7) * torch.tensor([1.0] * positive + [-1.0] * (6 - positive))
    y = torch.tensor([1.0, 2, 3])
    return tuple(tensor.requires_grad_(grad) for tensor in (x, y))


def assert_alike(given, expected):
    assert type(given) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(given) == len(expected)
        for one, other in zip(given, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, str):
        assert given == expected
    else:
        torch.testing.assert_close(given, expected, equal_nan=True)


def differentiate(result):
    items = result if isinstance(result, tuple | list) else [result]
    for item in items:
        if isinstance(item, torch.Tensor) and item.requires_grad:
            item.sum().backward()
            return


def compare(function, backend, grad):
    """Compares each call with eager; returns the report."""
    compiled = framejit.compile(function, backend=backend)
    for positive in POSITIVE:
        ours, theirs = arguments(positive, grad), arguments(positive, grad)
        try:
            expected = function(*theirs)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                compiled(*ours)
            continue
        given = compiled(*ours)
        assert_alike(given, expected)
        assert_alike(ours, theirs)
        differentiate(given)
        differentiate(expected)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one.grad, other.grad)
    return compiled.framejit.explain()


def scatter_back(x, y):
    mask = x > 0
    rows = x[mask]
    result = torch.zeros(6)
    result[mask] = torch.relu(rows[:, None] @ y[None]).sum(-1) + 1
    return result


def mask_twice(x, y):
    mask = x > 0
    return x[mask] * (x * 2)[mask]


def scalars(x, y):
    number = x.sum().item()
    return torch.full((3,), number), x.clamp(max=number), torch.tensor([number, 1.0])


def kinds(x, y):
    number = x.sum().item()
    return isinstance(number, float), type(number) is float, number, [number, number + 1]


def sizes(x, y):
    count = (x > 0).sum().item()
    return torch.ones(count, 3) + y, torch.ones(3, count).sum(0), torch.arange(count)


def divisions(x, y):
    rows = x[x > 0]
    return rows.sum() / rows.numel() + y, rows.numel() * 2


def list_of_numbers(x, y):
    numbers = y.long().tolist()
    return numbers, sum(numbers), x.sum() * numbers[1], len(numbers)


def split(x, y):
    return x.split(y.long().tolist())


def reductions(x, y):
    rows = x[x > 0]
    return rows.softmax(0), rows.mean(), rows.cumsum(0), rows.sort().values, rows.flip(0)


def views(x, y):
    rows = x[x > 0]
    return rows.expand(2, -1).sum(1), rows[None].repeat(2, 1), rows.unsqueeze(-1) * y


def columns(x, y):
    chosen = x.view(2, 3)[:, y > 1.5]
    return chosen.contiguous(), chosen.t() + 1, chosen.t().contiguous().view(-1)


def unique(x, y):
    found, places, counts = torch.unique((x > 0).long(), return_inverse=True, return_counts=True)
    return found, places, counts, found[places]


def where(x, y):
    (places,) = torch.where(x > 0)
    return places, x[places] + places


def repeat(x, y):
    return torch.repeat_interleave(y, y.long(), dim=0) * 2, torch.repeat_interleave(y.long())


def concatenation(x, y):
    every = torch.cat([x[x > 0], y, x[x <= 0]])
    return every * 2, every.shape[0]


def written_in_place(x, y):
    rows = x[x > 0]
    rows.mul_(2)
    return rows + 1, x


def text(x, y):
    return f"{x.max().item():.2f} of {int((x > 0).sum())}"


def text_of_tensors(x, y):
    return f"{x.max():.2f} of {(x > 0).sum()} ({x[0]:>8.1e}, {(x > 0).any()}, {y.long().max()})"


def tensors_as_bounds(x, y):
    count = (x > 0).sum()
    grid = x.view(2, 3)
    return x[:count] * 2, x[count:].sum(), x[-y[0].int() :], grid[:, : y.long()[1]]


def lengths_by_cumulation(x, y):
    ends = torch.nn.functional.pad(y.long().cumsum(0), (1, 0))
    return torch.cat([x[ends[i] : ends[i + 1]] * i for i in range(3)])


def tensors_as_indices(x, y):
    count = (x > 0).sum().clamp(max=5)
    grid = x.view(2, 3)
    return x[count] * 2, grid[1, -y.long()[0]], grid[y.long()[0]], grid[None, 0, count % 3]


def numbers_as_indices(x, y):
    count = (x > 0).sum().item()
    return x[count - 1] * 2, x.view(3, 2)[count // 4, 1], y[-1 - count // 3]


def written_by_tensors(x, y):
    made, count = x * 2, (x > 0).sum().clamp(max=5)
    made[count:] = 0
    made[count] = 7
    made[: y.long()[0]] = x[0]
    return made


def smaller_and_larger(x, y):
    count = (x > 0).sum().item()
    return x[: min(count, 4)], torch.zeros(max(count, 2)), max(count, 1, 3) * y


def compared_lengths(x, y):
    steps = torch.arange(int(y.long().max()))
    return (steps[None] < y.long()[:, None]).float() * y[:, None], steps.float() @ steps.float()


def classes(x, y):
    one_hot = torch.nn.functional.one_hot
    return one_hot(y.long()) * x[0], one_hot(y.long() + 1, num_classes=-1), one_hot(y.long(), 5)


ONE_GRAPH = [
    classes,
    text_of_tensors, tensors_as_bounds, lengths_by_cumulation, tensors_as_indices,
    numbers_as_indices, written_by_tensors, smaller_and_larger, compared_lengths,
    scatter_back, mask_twice, scalars, kinds, sizes, divisions, list_of_numbers, split, reductions,
    views, columns, unique, where, repeat, concatenation, written_in_place, text,
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph(function, backend, grad):
    report = compare(function, backend, grad)
    assert len(report.graphs) == 1 and not report.breaks


# What torch takes for granted, and Python code that knows it from there on.


def folded_shape(x, y):
    rows = x[x > 0]
    both = rows + y
    return both, rows.shape[0], tuple(both.shape)


def dropped_dimension(x, y):
    rows = x[x > 0].squeeze(0)
    return rows * 2, rows.dim()


def write_after(x, y):
    with torch.no_grad():
        y.add_(x[x > 0])
    return y * 2


def write_before(x, y):
    with torch.no_grad():
        y.add_(1)
    return x[x > 0] + y


def side_effects(x, y):
    kept = []
    kept.append(x[x > 0])
    kept.append(kept[0] + y)
    return kept


def checked(x, y):
    count = (x > 0).sum().item()
    torch._check(count > 1)
    torch._check(count < 6)
    return torch.zeros(count) + 1, count


def checked_number(x, y):
    count = (x > 0).sum().item()
    torch._check(count == 3)
    return count, torch.zeros(count)


def two_masks(x, y):
    return x[x > 0] * x[x < 0]


def in_a_call(x, y):
    def choose(mask):
        return x[mask]

    return choose(x > 0) + y


def branch(x, y):
    count = (x > 0).sum().item()
    return x + count if count > 2 else x - count


def branch_on_size(x, y):
    rows = x[x > 0]
    return rows.max() + y if rows.shape[0] else y


def loop(x, y):
    for step in range((x > 0).sum().item()):
        y = y + step
    return y


def index(x, y):
    count = (x > 0).sum().item()
    return x[:count], x[count:]


def integer_of_fraction(x, y):
    return int(x.max()), float(x.max()), int(y.long().sum()) * 2


def reshaped(x, y):
    rows = x[x > 0]
    return rows.view(-1, 3), rows.reshape(3, -1).t() * 2


TAKEN_FOR_GRANTED = [
    folded_shape, dropped_dimension, write_after, write_before, side_effects, checked,
    checked_number, two_masks, in_a_call, branch, branch_on_size, loop, index, integer_of_fraction,
    reshaped,
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("function", TAKEN_FOR_GRANTED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_torch_takes_for_granted(function, backend, grad):
    compare(function, backend, grad)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branch, "data-dependent-value"),
        (branch_on_size, "data-dependent-shape"),
        (loop, "data-dependent-value"),
        (dropped_dimension, "data-dependent-shape"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_break_is_at_the_operation_that_gives_the_number(function, reason):
    """Not where it is needed: Python hands the number on, and it varies from there on."""
    report = framejit.explain(function, backend="eager")(*arguments(3, False))
    first = report.breaks[0]
    line = function.__code__.co_firstlineno + 1
    assert first.id == reason and first.where.endswith(f":{line}")


def test_options_leave_them_to_python():
    for option, function in {
        "capture_scalar_outputs": kinds,
        "capture_dynamic_output_shape_ops": where,
    }.items():
        with framejit.config.patch(**{option: False}):
            report = framejit.explain(function, backend="eager")(*arguments(3, False))
        assert report.breaks[0].id.startswith("data-dependent")


def test_a_fact_that_was_wrong_is_left_to_python():
    """The first call that it is wrong in runs in eager; then there is a break, and no more of
    that."""
    compiled = framejit.compile(lambda x, y: x[x > 0] + y, backend="eager")
    for positive in (3, 1, 1, 1, 3, 1):
        x, y = arguments(positive, False)
        assert torch.equal(compiled(x, y), x[x > 0] + y)
    report = compiled.framejit.explain()
    assert [one.id for one in report.breaks] == ["data-dependent-shape"]


# Conditions that can only raise where they are wrong: one graph as long as they hold


def asserted(x, y):
    assert (x > 0).sum().item() <= x.shape[0]
    assert (x > -100).all().item(), "small"
    return x.sin()


def raised(x, y):
    if (x > 0).sum().item() > 5:
        raise ValueError("too many")
    if torch.isnan(x).any().item():
        raise ValueError("not a number")
    return x.sin()


def negated(x, y):
    wrong = (x > 5).any().item()
    if not wrong:
        return x.cos() + wrong
    raise ValueError("a large one")


def fraction(x, y):
    if not x.sum().item() < 15.5:
        raise OverflowError(f"the sum is {x.sum().item()}")
    return x * 2


def checks(x, y):
    count = (x > 0).sum().item()
    torch._check(count <= x.shape[0])
    torch._check_is_size(count, max=5)
    torch._check_value((y > 0).all().item(), lambda: "not positive")
    torch._check_index(count < 6)
    return x.narrow(0, 0, count)


def checks_of_tensors(x, y):
    torch._check_tensor_all(x < 6, lambda: f"too large: {x.max()}")
    torch._assert((x < 7).all(), "larger still")
    return x[: (x > 0).sum()]


def exact(x, y):
    rows, count = x[x > 0], (y > 0).sum().item()
    assert rows.shape[0] < 6
    assert count == 3
    if (x > 5).sum().item() != 0:
        raise ValueError("large")
    return rows * count, torch.ones(count)


def classes_below_zero(x, y):
    return torch.nn.functional.one_hot((5 - x).long()), y


def bools(x, y):
    found = (x > 0).any().item()
    return found, f"{found}", x * 2


CHECKED = [
    asserted,
    raised,
    negated,
    fraction,
    checks,
    checks_of_tensors,
    classes_below_zero,
    bools,
]


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("function", CHECKED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_conditions_that_hold(function, backend, grad):
    compiled = framejit.compile(function, backend=backend)
    for positive in (3, 2, 4, 3, 5):
        ours, theirs = arguments(positive, grad), arguments(positive, grad)
        given, expected = compiled(*ours), function(*theirs)
        assert_alike(given, expected)
        differentiate(given)
        differentiate(expected)
        assert_alike([one.grad is None for one in ours], [one.grad is None for one in theirs])
        assert_alike([one.grad for one in ours[:1]], [one.grad for one in theirs[:1]])
    report = compiled.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks


@pytest.mark.parametrize("function", CHECKED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_conditions_that_fail(function, backend):
    """Each call raises what eager raises, and later ones are served again."""
    compiled = framejit.compile(function, backend=backend)
    for positive in (3, 6, 2, 6, 6, 3):
        ours = arguments(positive, False)
        outcomes = []
        for f in (function, compiled):
            try:
                outcomes.append(f(*ours))
            except Exception as error:
                outcomes.append((type(error), str(error)))
        if isinstance(outcomes[0], tuple) and isinstance(outcomes[0][0], type):
            assert outcomes[0] == outcomes[1]
        else:
            assert_alike(outcomes[1], outcomes[0])


def caught(x, y):
    try:
        if (x > 0).sum().item() > 3:
            raise ValueError("too many")
        return x.sin()
    except ValueError:
        return x.cos()


def both_sides_go_on(x, y):
    if (x > 0).any().item():
        return x.sin()
    return x.cos()


@pytest.mark.parametrize("function", [caught, both_sides_go_on])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_conditions_that_are_breaks(function, backend):
    report = compare(function, backend, False)
    assert [one.id for one in report.breaks] == ["data-dependent-value"]


def test_an_index_outside():
    """The call in which a number is no index of the tensor raises as in eager."""
    for number in (6, -7):
        compiled = framejit.compile(lambda x, n: x[n] + x[n.item()], backend="eager")
        x = torch.arange(6.0)
        for index in (2, -1, number, 0):
            try:
                expected = x[index] * 2
            except IndexError:
                with pytest.raises(IndexError):
                    compiled(x, torch.tensor(index))
            else:
                assert torch.equal(compiled(x, torch.tensor(index)), expected)


# Programs


def routed_experts(x, experts, gate):
    scores = (x @ gate).softmax(-1)
    best = scores.argmax(-1)
    result = torch.zeros_like(x)
    for number in range(4):
        chosen = (best == number).nonzero().squeeze(-1)
        made = torch.relu(x[chosen] @ experts[number]) * scores[chosen, number].unsqueeze(-1)
        result = result.index_add(0, chosen, made)
    return result


def packed_sequences(x, lengths):
    return torch.stack([part.mean(0) for part in x.split(lengths.tolist())])


def boxes_above(boxes, scores):
    kept = (scores > 0.5).nonzero().squeeze(-1)
    kept = kept[scores[kept].argsort(descending=True)]
    widths = boxes[kept, 2:] - boxes[kept, :2]
    return boxes[kept] * 2, scores[kept].sigmoid(), widths.prod(-1)


def loss_of_some(x, targets):
    counted = targets != 2
    return torch.nn.functional.cross_entropy(x[counted], targets[counted])


PROGRAMS = {
    routed_experts: lambda n: (torch.randn(24, 8), torch.randn(4, 8, 8), torch.randn(8, 4)),
    packed_sequences: lambda n: (torch.randn(10, 8), torch.tensor([2 + n, 3, 5 - n])),
    boxes_above: lambda n: (torch.rand(20, 4).cumsum(-1), torch.rand(20)),
    loss_of_some: lambda n: (torch.randn(20, 5), torch.randint(0, 5, (20,))),
}


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", [*BACKENDS, "autotune"])
def test_programs(function, backend, grad):
    torch.manual_seed(0)
    compiled = framejit.compile(function, backend=backend)
    for call in range(4):
        given = PROGRAMS[function](call)
        ours, theirs = (
            [one.clone().requires_grad_(grad and one.is_floating_point()) for one in given]
            for _ in range(2)
        )
        results = compiled(*ours), function(*theirs)
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        for result in results:
            differentiate(result)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    report = compiled.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks
