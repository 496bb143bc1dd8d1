"""Results of one graph that are differentiated one by one: errors, hooks and freed memory are as
in eager."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.autograd import shared_partition
from framejit.backends.autograd import split_graph as splitting
from framejit.backends.autograd import subgraph as writing
from torch import nn

BACKENDS = ("aot_eager", "native")


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    monkeypatch.setattr(writing, "SMALL", 0)  # the smallest subgraph is compiled, too
    return request.param


def leaf(*shape):
    return torch.randn(*(shape or (4,)), requires_grad=True)


def outcome(use, fn, args):
    torch.manual_seed(1)
    try:
        return use(fn, *args)
    except RuntimeError as error:
        return type(error), str(error)[:40]


def check(fn, use, *args, backend, count):
    """use(fn, *args) returns what there is to see; `count`: how many subgraphs there have to be."""
    counts = []
    real = splitting.make_subgraphs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            splitting, "make_subgraphs", lambda *given: counts.append(len(given[1])) or real(*given)
        )
        copies = copy.deepcopy(args)
        wanted = outcome(use, fn, args)
        got = outcome(use, framejit.compile(fn, backend=backend), copies)
    torch.testing.assert_close(got, wanted) if not isinstance(wanted[0], type) else None
    assert isinstance(wanted[0], type) == isinstance(got[0], type) and (
        not isinstance(wanted[0], type) or got == wanted
    )
    assert counts[:1] == ([count] if count > 1 else [])


def nested(x):
    h = x.sin() * x
    return h, (h.exp() + h * x).sum()


def apart(x, w):
    h = x.sin() * x
    return h, (h.detach() * w).exp().sum()


def forked(x):
    h = (x * x).cos()
    return h.exp().sum(), h.sin().sum()


def test_a_gradient_ends_at_a_result(backend):
    check(
        nested, lambda f, x: torch.autograd.grad(*reversed(f(x))), leaf(), backend=backend, count=2
    )


def test_a_result_retains_its_gradient(backend):
    def use(f, x):
        h, loss = f(x)
        h.retain_grad()
        loss.backward()
        return h.grad, x.grad

    check(nested, use, leaf(), backend=backend, count=2)


def test_a_hook_changes_the_gradient_of_a_result(backend):
    def use(f, x):
        h, loss = f(x)
        h.register_hook(lambda gradient: gradient * 2)
        loss.backward()
        return (x.grad,)

    check(nested, use, leaf(), backend=backend, count=2)


def test_one_backward_pass_after_another(backend):
    def use(f, x, w):
        h, loss = f(x, w)
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad)
        (h * 2).sum().backward()
        return x.grad, w.grad, w

    check(apart, use, leaf(), leaf(), backend=backend, count=2)


def test_what_is_shared_is_freed_by_the_first(backend):
    def use(f, x):
        one, other = f(x)
        one.backward()
        other.backward()
        return (x.grad,)

    check(forked, use, leaf(), backend=backend, count=3)


def test_what_is_shared_is_kept_where_asked(backend):
    def use(f, x):
        one, other = f(x)
        one.backward(retain_graph=True)
        other.backward()
        return one, other, x.grad

    check(forked, use, leaf(), backend=backend, count=3)


def test_all_at_once(backend):
    def use(f, x):
        one, other = f(x)
        (one + other * 2).backward()
        return one, other, x.grad

    check(forked, use, leaf(), backend=backend, count=3)


def test_second_derivatives(backend):
    def use(f, x):
        h, loss = f(x)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first.detach(), second

    check(nested, use, leaf(), backend=backend, count=2)


def test_second_derivatives_through_inputs_that_are_made_of_each_other(backend):
    inner, outer = (
        framejit.compile(fn, backend=backend)
        for fn in (lambda x: x.sin() * x, lambda h, x: (h.exp() + h * x).sum())
    )
    x = leaf()
    seen = []
    for loss in (nested(x)[1], outer(inner(x), x)):
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        seen.append((first, *torch.autograd.grad(first.sum(), x)))
    torch.testing.assert_close(*seen)


def test_an_adversary(backend):
    torch.manual_seed(0)
    maker, judge = (
        nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 4)),
        nn.Linear(4, 1),
    )

    def step(maker, judge, real, noise):
        made = maker(noise)
        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(made.detach())).mean()
        return made, loss

    def use(step, maker, judge, real, noise):
        made, loss = step(maker, judge, real, noise)
        loss.backward()
        with torch.no_grad():
            for parameter in judge.parameters():
                parameter -= parameter.grad
        (-judge(made).mean()).backward()
        return (
            made,
            loss,
            [parameter.grad for parameter in (*maker.parameters(), *judge.parameters())],
            list(maker.buffers()),
        )

    check(step, use, maker, judge, torch.randn(5, 4), torch.randn(5, 3), backend=backend, count=2)


PENALIZED = {
    "a new leaf": lambda share, real, made: (
        share * real + (1 - share) * made.detach()
    ).requires_grad_(),
    "detached": lambda share, real, made: (
        (share * real + (1 - share) * made).detach().requires_grad_()
    ),
    "with a history": lambda share, real, made: share * real.sin() + (1 - share) * made,
}


@pytest.mark.parametrize("between", PENALIZED.values(), ids=PENALIZED)
def test_an_adversary_with_a_penalty_on_gradients(backend, between):
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def step(maker, judge, real, noise, share):
        made = maker(noise)
        mixed = between(share, real, made)
        (slope,) = torch.autograd.grad(judge(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(2, 1) - 1).square().mean()
        return made, judge(made.detach()).mean() - judge(real).mean() + 10 * penalty

    def use(step, maker, judge, *tensors):
        made, loss = step(maker, judge, *tensors)
        loss.backward()
        gradients = [parameter.grad.clone() for parameter in judge.parameters()]
        if (
            between is not PENALIZED["with a history"]
        ):  # there loss.backward() went through the maker, and freed it
            (-judge(made).mean()).backward()
        return (
            made,
            loss,
            gradients,
            [parameter.grad for parameter in (*maker.parameters(), *judge.parameters())],
        )

    check(
        step,
        use,
        maker,
        judge,
        torch.randn(5, 4),
        torch.randn(5, 3),
        torch.rand(5, 1),
        backend=backend,
        count=2,
    )


def test_gradients_taken_inside_stay_with_what_they_are_of(backend):
    def fn(x, w):
        y = (x * w).sin()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y * 2, slope, (slope * slope).sum()

    def use(f, x, w):
        y, slope, loss = f(x, w)
        slope.retain_grad()
        first = torch.autograd.grad(loss, x, retain_graph=True)
        y.sum().backward(retain_graph=True)
        loss.backward()
        return first, y, slope, loss, slope.grad, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=3)


def test_a_graph_that_differentiates_and_cannot_be_cut_is_left_to_eager(backend, monkeypatch):
    monkeypatch.setattr(splitting, "MAX_SUBGRAPHS", 1)

    def fn(x, w):
        (slope,) = torch.autograd.grad((x * w).sin().sum(), x, create_graph=True)
        return x.exp() * w, slope * slope * w

    def use(f, x, w):
        y, other = f(x, w)
        other.sum().backward()
        y.sum().backward()
        return y, other, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=1)


def test_autocast_is_what_it_was(backend):
    def fn(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = x @ w
            with torch.no_grad():
                scale = (w @ w).float().abs().max()
            with torch.autocast("cpu", enabled=False):
                other = (h.detach().float() @ w).tanh()
            return h, other, (h.detach() @ w).float().sum() / scale

    def use(f, x, w):
        h, other, loss = f(x, w)
        h.retain_grad()
        loss.backward()
        other.sum().backward()
        h.float().sum().backward()
        return h, other, loss, h.grad, x.grad, w.grad

    torch.manual_seed(0)
    check(fn, use, leaf(4, 4), leaf(4, 4), backend=backend, count=3)


def test_an_attribute_that_others_are_made_of(backend):
    """A parametrized weight is stored in its module, and so a result."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.utils.spectral_norm(nn.Linear(4, 8)), nn.LeakyReLU(0.2), nn.Linear(8, 1)
    )

    def loss(model, one, other):
        return (
            F.softplus(model(one)).mean()
            + F.softplus(-model(other)).mean()
            + model(one + other).square().mean()
        )

    def use(loss, model, one, other):
        value = loss(model, one, other)
        value.backward()
        return value, [parameter.grad for parameter in model.parameters()], list(model.buffers())

    check(loss, use, model, torch.randn(6, 4), torch.randn(6, 4), backend=backend, count=4)


