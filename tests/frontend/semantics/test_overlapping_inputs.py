"""Inputs that share memory: each way in which they do is compiled for itself, and whatever a graph
writes is eager's, on each backend."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from framejit.events import Captured

BACKENDS = ("eager", "aot_eager", "native", "torchscript", "inductor", "autotune")
TRIED = {
    "autotune": {"candidates": ("native", "torchscript"), "remember": False, "isolate": False}
}  # more than the default tries


def compiled(fn, backend, **kwargs):
    with framejit.config.patch(strict=True):
        return framejit.compile(fn, backend=backend, options=TRIED.get(backend), **kwargs)


def matrix():
    return torch.arange(16.0).view(4, 4)


def write_both(a, b):
    a.add_(1)
    b.mul_(2)
    c = a + b
    return a * b + c


def write_one(a, b):
    b = b + 0.5
    a.add_(b.sum())
    return a * b


def write_first_read_second(a, b):
    a.add_(1)
    return b * 2, a.sum()


def return_a_view(a, b):
    a.mul_(2)
    return b[1:], a[:1]


def return_an_input(a, b):
    a.mul_(2)
    return b, a, b * a


def break_between(a, b):
    a.add_(1)
    print("", end="")
    b.mul_(2)
    return a * b


def set_items(a, b):
    a[0] = b[-1]
    b[1:] = a.sum()
    return a + b


PROGRAMS = (
    write_both,
    write_one,
    write_first_read_second,
    return_a_view,
    return_an_input,
    break_between,
    set_items,
)
PATTERNS = {  # of a matrix of 4 by 4: two views of one shape
    "apart": lambda q: (q[:2], torch.arange(8.0).view(2, 4)),
    "disjoint": lambda q: (q[:2], q[2:]),
    "chunks": lambda q: q.t().contiguous().t().chunk(2),
    "overlapping": lambda q: (q[:2], q[1:3]),
    "the other way round": lambda q: (q[1:3], q[:2]),
    "one memory": lambda q: (q[:2], q[:2]),
    "one object": lambda q: (q[:2],) * 2,
    "detached": lambda q: (q[:2], q[:2].detach()),
    "columns": lambda q: (q[:, :2], q[:, 2:]),
    "overlapping columns": lambda q: (q[:, :2], q[:, 1:3]),
    "even and odd rows": lambda q: (q[::2], q[1::2]),
}
ORDERS = (tuple(PATTERNS), tuple(reversed(PATTERNS)))


def outcome(fn, pattern):
    """What a call returns and leaves behind, and whether writing into each result shows in the
    memory of its inputs."""
    q = matrix()
    views = PATTERNS[pattern](q)
    result = fn(*views)
    results = result if isinstance(result, tuple) else (result,)
    left = [one.clone() for one in (*results, q, *views)]
    for one in results:
        one.add_(100)
    return left, q, [one.stride() for one in results]


COMBINATIONS = [
    pytest.param(program, backend, id=f"{program.__name__}-{backend}")
    for program in PROGRAMS
    for backend in BACKENDS
    if backend != "inductor" or program is write_both  # inductor takes long to compile
]


@pytest.mark.parametrize(("program", "backend"), COMBINATIONS)
@pytest.mark.sweep(3)
def test_each_pattern_is_right_whatever_came_before(program, backend):
    for order in ORDERS if backend != "inductor" else (("disjoint", "overlapping"),):
        handle = compiled(program, backend)
        for pattern in order:
            expected, base, strides = outcome(program, pattern)
            for _ in range(2):
                left, memory, found = outcome(handle, pattern)
                assert all(map(torch.equal, left, expected)), pattern
                assert torch.equal(memory, base) and found == strides, pattern


class Recent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("buf", torch.arange(8.0))
        self.recent = self.buf[4:]

    def forward(self, x):
        self.buf.mul_(2)
        self.recent.add_(x)
        return self.buf.sum() + self.recent * x


class Tied(torch.nn.Module):
    """Two parameters in one memory, one of which the forward pass writes."""

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(4))
        self.two = torch.nn.Parameter(self.one.data)

    def forward(self, x):
        with torch.no_grad():
            self.one.add_(x)
        return self.two * x + self.one


@pytest.mark.parametrize("backend", [backend for backend in BACKENDS if backend != "inductor"])
@pytest.mark.parametrize("cls", [Recent, Tied])
def test_attributes_that_share_memory(cls, backend):
    model, expected = cls(), cls()
    handle = compiled(model, backend)
    for step in range(3):
        x = torch.full((4,), float(step))
        assert torch.equal(handle(x), expected(x))
        assert all(map(torch.equal, model.state_dict().values(), expected.state_dict().values()))


def views_before_a_break(x):
    a, b = x[:-1], x[1:]
    print("", end="")
    a.add_(1)
    b.mul_(2)
    return a * b, x


@pytest.mark.parametrize("backend", [backend for backend in BACKENDS if backend != "inductor"])
def test_views_made_before_a_break(backend):
    handle = compiled(views_before_a_break, backend)
    for _ in range(3):
        assert all(map(torch.equal, handle(matrix()), views_before_a_break(matrix())))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_memory_that_two_storages_know(backend):
    def both(memory):
        return torch.frombuffer(memory, dtype=torch.float32), torch.frombuffer(
            memory, dtype=torch.float32
        )[1:5]

    handle = compiled(write_first_read_second, backend)
    for memory in (bytearray(32), bytearray(32)):
        a, b = both(memory)
        expected = [one.clone() for one in write_first_read_second(*both(bytearray(32)))]
        assert all(map(torch.equal, handle(a, b), expected))
    assert all(
        map(
            torch.equal,
            handle(torch.zeros(8), torch.zeros(4)),
            write_first_read_second(torch.zeros(8), torch.zeros(4)),
        )
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_memory_given_to_a_parameter_later(backend):
    def step(a, b):
        a.add_(1)
        return a * b

    handle = compiled(step, backend)
    a, b = (
        torch.nn.Parameter(torch.ones(4), requires_grad=False),
        torch.nn.Parameter(torch.ones(4), requires_grad=False),
    )
    assert torch.equal(handle(a, b), torch.full((4,), 2.0))
    b.data = a.data
    assert torch.equal(handle(a, b), torch.full((4,), 9.0))


def entries(fn, *calls):
    """How many captures some calls make."""
    seen = []
    handle = compiled(fn, "eager")
    handle.framejit.cache.sinks.append(seen.append)
    for call in calls:
        handle(*call)
    return sum(isinstance(event, Captured) for event in seen)


def test_disjoint_views_do_not_compile_again():
    """Fresh tensors, chunks, columns, interleaved rows: none of them overlap, whatever their
    places."""
    q = torch.zeros(8, 4)
    rows = [
        (torch.zeros(4), torch.zeros(4)),
        (q[0], q[1]),
        (q[3], q[2]),
        tuple(torch.zeros(8).chunk(2)),
    ]
    assert entries(write_both, *rows) == 1
    columns = [(q[:, one], q[:, other]) for one in range(4) for other in range(4) if one != other]
    assert entries(write_both, *columns) == 1


def test_overlapping_views_compile_once_more():
    q = torch.zeros(64)
    assert (
        entries(
            write_both,
            (q[:8], q[8:16]),
            *((q[at : at + 8], q[at + 1 : at + 9]) for at in range(20)),
            (q[:8], q[30:38]),
        )
        == 2
    )


def test_graphs_that_write_nothing_do_not_ask():
    def read(a, b):
        return a * b, a[1:]

    q = torch.zeros(64)
    assert entries(read, (q[:8], q[8:16]), (q[:8], q[:8]), (q[:8], q[1:9])) == 1


def test_the_miss_is_reported():
    handle = compiled(write_both, "eager")
    q = torch.zeros(16)
    handle(q[:8], q[8:])
    handle(q[:8], q[4:12])
    assert "memory of a and b" in str(handle.framejit.explain())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("make", [
    lambda: torch.arange(4.0).expand(3, 4), lambda: torch.arange(6.0).as_strided((3, 4), (1, 1)),
    lambda: torch.arange(8.0).unfold(0, 4, 2), lambda: torch.arange(8.0).unfold(0, 4, 4),
], ids=["expanded", "strided", "unfolded", "apart"])  # fmt: skip
def test_elements_of_one_input_that_share_memory(make, backend):
    def double(x):
        x.mul_(2)
        return x + 1

    def fill(x):
        x.zero_()
        return x + 1

    for program in (double, fill):
        handle = compiled(program, backend)
        for _ in range(2):
            x, y = make(), make()
            assert attempt(handle, x) == attempt(program, y)
            assert torch.equal(x, y)


def attempt(fn, x):
    try:
        return fn(x).tolist()
    except RuntimeError as error:
        return str(error).partition("\n")[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("program", [
    lambda x: x[:, :3].add_(x[:, 1:]), lambda x: x[:, 1:].mul_(x[:, :3]), lambda x: x.unfold(0, 2, 1).add_(1),
    lambda x: x.as_strided((3, 3), (1, 1)).mul_(2), lambda x: x.add_(x), lambda x: x.copy_(x.t()), lambda x: x[:, :2].copy_(x[:, 1:3]),
    lambda x: torch._foreach_add_([x[0], x[0]], 1), lambda x: torch._foreach_mul_([x[:2], x[1:3]], [2.0, 3.0]),
    lambda x: x.__setitem__((slice(None), slice(0, 2)), x[:, 1:3]), lambda x: torch.cumsum(x, 0, out=x),
], ids=range(11))  # fmt: skip
def test_views_inside_a_graph_that_overlap_what_they_are_given(program, backend):
    def run(x):
        x.add_(0.5)
        program(x)
        return x * 2

    handle = compiled(run, backend)
    for _ in range(2):
        x, y = matrix(), matrix()
        assert attempt(handle, x) == attempt(run, y)
        assert torch.equal(x, y)


def gains_a_history(a, b, p):
    a.mul_(p)
    return b * 2, b.requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_views_of_one_base_that_gain_a_history_together(backend):
    handle = compiled(gains_a_history, backend)
    for pattern in ("apart", "disjoint", "columns", "apart"):
        found = []
        for fn in (handle, gains_a_history):
            p = torch.ones((), requires_grad=True)
            result, said = fn(*PATTERNS[pattern](matrix()), p)
            found.append((result.detach().tolist(), said, result.requires_grad))
        assert found[0] == found[1], pattern


def test_a_backend_may_say_that_it_takes_overlapping_inputs():
    given = []

    def noting(gm, examples):
        given.append(gm)
        return gm.forward

    q = matrix()
    framejit.compile(write_both, backend=noting)(q[:2], q[1:3])
    assert not given
    framejit.register_backend("noting_overlaps", noting, overlaps=True)
    framejit.compile(copy.copy(write_both), backend="noting_overlaps")(q[:2], q[1:3])
    assert len(given) == 1
    with pytest.raises(
        framejit.errors.RequirementError, match="a, which is written, shares memory with b"
    ):
        framejit.compile(write_both, backend="autotune", options={"cudagraphs": "require"})(
            q[:2], q[1:3]
        )


def both_with_histories(c, a):
    torch._foreach_mul_([c, a], [3, 2])
    return c.abs().max() + a.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "autotune"])
@pytest.mark.parametrize("places", [(0, 4), (0, 2), (4, 4)])
def test_gradients_of_what_is_written_through_views(backend, places):
    """Of non-leaf views, disjoint and not; a trial on copies, which are leaves, cannot run this."""
    handle = compiled(both_with_histories, backend)
    found = []
    for fn in (both_with_histories, handle, handle):
        leaf = torch.arange(1.0, 9.0).requires_grad_()
        base = leaf * 1
        c, a = (base[place : place + 4] for place in places)
        result = fn(c, a)
        found.append(torch.autograd.grad(result + (base * base).sum(), leaf)[0])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def rectified(x):
    x.relu_()
    return x


def hidden(x):
    x.detach().mul_(2)
    return x * 1


def hidden_without_gradients(x):
    with torch.no_grad():
        x.mul_(2)
    return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [rectified, hidden, hidden_without_gradients])
@pytest.mark.parametrize("view", [
    lambda h: h, lambda h: h[:4], lambda h: h.view(2, 4), lambda h: h[::2], lambda h: h.as_strided((3, 2), (2, 1), 1),
], ids=range(5))  # fmt: skip
def test_gradients_through_a_view_that_was_written(view, program, backend):
    found = []
    for fn in (program, compiled(program, backend)):
        leaf = torch.arange(1.0, 9.0).requires_grad_()
        base = leaf * 1
        given = view(base)
        result = fn(given)
        found.append(
            torch.autograd.grad(
                (result * result).sum() + (given * 3).sum() + (base * 5).sum(), leaf
            )[0]
        )
    assert torch.equal(*found)


def behind_a_break_without_gradients(x, y):
    z = x.view_as(x)
    with torch.no_grad():
        print("", end="")
        w = y * 2
    return z[1:] * 2, w


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients_around_a_break_inside_no_grad(backend):
    handle = compiled(behind_a_break_without_gradients, backend)
    for fn in (behind_a_break_without_gradients, handle, handle):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        first, second = fn(x, y)
        assert first.requires_grad and not second.requires_grad and torch.is_grad_enabled()
        assert torch.autograd.grad(first.sum(), x)[0].tolist() == [0, 2, 2]


def offset_and_reused(x):
    x.neg_()
    return (x * x[None]).sum(), x.flatten()[1:].mul_(3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("view", [
    lambda q: q[3:7], lambda q: q[::3], lambda q: q.as_strided((4, 2), (1, 4), 3), lambda q: q.view(4, 6)[:, 1:3], lambda q: q.view(4, 6).t(),
], ids=range(5))  # fmt: skip
def test_a_view_that_is_written_and_used_again(view, backend):
    handle = compiled(offset_and_reused, backend)
    for _ in range(2):
        bases = torch.arange(24.0), torch.arange(24.0)
        one, other = (
            fn(view(base)) for fn, base in zip((offset_and_reused, handle), bases, strict=True)
        )
        assert all(map(torch.equal, one, other)) and torch.equal(*bases)


def test_a_write_before_an_operator_that_refuses_is_undone():
    def run(a, b):
        b.data.add_(1)
        return a.lerp_(b, 0.5)

    handle = compiled(run, "eager")
    for places in ((0, 0), (0, 1)):
        bases = torch.arange(24.0), torch.arange(24.0)
        views = [[base[place : place + 8] for place in places] for base in bases]
        assert attempt(lambda given: run(*given), views[0]) == attempt(
            lambda given: handle(*given), views[1]
        )
        assert torch.equal(*bases)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("view", [lambda q: q[:, 1], lambda q: q[1]], ids=["with gaps", "dense"])
def test_as_strided_reaches_beyond_a_tensor_that_was_written(view, backend):
    def f(a, b):
        a.addcmul_(b, b)
        return a.as_strided((2, 2), (1, 1)) * 2, b + 1

    for _ in range(2):
        ours, eagers = matrix(), matrix()
        got, wanted = (
            compiled(f, backend)(view(ours), torch.arange(4.0)),
            f(view(eagers), torch.arange(4.0)),
        )
        assert torch.equal(ours, eagers) and all(map(torch.equal, got, wanted))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_as_strided_reads_what_lies_between_the_elements_of_an_input(backend):
    def f(a, b):
        part = a.as_strided((2, 2), (1, 1))
        b.mul_(-1)
        return part, part + 3

    handle = compiled(f, backend)
    for between in (False, True):  # b shares no element with a, in either call
        results, memories = [], []
        for fn in (handle, f):
            memories.append(torch.arange(64.0))
            a = memories[-1].as_strided((2, 2), (12, 3))
            b = (memories[-1] if between else torch.arange(64.0))[1:19:6]
            results.append(fn(a, b))
        assert torch.equal(*memories) and all(map(torch.equal, *results))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_lists_of_views_that_are_written_keep_their_gradients(backend):
    def f(a, b):
        torch._foreach_mul_([a, b], [2, 3])

    def gradients(fn):
        leaves = [torch.arange(16.0, requires_grad=True) for _ in range(2)]
        a, b = (leaf * 1 for leaf in leaves)
        fn(a[:4], b[8:12])
        (a.sum() + b.sum()).backward()
        return [leaf.grad for leaf in leaves]

    assert all(map(torch.equal, gradients(compiled(f, backend)), gradients(f)))


def copied_before(x):
    copied = x.contiguous()
    x.fill_(3)
    return copied


def copied_and_written(x):
    x.flatten()[1:].mul_(3)
    x.clamp_(min=1)
    return x * 1


def listed_and_copied(x):
    torch._foreach_add_([torch.zeros(2), x], 1)
    x.reshape(-1)[1:].mul_(-1)
    return x * 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
@pytest.mark.parametrize("program", [copied_before, copied_and_written, listed_and_copied])
def test_copies_of_an_input_with_gaps_that_is_written(program, history, backend):
    """Whether contiguous() copies is asked of the input's strides, not of those that a compiler
    gives its new value."""
    found = []
    for fn in (program, compiled(program, backend)):
        base = torch.arange(24.0, requires_grad=history) * 1
        result = fn(base.as_strided((2, 3), (12, 3), 2))
        found.append((result.tolist(), base.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
@pytest.mark.parametrize("program", [copied_before, copied_and_written])
def test_copies_of_an_input_with_gaps_whose_sizes_vary(program, history, backend):
    handle = compiled(program, backend)
    for columns in (2, 3, 4, 5):
        found = []
        for fn in (program, handle):
            base = torch.arange(40.0, requires_grad=history) * 1
            result = fn(base.view(4, 10)[:, :columns])
            found.append((result.tolist(), base.tolist()))
        assert found[0] == found[1], columns


def piece_of_what_is_written(x):
    x.masked_fill_(x > 5, 5)
    return x.chunk(2)[0]


def part_of_what_is_written(x):
    x.cumsum_(0)
    return x.view(-1)[1:]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
@pytest.mark.parametrize("program", [piece_of_what_is_written, part_of_what_is_written])
def test_views_of_what_is_written_where_sizes_and_offsets_vary(program, history, backend):
    handle = compiled(program, backend)
    for rows, columns, offset in ((4, 2, 4), (2, 4, 4), (2, 4, 7), (4, 5, 6)):
        found = []
        for fn in (program, handle):
            base = torch.arange(48.0, requires_grad=history) * 1
            result = fn(base.as_strided((rows, columns), (columns, 1), offset))
            values = result.tolist()
            result.detach().fill_(77)
            found.append((values, base.tolist()))
        assert found[0] == found[1], (rows, columns, offset)


def unbound_behind_a_write(x):
    x.relu_()
    return x.unbind(0)[0]


def unbound_before_a_write(x):
    parts = x.unbind(0)
    x.relu_()
    return parts[0]


def viewed_before_and_unbound_behind(x):
    rows = x[1:]
    x.relu_()
    return rows.unbind(0)[0], x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize(
    "program", [unbound_behind_a_write, unbound_before_a_write, viewed_before_and_unbound_behind]
)
def test_one_of_several_views_of_what_is_written(program, backend):
    found = []
    for fn in (program, compiled(program, backend)):
        base = torch.arange(-6.0, 6.0, requires_grad=True) * 1
        results = fn(base.view(3, 4))
        result = results[0] if isinstance(results, tuple) else results
        values = result.tolist()
        result.detach().fill_(77)
        found.append((values, base.tolist()))
    assert found[0] == found[1]


def written_and_looked_at(a, b):
    a.chunk(2)
    b.zero_()
    print("", end="")
    return a, b.float().squeeze()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients_through_a_view_of_what_the_piece_before_wrote(backend):
    """A piece that only makes a view has no node of its own in the backward pass, and none of
    another piece's."""
    handle = compiled(written_and_looked_at, backend)
    for places in (((0, 1), (1, 2)), ((0, 1), (0, 1)), ((0, 1), (0, 2)), None, ((0, 1), (1, 2))):
        found = []
        for fn in (written_and_looked_at, handle):
            leaves = [torch.arange(9.0, requires_grad=True) for _ in range(2)]
            bases = [leaf * 1 for leaf in leaves]
            views = [bases[index][start : start + 4] for index, start in places or ()] or [
                bases[0][:4]
            ] * 2
            total = sum((item * item).sum() for item in fn(*views))
            found.append(torch.autograd.grad(total, leaves, allow_unused=True))
        assert [grad if grad is None else grad.tolist() for grad in found[0]] == [
            grad if grad is None else grad.tolist() for grad in found[1]
        ], places


