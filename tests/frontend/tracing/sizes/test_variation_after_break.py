"""A branch on a tensor of which one side raises: the other one is expected, and where that is wrong
the frame starts over in eager.

PYTEST_DONT_REWRITE: `assert` in a compiled function must be Python's own.
"""

from __future__ import annotations

import contextlib
import contextvars
import random
import time

import numpy as np
import pytest
import torch
from framejit import events

from ...semantics.harness import capture_events, check, strict_compile, vec

NEGATIVE = -torch.ones(2)


def asserted(x, log):
    log.append(1)
    assert (x > 0).all(), f"negative: {x.tolist()}"
    log.append(2)
    return x + 1


def raised(x, log):
    y = x * 2
    log.append(y)
    if torch.any(y < 0):
        total = y.sum().item()
        raise ValueError(f"sum {total}" if total > -10 else "much")
    return y + 1


def raised_on_the_way_on(x, log):
    if (x > 0).all():
        log.append(x)
        return x * 2
    log.append("bad")
    raise ValueError("bad")


def number(x, log):
    assert x.sum() + 2
    return x - 1


def in_callees(x, log):
    y = asserted(x + 0.5, log)
    log.append("between")
    return raised(y, log) * 2


def random_before(x, log):
    noise = torch.rand(2)
    asserted(x, log)
    return x + noise, torch.rand(1)


def under_with(x, log):
    with torch.no_grad():
        assert (x > 0).all()
        y = x * 2
    return y


def behind_finally(x, log):
    try:
        assert (x > 0).all()
    finally:
        log.append("finally")
    return x * 3


def in_a_comprehension(x, log):
    return [asserted(x * n, log) for n in (1, 2)]


def in_a_generator(x, log):
    def parts():
        for n in range(2):
            yield asserted(x + n, log)

    return sum(parts())


def nested(x, log):
    if len(log) < 5:
        if (x < 0).any():
            if x.dim() == 1:
                raise KeyError(x.dim())
            raise ValueError("several dimensions")
        x = x + 1
    return x