def test_grad_mode_is_what_it_was(backend):
    def fn(x, w):
        h = x.sin() * x
        with torch.no_grad():
            scale = w.abs().sum() + h.max()
        loss = (h * w / scale).exp().sum()
        with torch.no_grad():
            return h, loss, (loss * w).sin()

    def use(f, x, w):
        h, loss, other = f(x, w)
        h.retain_grad()
        loss.backward()
        return h, loss, other, other.requires_grad, h.grad, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=2)


def test_random_numbers_keep_their_order(backend):
    def fn(x, w):
        h = F.dropout(x, 0.5) * torch.rand(4)
        loss = (F.dropout(w, 0.5) * h.detach()).sum()
        return h, loss, torch.rand(4)

    def use(f, x, w):
        h, loss, drawn = f(x, w)
        loss.backward()
        h.sum().backward()
        return h, loss, drawn, x.grad, w.grad, torch.rand(2)

    check(fn, use, leaf(), leaf(), backend=backend, count=2)


def test_items_of_a_tuple_stay_with_it(backend):
    def fn(x):
        one, other = (x * x).chunk(2)
        return one.exp(), (one.exp() * other.sin()).sum()

    def use(f, x):
        one, loss = f(x)
        one.retain_grad()
        (loss + one.sum()).backward()
        return one, loss, one.grad, x.grad

    check(fn, use, leaf(), backend=backend, count=3)