def written_through_data(a, b):
    seen = a.data
    seen.add_(a, alpha=2)
    return a * seen, seen


def written_through_detach(a, b):
    seen, zero = b.detach(), b - b
    seen.addcmul_(zero, zero)
    return seen, zero


def read_before_it_gained_a_history(a, b):
    b = b.detach().clone()
    print(end="")
    total = b.sum(0)
    b.add_(a, alpha=2)
    return total, b


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize(
    "program", [written_through_data, written_through_detach, read_before_it_gained_a_history]
)
def test_what_has_a_history_behind_a_write(program, backend):
    def outcome(fn):
        leaf = torch.ones(3, requires_grad=True)
        results = fn(leaf * 1, leaf * 2)
        total = sum(item.sum() for item in results if item.requires_grad)
        return [item.requires_grad for item in results], results, torch.autograd.grad(total, leaf)

    handle, expected = compiled(program, backend), outcome(program)
    for _ in range(2):
        found = outcome(handle)
        assert found[0] == expected[0]
        torch.testing.assert_close(found[1:], expected[1:])


def through_data_before_a_refusal(a):
    a.data.add_(-1)
    a.lerp_(a, 0.5)  # has no kernel for integers
    return a


def beyond_its_input_before_a_refusal(a):
    a.as_strided((2, 2), (1, 1)).sub_(1)
    a.index_add_(0, torch.tensor([0]), torch.ones(1, 1, 1, dtype=torch.int64))
    return a


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize(
    "program", [through_data_before_a_refusal, beyond_its_input_before_a_refusal]
)
def test_what_was_written_before_an_operator_refused_is_written_once(program, backend):
    def outcome(fn):
        base = torch.arange(12)
        with pytest.raises(RuntimeError):
            fn(base.as_strided((4, 2), (3, 1)))
        return base

    handle, expected = compiled(program, backend), outcome(program)
    for _ in range(2):
        assert torch.equal(outcome(handle), expected)