FUNCTIONS = [asserted, raised, raised_on_the_way_on, number, in_callees, random_before, under_with, behind_finally, in_a_comprehension,
             in_a_generator, nested]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_graph(function):
    check(function, vec(2), [], fullgraph=True)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_was_not_expected_is_eagers(function):
    check(function, NEGATIVE, [], graphs=None, breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_sometimes_right_sometimes_not(backend):
    def f(x, log):
        noise = torch.rand(2)
        log.append(1)
        assert not torch.isnan(x).any(), "nan"
        return (x * 2 + noise).relu()

    compiled = strict_compile(f, backend=backend)
    log, expected = [], []
    for x in (vec(2), NEGATIVE, torch.full((2,), torch.nan), vec(2)):
        outcomes = []
        for call, kept in ((f, expected), (compiled, log)):
            torch.manual_seed(0)
            try:
                outcomes.append(call(x, kept).tolist())
            except AssertionError as error:
                outcomes.append(str(error))
            outcomes.append(torch.rand(1).item())
        assert outcomes[:2] == outcomes[2:]
    assert compiled.framejit.compiles == 1 and log == expected


def test_gradients():
    def f(x, weight):
        y = x * weight
        assert (y != 0).all()
        return y.sin()

    check(f, vec(2, grad=True), vec(2, grad=True), backward=True)
    check(f, vec(2, grad=True), vec(2, grad=True), backward=True, backend="aot_eager")


def caught(x, log):
    try:
        return asserted(x, log)
    except AssertionError:
        return x * 3


def caught_as_another(x, log):
    try:
        y = raised(x, log)
    except NotImplementedError:
        y = x
    return y.sin()


@pytest.mark.parametrize("function", [caught, caught_as_another])
def test_what_may_be_caught_is_expected_until_that_is_wrong(function):
    check(function, vec(2), [], fullgraph=True)
    check(function, NEGATIVE, [], graphs=None, breaks=None, again=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_that_was_expected_in_vain_becomes_a_break(backend):
    compiled = strict_compile(caught, backend=backend)
    seen = capture_events(compiled)
    log, expected = [], []
    counts = []
    for x in (vec(2), NEGATIVE, vec(2), NEGATIVE, vec(2), NEGATIVE):
        assert compiled(x, log).tolist() == caught(x, expected).tolist()
        counts.append(compiled.framejit.compiles)
    assert log == expected and counts[3] == counts[-1] <= 8
    assert [event.reason_id for event in seen if isinstance(event, events.Break)].count(
        "data-dependent-branch"
    ) == 2  # in f, and in the callee


def suppressed(x, log):
    with contextlib.suppress(AssertionError):
        log.append(1)
        if (x > 0).all():
            return x + 1
        log.append(2)
    return x * 2


def returns_early(x, log):
    if (x < 0).any():
        log.append("negative")
        return x
    return x + 1


def caught_in_the_same_frame(x, log):
    try:
        if (x < 0).any():
            raise ValueError("negative")
    except ValueError as error:
        log.append(str(error))
    return x + 1


@pytest.mark.parametrize("function", [caught_in_the_same_frame, suppressed, returns_early])
@pytest.mark.parametrize("x", [vec(2), NEGATIVE], ids=["expected", "not"])
def test_a_branch_where_both_sides_go_on_is_a_break(function, x):
    check(function, x, [], graphs=None, breaks=("data-dependent-branch",))


WRITES = {
    "counted": lambda x, state: state.add_(1),
    "statistics": lambda x, state: torch.nn.functional.batch_norm(
        x[:, None], state[:1], state[1:], training=True
    ),
    "foreach": lambda x, state: torch._foreach_add_([state], [x]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_graph_that_writes_restores_what_it_wrote(name):
    write = WRITES[name]

    def f(x, state):
        write(x, state)
        assert (x > 0).all()
        return x + state

    check(f, vec(2), vec(2), graphs=1)
    check(f, NEGATIVE, vec(2), graphs=None, breaks=None)


def test_inside_a_piece_of_a_graph():
    def f(x):
        def inner(t):
            assert (t > 0).all()
            return t.sin()

        return torch.utils.checkpoint.checkpoint(inner, x * 2, use_reentrant=False)

    check(f, vec(2, grad=True), graphs=None, breaks=None, backward=True)


# numbers that Python's functions give


def drawn(x):
    return x * random.random()


def drawn_integer(x):
    return x + random.randint(0, 5)


def drawn_twice(x):
    return x + random.uniform(-1, 1) + random.gauss(0, 1)


def kept(x):
    first, second = random.random(), random.random()
    return torch.full((3,), first) + second


def chosen(x):
    return x * random.choice([1.0, 2.0, 3.0])


def as_an_index(x):
    return x[random.randint(0, 3)] * 2


def as_a_size(x):
    return x[: random.randrange(2, 5)] * 2


def in_turns(x):
    for _ in range(3):
        x = x * random.random() + 1
    return x


def never_taken(x):
    if random.random() > 2:
        x = x + 1
    return x * 2


def numpys(x):
    return x * np.random.rand()


def timed(x):
    start = time.perf_counter()
    y = x.sin()
    return y + 0 * (time.perf_counter() - start)


def variable_of_a_context(x):
    token = CONTEXT.set(3.0)
    y = x * CONTEXT.get()
    CONTEXT.reset(token)
    return y


CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
BREAKS = {
    drawn: 1, drawn_integer: 1, drawn_twice: 2, kept: 2, chosen: 1, as_an_index: 1, as_a_size: 1,
    in_turns: 1, never_taken: 1, numpys: 1, timed: 2, variable_of_a_context: 3,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", BREAKS, ids=lambda function: function.__name__)
def test_a_number_that_python_draws_is_one_break_and_one_capture(function, backend):
    compiled = strict_compile(function, backend=backend)
    for seed in range(7):
        outcomes = []
        for one in (function, compiled):
            random.seed(seed)
            np.random.seed(seed)
            outcomes.append((one(vec(5)), random.random(), np.random.rand()))
        torch.testing.assert_close(outcomes[1], outcomes[0])
    report = compiled.framejit.explain()
    assert len(report.breaks) == BREAKS[function]
    # the loop's first iteration has code of its own
    assert len(report.captures) <= BREAKS[function] + 1 + (function is in_turns)


def test_lists_that_grew_before_a_break():
    """As a metric does: each call adds to two lists and concatenates both."""
    predictions, targets = [], []

    def step(x):
        predictions.append(x)
        targets.append(x * 2)
        whole = torch.cat([one * 1 for one in predictions])
        if whole.sum() > 1000:
            return whole
        return whole + torch.cat([one + 1 for one in targets])

    compiled = strict_compile(step, backend="eager")
    counts = []
    for number in range(12):
        found = compiled(vec(2) + number)
        expected = torch.cat([3 * (vec(2) + before) + 1 for before in range(number + 1)])
        torch.testing.assert_close(found, expected)
        counts.append(compiled.framejit.compiles)
    assert counts[6] == counts[-1]