def test_all_on_memory_that_is_written_to_lies_in_one_piece(backend):
    def fn(x):
        h = x * 2
        loss = h.exp().sum()
        h[0] = x[2] * 3
        return h, loss

    def use(f, x):
        h, loss = f(x)
        (h.sum() + loss).backward()
        return h, loss, x.grad

    check(fn, use, leaf(), backend=backend, count=2)


def relu_in_place(x):
    h = torch.relu_(x * 3)
    return h, h.sin()


def doubled_without_gradients(x):
    h = x * 3
    with torch.no_grad():
        h.mul_(2)
    return h, h.sin()


def doubled_as_detached(x):
    h = x * 3
    h.detach().mul_(2)
    return h, h.sin() + 1


def read_between_writes(x):
    h = x * 3
    part = h.sum()
    h.add_(part)
    return h, h.sin() * part


@pytest.mark.parametrize(
    "fn", [relu_in_place, doubled_without_gradients, doubled_as_detached, read_between_writes]
)
def test_a_gradient_passes_through_a_written_result_that_is_read_afterwards(backend, fn):
    def use(f, x):
        h, read = f(x)
        h.retain_grad()
        (at_result,) = torch.autograd.grad(read.sum(), h, retain_graph=True)
        read.sum().backward()
        return h, read, at_result, h.grad, x.grad

    check(fn, use, leaf(), backend=backend, count=2)


def test_what_a_write_only_reads_is_no_part_of_it(backend):
    def fn(x, w):
        h = x.clone()
        h.mul_(w)
        return h, (x * w).sin().sum()

    def use(f, x, w):
        h, loss = f(x, w)
        loss.backward()
        (h * 2).sum().backward()
        return h, loss, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=2)


def test_what_saves_nothing_may_be_passed_again(backend):
    def fn(x, w):
        h = torch.stack([x, w]).sum(0)
        return h, (x * w).sum()

    def use(f, x, w):
        h, loss = f(x, w)
        for _ in range(2):
            h.sin().sum().backward()
        loss.backward()
        return h, loss, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=2)