def test_an_item_set_to_a_view_of_which_autograd_says_nothing():
    def program(x):
        first = x.expand(2, *x.shape).unbind(0)[0]
        with torch.no_grad():
            first[...] = first
        print(end="")
        return x.movedim(0, -1)

    handle = compiled(program, "eager")
    x = torch.ones((), requires_grad=True) * 1
    assert torch.equal(handle(x), x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("sizes", [(2,), (2, 3, 5)], ids=["one size", "sizes that vary"])
def test_gradients_that_need_what_an_input_with_gaps_held(sizes, backend):
    def program(x, factor):
        x.mul_(factor)
        return x

    def outcome(fn, size):
        one, other = (
            torch.arange(96.0).remainder(9).requires_grad_(),
            torch.arange(8.0).requires_grad_(),
        )
        result = fn((one * 1).as_strided((size, 2, 2), (8, 2, 1), 5), (other * 1)[:4].view(2, 2))
        weights = torch.arange(result.numel()).reshape(result.shape)
        return [
            result.detach().clone(),
            *torch.autograd.grad((result * weights).sum(), (one, other)),
        ]

    handle = compiled(program, backend)
    for size in (*sizes, *sizes):
        torch.testing.assert_close(outcome(handle, size), outcome(program, size))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("sizes", [(4,), (2, 3), (2, 4, 1)])
def test_a_mask_that_does_not_fit_raises_though_nobody_reads_the_result(sizes, backend):
    def program(x, mask):
        rows = torch.stack([x, x])
        rows[mask > 0] = 2
        return x + 1

    handle = compiled(program, backend)
    with pytest.raises(IndexError):
        program(torch.ones(4), torch.ones(sizes))
    with pytest.raises(IndexError):
        handle(torch.ones(4), torch.ones(sizes))
    assert torch.equal(handle(torch.ones(4), torch.ones(2, 4)), torch.full((4,), 2.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("offset", [3, 19])
def test_gradients_of_a_leaf_whose_elements_share_memory(backend, offset):
    """Eager divides them among the elements, as the memory has been written."""

    def f(leaf, other):
        turned = leaf.t()
        with torch.no_grad():
            other.bernoulli_(0.5)
        return turned.narrow(0, 0, 1)

    grads = []
    for fn in (f, framejit.compile(f, backend=backend)):
        base = torch.arange(20.0)
        leaf = torch.nn.Parameter(base.as_strided((3, 4), (2, 1), 1).detach())
        result = fn(leaf, base.as_strided((), (), offset).detach())
        (result * torch.arange(1.0, 4.0)).sum().backward()
        grads.append(leaf.grad)
    assert torch.equal(*grads)