def test_sizes_that_vary(backend):
    def fn(x, w):
        h = x.view(-1, x.shape[-1] // 2).sin() * x.shape[0]
        return h, (h @ w).exp().mean() / x.shape[0]

    compiled = framejit.compile(fn, backend=backend, dynamic=True)
    for rows in (3, 5):
        x, w = leaf(rows, 4), leaf(2, 2)
        twins = copy.deepcopy((x, w))
        seen = []
        for call, given in ((fn, (x, w)), (compiled, twins)):
            h, loss = call(*given)
            h.retain_grad()
            loss.backward()
            seen.append((h, loss, h.grad, *(tensor.grad for tensor in given)))
        torch.testing.assert_close(*seen)


def test_a_loss_and_what_it_is_made_of():
    """One subgraph more than results that lead to each other, and none for a result alone."""
    found = []

    def backend(gm, inputs):
        found.append(splitting.split_graph(gm))
        return gm.forward

    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

    def training(x, target):
        logits = model(x)
        return F.cross_entropy(logits, target), logits

    x, target = torch.randn(3, 4), torch.tensor([0, 1, 2])
    framejit.compile(training, backend=backend)(x, target)
    framejit.compile(lambda x, target: training(x, target)[0], backend=backend)(x, target)
    made, results = found[0]
    assert [len(subgraph.output_ids) for subgraph in made] == [1, 1] and results == [
        made[1].output_ids[0],
        made[0].output_ids[0],
    ]
    assert found[1] is None


def test_few_operators_on_large_tensors_are_compiled():
    """A subgraph is left to torch's operators only where it has little to do."""

    def f(x):
        y = x.sin() * x + x.cos() * 2
        return y, y.exp().sum()

    def view_of_large(x):
        y = x.sin() * x + x.cos() * 2
        return y.exp(), y.view(-1)

    for function, elements, compiled in (
        (f, 1 << 10, 1),
        (f, 1 << 20, 2),
        (view_of_large, 1 << 20, 2),
    ):
        x = torch.ones(elements // 16, 16, requires_grad=True)
        parts = []
        framejit.compile(function, backend=lambda gm, examples: parts.append(gm) or gm.forward)(x)
        pieces, _ = splitting.split_graph(parts[0])
        assert sum(not piece.is_small for piece in pieces) == compiled, function.__name__


def logits_and_loss(x, w, labels):
    flat = labels.view(-1).view(-1)
    logits = (x @ w).tanh()
    return F.cross_entropy(logits.exp(), flat), logits


@pytest.fixture
def passed(monkeypatch):
    """The names of the nodes that subgraphs take from, or give to, each other and the caller."""
    names = []
    real = splitting.make_subgraphs

    def make_subgraphs(*given):
        subgraphs, results = real(*given)
        for graph in (subgraph.gm.graph for subgraph in subgraphs):
            ends = graph.find_nodes(op="placeholder") + [*graph.output_node().args[0]]
            names.extend(node.name for node in ends)
        return subgraphs, results

    monkeypatch.setattr(splitting, "make_subgraphs", make_subgraphs)
    return names


def test_a_view_is_taken_where_it_is_used(passed, backend):
    """No subgraph takes or returns a view of an input, so that each is assembled operator by
    operator."""
    labels = torch.tensor([0, 2, 1])

    def use(f, x, w):
        loss, logits = f(x, w, labels)
        loss.backward()
        return loss, logits, x.grad, w.grad

    check(logits_and_loss, use, leaf(3, 4), leaf(4, 5), backend=backend, count=2)
    assert passed and not any(name.startswith("view") for name in passed)


def written_between(x, labels):
    first = labels.view(-1)
    y = (x * 2).sin()
    labels.add_(1)
    return (y * first).sum(), y


def test_a_view_of_written_memory_keeps_its_place(backend):
    def use(f, x, labels):
        loss, y = f(x, labels)
        loss.backward()
        return loss, y, labels, x.grad

    check(written_between, use, leaf(4), torch.arange(4), backend=backend, count=2)


class Layers(nn.Module):
    """Layers that are built alike, and return a value each."""

    def __init__(self, count, change=None, make=lambda: nn.Linear(4, 4)):
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(count))
        self.factors = [1.5] * count
        if change is not None:
            change(self)

    def forward(self, x):
        states = []
        for layer, factor in zip(self.layers, self.factors, strict=True):
            x = (layer(x).sin() * factor).exp().cos()
            states.append(x)
        return states


def compiles(monkeypatch):
    """The list to which each partition of a graph is appended."""
    made, real = [], shared_partition.trace_and_partition
    monkeypatch.setattr(
        shared_partition, "trace_and_partition", lambda *given: made.append(1) or real(*given)
    )
    return made


def gradients_by_result(model, x):
    """Gradients from one of the results to an earlier one, then to all parameters."""
    model.zero_grad()
    torch.manual_seed(3)
    states = model(x)
    early, late = states[1], states[-1]
    kept = torch.autograd.grad(late.sum(), (early, x), retain_graph=True)
    sum(state.square().sum() for state in states).backward()
    return [*states, *kept, *(parameter.grad for parameter in model.parameters())]


def check_layers(count, backend, **options):
    torch.manual_seed(0)
    eager = Layers(count, **options).double()
    compiled = framejit.compile(copy.deepcopy(eager), backend=backend)
    for seed in (1, 2):
        torch.manual_seed(seed)
        x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        torch.testing.assert_close(gradients_by_result(compiled, x), gradients_by_result(eager, x))
    return compiled


def test_equal_subgraphs_are_compiled_once(backend, monkeypatch):
    made = compiles(monkeypatch)
    check_layers(8, backend)
    assert len(made) == 2  # the first one's input is a leaf


def third(**changes):
    def change(model):
        for name, value in changes.items():
            setattr(model.layers[2], name, value)

    return change


def frozen(model):
    model.layers[2].weight.requires_grad_(False)


def tied(model):
    model.layers[3].weight = model.layers[2].weight


def other_factor(model):
    model.factors[2] = -1.5


def transposed(model):
    model.layers[2].weight = nn.Parameter(torch.randn(4, 4).t())


@pytest.mark.parametrize("change", [frozen, tied, other_factor, transposed, third(bias=None)])
def test_subgraphs_that_differ_are_compiled_apart(backend, change, monkeypatch):
    made = compiles(monkeypatch)
    check_layers(6, backend, change=change)
    assert len(made) == (2 if change is tied else 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)),
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()),
    ],
)
def test_equal_subgraphs_draw_and_write_for_themselves(backend, make):
    compiled = check_layers(5, backend, make=make)
    means = [module.running_mean for module in compiled.modules() if hasattr(module, "momentum")]
    assert all(not torch.equal(one, means[0]) for one in means[1:])


def test_more_than_a_hundred_results(backend):
    check_layers(150, backend)


def test_too_many_results_are_left_to_eager(backend, monkeypatch):
    monkeypatch.setattr(splitting, "MAX_SUBGRAPHS", 3)
    check_layers(5, backend)


def test_part_of_a_parameter_is_written_without_gradients(backend):
    """To autograd the written view has a history that it does not tell."""

    def step(x, y):
        before = y + x
        with torch.no_grad():
            x[:, 1:] *= 2
        return (x.abs() * y).sum(), before.sum()

    compiled = framejit.compile(step, backend=backend)
    found, expected = (torch.ones(3, 4, requires_grad=True) for _ in range(2))
    with framejit.config.patch(strict=True):
        sum(compiled(found, torch.ones(3, 4))).backward()
    sum(step(expected, torch.ones(3, 4))).backward()
    assert torch.equal(found, expected) and torch.equal(found.grad, expected.grad)


class Layer(nn.Module):
    """Returns its keys and values next to its result, as a transformer does for its cache."""

    def __init__(self, packed):
        super().__init__()
        self.packed = packed
        if packed:
            self.project = nn.Linear(4, 12)
        else:
            self.queries, self.keys, self.values = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        x = F.layer_norm(x, (4,))
        if self.packed:
            q, k, v = self.project(x).split(4, dim=-1)
        else:
            q, k, v = self.queries(x), self.keys(x), self.values(x)
        keys, values = k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous()
        return (q @ keys).softmax(-1) @ values.transpose(0, 1), keys, values


def cached_transformer(layers, x):
    kept = []
    for layer in layers:
        x, *both = layer(x)
        kept += both
    return x.exp().sum(), *kept


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "apart"])
@pytest.mark.parametrize("of", ["loss", "keys", "values", "gradient of keys", "hook", "all"])
def test_keys_and_values_are_results_of_the_subgraph_before(backend, packed, of):
    def use(f, layers, x):
        loss, keys, values, *others = results = f(layers, x)
        seen = []
        if of == "gradient of keys":
            return torch.autograd.grad(loss, [keys, *others])
        if of == "hook":
            values.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
        chosen = {"keys": [keys], "values": [others[-1]], "all": results}.get(of, [loss])
        sum(one.sin().sum() for one in chosen).backward()
        return *results, x.grad, seen, [parameter.grad for parameter in layers.parameters()]

    layers = nn.ModuleList(Layer(packed) for _ in range(3))
    check(cached_transformer, use, layers, leaf(5, 4), backend=backend, count=4)


def test_two_losses_do_not_share_what_only_one_needs(backend):
    def fn(x, w):
        h = (x * w).exp()
        return h, (h * w).sin().sum(), (h * x).cos().sum()

    def use(f, x, w):
        h, one, other = f(x, w)
        one.backward(retain_graph=True)
        other.backward()
        return h, one, other, x.grad, w.grad

    check(fn, use, leaf(), leaf(), backend=backend, count=3)


def test_a_view_that_several_subgraphs_use_is_taken_in_each(passed, backend):
    """As the angles of rotary positions, in every layer of a transformer."""

    def fn(x, w, positions):
        angles = (positions * 2).cos().unsqueeze(-1)
        h = (x * angles).sin() * w
        return h, ((h * angles).exp() * w).sum()

    def use(f, x, w):
        h, loss = f(x, w, torch.arange(3.0))
        h.retain_grad()
        loss.backward()
        return h, loss, h.grad, x.grad, w.grad

    check(fn, use, leaf(3, 4), leaf(3, 4), backend=backend, count=2)
    assert passed and not any(name.startswith("unsqueeze") for name in passed)
