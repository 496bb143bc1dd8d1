"""nn.Module: trees, hooks, modes, and every edit after compile seen on the very next call."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import framejit
import pytest
import torch
from torch import nn

from .harness import check, strict_compile, vec


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 3)
        self.b = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
        self.register_buffer("steps", torch.zeros(1))
        self.scale = 2
        self.calls = 0
        self.log = []

    def forward(self, x, extra=None):
        self.calls += 1
        y = self.b(self.a(x)) * self.scale
        if extra is not None:
            y = y + extra
        return y


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.register_buffer("count", torch.tensor(0))
        self.cache = {}
        self.last = None

    def forward(self, x):
        self.total += x
        self.count = self.count + 1
        self.cache[x.shape[0]] = x * 2
        self.last = x
        return self.total * 1


def net(cls=Net):
    torch.manual_seed(0)
    return cls()


def call(module, *args, **kwargs):
    return module(*args, **kwargs)


def test_module_called():
    def f(m, x):
        return m(x), m(x, extra=1)

    check(f, net(), vec(4, 2), backward=True)


def test_counter_and_state():
    def f(m, x):
        return m(x), m(x)

    check(f, net(Stateful), vec(2))


def test_forward_called_directly():
    def f(m, x):
        return m.forward(x) + m.a.forward(x).sum()

    check(f, net(), vec(4, 2))


def test_parameters_and_buffers_enumerated():
    def f(m, x):
        total = x.sum()
        for p in m.parameters():
            total = total + p.sum()
        for name, b in m.named_buffers():
            total = total + b.sum() + len(name)
        names = [n for n, _ in m.named_parameters()]
        return (
            total,
            names,
            len(list(m.children())),
            [n for n, _ in m.named_modules()],
            sorted(m.state_dict().keys()),
        )

    check(f, net(), vec(2), graphs=None, breaks=None)


def test_containers():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.table = nn.ModuleDict({"act": nn.Tanh(), "lin": nn.Linear(2, 2)})
            self.params = nn.ParameterList([nn.Parameter(torch.ones(2))])
            self.named = nn.ParameterDict({"k": nn.Parameter(torch.ones(2))})

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x) + i
            for layer in self.layers[1:]:
                x = layer(x)
            x = self.table["act"](x) + self.layers[-1](x)
            for name, layer in self.table.items():
                x = layer(x) + len(name)
            return x * self.params[0] + self.named["k"] + len(self.layers) + ("act" in self.table)

    check(call, net(Holder), vec(2), graphs=None, breaks=None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(4, 4), lambda: nn.Conv1d(4, 2, 3, padding=1), lambda: nn.LayerNorm(4), lambda: nn.Dropout(0.5), lambda: nn.GELU(), lambda: nn.Softmax(-1),
        lambda: nn.MultiheadAttention(4, 2, batch_first=True), lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), lambda: nn.GRU(4, 3, batch_first=True),
        lambda: nn.Identity(), lambda: nn.Flatten(), lambda: nn.BatchNorm1d(4), lambda: nn.AdaptiveAvgPool1d(1), lambda: nn.Bilinear(4, 4, 2), lambda: nn.LSTM(4, 3),
        lambda: nn.GroupNorm(2, 4), lambda: nn.RMSNorm(4), lambda: nn.PReLU(), lambda: nn.Upsample(scale_factor=2), lambda: nn.Fold((2, 2), (1, 1)),
    ],
    ids=lambda make: make().__class__.__name__,
)  # fmt: skip
def test_torchs_own_modules(make):
    torch.manual_seed(0)
    module = make()
    x = vec(2, 4, 4)
    if isinstance(module, nn.Bilinear | nn.MultiheadAttention):
        args = (x, x) if isinstance(module, nn.Bilinear) else (x, x, x)
    else:
        args = (x,)
    check(call, module, *args, graphs=None, breaks=None)


def test_batch_norm_counts():
    def f(m, x):
        return m(x)

    check(f, nn.BatchNorm1d(2), vec(4, 2))
    check(f, nn.BatchNorm1d(2).eval(), vec(4, 2))


def test_train_and_eval_switch():
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    g = strict_compile(call)
    x = vec(3, 2)
    for mode in (True, False, True, False):
        m.train(mode)
        torch.manual_seed(0)
        expected = m(x)
        torch.manual_seed(0)
        assert torch.equal(g(m, x), expected)
    assert g.framejit.compiles == 2


EDITS = {
    "attribute": lambda m: setattr(m, "scale", 5),
    "submodule": lambda m: setattr(m, "a", nn.Linear(2, 3, bias=False)),
    "submodule of another class": lambda m: setattr(
        m, "a", nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    ),
    "nested submodule": lambda m: m.b.__setitem__(0, nn.Tanh()),
    "appended submodule": lambda m: m.b.append(nn.Tanh()),
    "parameter": lambda m: setattr(m.a, "weight", nn.Parameter(torch.ones(3, 2))),
    "parameter of another dtype": lambda m: m.double(),
    "parameter data": lambda m: m.a.weight.data.fill_(2.0),
    "parameter data replaced": lambda m: setattr(m.a.weight, "data", torch.full((3, 2), 3.0)),
    "parameter frozen": lambda m: m.requires_grad_(False),
    "bias removed": lambda m: setattr(m.a, "bias", None),
    "forward on the instance": lambda m: setattr(
        m.a, "forward", lambda x: torch.ones(x.shape[0], 3)
    ),
    "root forward on the instance": lambda m: setattr(m, "forward", lambda x: x * 7),
    "forward hook": lambda m: m.a.register_forward_hook(lambda mod, args, out: out + 1),
    "forward hook on the root": lambda m: m.register_forward_hook(lambda mod, args, out: out * 3),
    "forward pre hook": lambda m: m.a.register_forward_pre_hook(lambda mod, args: (args[0] + 1,)),
    "forward pre hook with keywords": lambda m: m.register_forward_pre_hook(
        lambda mod, args, kwargs: (args, {"extra": 3}), with_kwargs=True
    ),
    "forward hook with keywords": lambda m: m.a.register_forward_hook(
        lambda mod, args, kwargs, out: out * 2, with_kwargs=True
    ),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "load_state_dict assigned": lambda m: m.load_state_dict(
        {k: v + 1 for k, v in m.state_dict().items()}, assign=True
    ),
    "weights tied": lambda m: setattr(m.b[1], "bias", nn.Parameter(m.b[1].bias.detach() + 1)),
    "half of the weights": lambda m: setattr(
        m.a, "weight", nn.Parameter(m.a.weight[:, :1].repeat(1, 2))
    ),
    "method on the class": lambda m: setattr(type(m.b[0]), "forward", nn.Tanh.forward),
    "class changed": lambda m: setattr(m.b[0], "__class__", nn.Tanh),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("way", ["function", "module"])
def test_edit_after_compile_is_seen(name, way):
    class Act(nn.Module):
        def forward(self, x):
            return x.relu()

    def make():
        m = net()
        m.b[0] = Act()
        return m

    saved = Act.forward
    mine, reference = make(), make()
    x = vec(4, 2)
    if way == "module":
        with framejit.config.patch(strict=True):
            framejit.compile(mine)
        run = mine
    else:
        handle = strict_compile(call)
        run = lambda *args: handle(mine, *args)  # noqa: E731
    try:
        assert torch.equal(run(x), reference(x))
        assert torch.equal(run(x), reference(x))
        before = reference(x)
        for m in (mine, reference):
            torch.manual_seed(1)
            EDITS[name](m)
            if "class" in name:
                Act.forward = Act.forward
        if name == "parameter of another dtype":
            x = x.double()
        expected = reference(x)
        if name not in ("parameter of another dtype", "parameter frozen"):
            assert not torch.equal(expected, before), "an edit that changes nothing"
        for _ in range(2):
            found = run(x)
            assert (
                torch.equal(found, expected)
                and found.requires_grad == expected.requires_grad
                and found.dtype == expected.dtype
            )
    finally:
        Act.forward = saved


def test_hook_removed_after_compile():
    m, g, x = net(), strict_compile(call), vec(4, 2)
    hook = m.a.register_forward_hook(lambda mod, args, out: out + 1)
    with_hook = m(x)
    assert torch.equal(g(m, x), with_hook)
    hook.remove()
    without = m(x)
    assert torch.equal(g(m, x), without) and not torch.equal(with_hook, without)


def test_global_hooks():
    m, g, x = net(), strict_compile(call), vec(4, 2)
    assert torch.equal(g(m, x), m(x))
    hook = nn.modules.module.register_module_forward_hook(
        lambda mod, args, out: out * 2 if isinstance(mod, nn.Linear) else None
    )
    try:
        expected = m(x)
        assert torch.equal(g(m, x), expected)
    finally:
        hook.remove()
    assert torch.equal(g(m, x), m(x))


def test_hooks_captured():
    def make():
        m = net()
        m.a.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
        m.a.register_forward_hook(lambda mod, args, out: out * 2)
        return m

    check(call, make(), vec(4, 2), graphs=None, breaks=None)


def test_backward_hooks():
    seen = []

    def make():
        m = net()
        m.a.register_full_backward_hook(
            lambda mod, gin, gout: seen.append(
                (gin[0].shape if gin[0] is not None else None, gout[0].sum().item())
            )
        )
        return m

    x = vec(4, 2, grad=True)
    m, g = make(), strict_compile(call)
    m(x).sum().backward()
    expected, grads = list(seen), [p.grad.clone() for p in m.parameters()]
    seen.clear()
    m.zero_grad()
    for _ in range(2):
        g(m, x).sum().backward()
        assert seen == expected
        seen.clear()
        for p, grad in zip(m.parameters(), grads, strict=True):
            torch.testing.assert_close(p.grad, grad)
        m.zero_grad()


def test_tensor_hooks():
    def f(x, log):
        y = x * 2
        y.register_hook(lambda grad: grad * 10)
        return y.sum()

    x = vec(2, grad=True)
    strict_compile(f)(x, []).backward()
    assert torch.equal(x.grad, torch.full((2,), 20.0))


def test_module_made_inside():
    def f(x):
        m = nn.ReLU()
        return m(x - 0.5)

    check(f, vec(3), graphs=None, breaks=None)


def test_functional_call():
    def f(m, x):
        return torch.func.functional_call(m, {"a.weight": torch.ones(3, 2)}, (x,))

    check(f, net(), vec(4, 2), graphs=None, breaks=None, again=False)


def test_missing_attribute():
    def f(m, x):
        y = x + 1
        try:
            return m.nothing
        except AttributeError as error:
            return str(error), y

    check(f, net(), vec(2))


def test_attribute_assignments_inside():
    def f(m, x):
        m.scale = m.scale + 1
        m.fresh = x * 2
        m.steps = m.steps + 1
        m.log.append(m.fresh)
        del m.calls
        return m.fresh + m.steps, hasattr(m, "calls"), getattr(m, "nope", 3)

    check(f, net(), vec(1))


def test_parameter_and_submodule_assigned_inside():
    def f(m, x):
        y = m(x)
        m.a = nn.Linear(2, 3)
        m.w = nn.Parameter(torch.ones(2))
        return y, m(x) + m.w

    check(f, net(), vec(4, 2), graphs=None, breaks=None, again=False)


def test_module_in_containers_and_attributes():
    class Holder:
        def __init__(self, m):
            self.m = m

    def f(h, items, table, x):
        return h.m(x) + items[0](x) + table["m"](x)

    m = net()
    check(f, Holder(m), [m], {"m": m}, vec(4, 2))


def test_two_modules_of_one_class():
    g, x = strict_compile(call), vec(4, 2)
    torch.manual_seed(3)
    one, two = Net(), Net()
    for m in (one, two, one, two):
        assert torch.equal(g(m, x), m(x))


def test_shared_submodule_and_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.c = nn.Linear(2, 2)
            self.c.weight = self.a.weight

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    check(call, net(Tied), vec(4, 2), backward=True)
    g, m, x = strict_compile(call), net(Tied), vec(4, 2)
    assert torch.equal(g(m, x), m(x))
    m.b = nn.Linear(2, 2)
    assert torch.equal(g(m, x), m(x))


# compiled in place


def compiled(m, **options):
    with framejit.config.patch(strict=True):
        return framejit.compile(m, **options)


def test_module_stays_itself():
    m = net()
    keys, before = list(m.state_dict()), m(vec(4, 2))
    same = compiled(m)
    assert same is m and type(m) is Net and isinstance(m, Net) and list(m.state_dict()) == keys
    assert torch.equal(m(vec(4, 2)), before)
    assert [n for n, _ in m.named_modules()] == [n for n, _ in net().named_modules()]
    assert m.framejit.is_compiled and m.framejit.compiles >= 1
    assert repr(m) == repr(net())


def test_module_copied_and_pickled():
    m, x = compiled(net()), vec(4, 2)
    expected = m(x)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), copy.copy(m)):
        assert type(other) is Net and torch.equal(other(x), expected)
        assert isinstance(other.framejit.is_compiled, bool)
    torch.manual_seed(0)
    fresh = Net()
    fresh.load_state_dict(m.state_dict())
    assert torch.equal(fresh(x), expected)


def test_copy_of_a_compiled_module_is_independent():
    m, x = compiled(net()), vec(4, 2)
    m(x)
    other = copy.deepcopy(m)
    with torch.no_grad():
        other.a.weight.zero_()
    reference = net()
    assert torch.equal(m(x), reference(x))
    with torch.no_grad():
        reference.a.weight.zero_()
    assert torch.equal(other(x), reference(x))


def test_compiled_submodule():
    m, x = net(), vec(4, 2)
    expected = m(x)
    compiled(m.a)
    assert torch.equal(m(x), expected)
    g = strict_compile(call)
    assert torch.equal(g(m, x), expected)
    assert g.framejit.compiles >= 1


def test_compiled_module_inside_compiled_module():
    m, x = net(), vec(4, 2)
    expected = m(x)
    compiled(m.b)
    compiled(m)
    for _ in range(2):
        assert torch.equal(m(x), expected)


def test_forward_of_a_class_decorated():
    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        @framejit.compile
        def forward(self, x):
            return self.lin(x) + 1

    m, other, x = net(Decorated), Decorated(), vec(3, 2)
    for module in (m, other, m):
        assert torch.equal(module(x), module.lin(x) + 1)
    assert Decorated.forward.framejit.compiles >= 1
    copied = copy.deepcopy(m)
    assert torch.equal(copied(x), m(x))


def test_training_steps():
    def train(compile_it):
        torch.manual_seed(0)
        m = Net()
        if compile_it:
            compiled(m)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(4):
            optimizer.zero_grad()
            loss = (m(vec(4, 2) + step) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().clone() for p in m.parameters()]

    (eager, weights), (found, mine) = train(False), train(True)
    assert eager == found
    for a, b in zip(weights, mine, strict=True):
        torch.testing.assert_close(a, b)


def test_step_of_an_optimizer_inside():
    def f(m, optimizer, x):
        optimizer.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    def train(function):
        torch.manual_seed(0)
        m = Net()
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        return [function(m, optimizer, vec(4, 2)).item() for _ in range(3)]

    assert train(strict_compile(f)) == train(f)


def test_break_in_forward_keeps_graphs():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            self.seen = 0

        def forward(self, x):
            x = self.a(x)
            self.seen += 1
            print("middle", self.seen)
            return self.b(x)

    def f(m, x):
        return m(x) * 2

    check(f, net(Noisy), vec(3, 2), graphs=None, breaks=None, backward=True)


def test_module_with_properties_and_class_attributes():
    class Fancy(nn.Module):
        kind = "fancy"
        registry: dict = {}

        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)
            self._k = 3

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, v):
            self._k = v

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.lin, name)

        def forward(self, x):
            self.k = self.k + 1
            return self.lin(x) * self.k + self.in_features + len(self.kind)

    check(call, net(Fancy), vec(3, 2), graphs=None, breaks=None)


def test_module_call_overridden():
    class Odd(nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    check(call, net(Odd), vec(2), graphs=None, breaks=None)


def test_lazy_and_parametrized_modules():
    m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    x = vec(3, 2)
    g = strict_compile(call)
    torch.testing.assert_close(g(m, x), m(x))
    lazy = nn.LazyLinear(3)
    h = strict_compile(call)
    out = h(lazy, x)
    torch.testing.assert_close(out, lazy(x))


def test_state_dict_and_load_inside():
    def f(m, x):
        sd = m.state_dict()
        return x + sd["a.weight"].sum()

    check(f, net(), vec(2), graphs=None, breaks=None, again=False)


def test_apply_and_to_inside():
    def f(m, x):
        m.train(False)
        y = m(x)
        m.requires_grad_(False)
        return y, m.training

    check(f, net(), vec(4, 2), graphs=None, breaks=None, again=False)


def test_a_hook_added_and_removed_in_the_frame():
    def f(m, x):
        handle = m.a.register_forward_hook(lambda module, args, out: out * 2)
        y = m(x)
        handle.remove()
        return y + m(x)

    check(f, net(), vec(4, 2), graphs=None, breaks=None, again=False)  # handles are numbered


@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_that_are_always_called_are_called_where_a_module_raises(everywhere):
    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError(f"no {len(x)}")

    def f(x, module, log):
        try:
            module(x + 1)
        except ValueError as error:
            log.append(str(error))
        return x * 2

    log: list[Any] = []
    module = Failing()
    if everywhere:
        handle = torch.nn.modules.module.register_module_forward_hook(
            lambda m, args, out: log.append((len(args), out)), always_call=True
        )
    else:
        handle = module.register_forward_hook(
            lambda m, args, named, out: log.append((len(args), named, out)),
            always_call=True,
            with_kwargs=True,
        )
        module.register_forward_hook(lambda m, args, out: log.append("never"))
    try:
        f(vec(3), module, log)
        expected = list(log)
        log.clear()
        assert torch.equal(
            strict_compile(f, backend="eager", fullgraph=True)(vec(3), module, log), vec(3) * 2
        )
        assert log == expected and len(log) == 2
    finally:
        handle.remove()


class Buffered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.ones(2))


def registered_and_set(x, m):
    m.register_buffer("more", x + 1)
    m.more = x * 2
    return x + m.more, "more" in vars(m)


def put_and_set(x, m):
    m._buffers["q"] = x + 1
    m.q = x * 5
    return m.q, "q" in vars(m)


def popped_and_set(x, m):
    m._buffers.pop("b")
    m.b = x * 5
    return m.b, "b" in vars(m)


def deleted_and_set(x, m):
    del m.b
    m.b = x
    return x + 1, "b" in vars(m)


def made_once(x, m):
    if not hasattr(m, "cache"):
        m.register_buffer("cache", torch.zeros(2), persistent=False)
    m.cache = m.cache + x
    return m.cache * 2, list(m.state_dict())


@pytest.mark.parametrize(
    "f",
    [registered_and_set, put_and_set, popped_and_set, deleted_and_set, made_once],
    ids=lambda f: f.__name__,
)
def test_what_is_a_buffer_is_what_the_program_has_left(f):
    check(f, vec(2), Buffered(), graphs=None, breaks=None)


@pytest.mark.parametrize("table", ["parameter", "buffer", "module"])
def test_a_name_that_is_registered_later(table):
    def f(x, m):
        return x + 1 if hasattr(m, "later") else getattr(m, "other", x) * 2

    handle, mine = framejit.compile(f, backend="eager"), torch.nn.Linear(2, 2)
    assert torch.equal(handle(vec(2), mine), vec(2) * 2)
    assert torch.equal(handle(vec(2), mine), vec(2) * 2)
    made = torch.nn.Identity() if table == "module" else torch.nn.Parameter(torch.ones(2))
    register = getattr(mine, f"register_{table}")
    register("later", made)
    assert torch.equal(handle(vec(2), mine), vec(2) + 1)


class Scaled(torch.nn.Module):
    def __init__(self, scale):
        self.early = scale + 1
        super().__init__()
        self.scale = scale


def test_a_module_is_made_by_its_compiled_init():
    compiled = framejit.compile(Scaled.__init__, backend="eager")
    made = Scaled.__new__(Scaled)
    compiled(made, 3)
    assert list(vars(made)) == list(vars(Scaled(3))) and made.scale == 3


def pad(x):
    made = nn.Module()
    made.register_buffer("shift", torch.ones(3))
    made.shift = made.shift + 1
    made.scaled = x * 2
    return (
        made.shift * made.scaled,
        hasattr(made, "other"),
        dict(made.named_buffers()),
        made.training,
    )


MADE = {
    "cross entropy": lambda x, y: nn.CrossEntropyLoss()(x, y),
    "cross entropy with weights": lambda x, y: nn.CrossEntropyLoss(torch.arange(3.0), ignore_index=1)(x, y),
    "likelihood": lambda x, y: nn.NLLLoss()(nn.LogSoftmax(-1)(x), y),
    "binary": lambda x, y: nn.BCEWithLogitsLoss(pos_weight=torch.arange(3.0))(x, x.detach().sigmoid()),
    "squares": lambda x, y: nn.MSELoss()(x, x.exp()) + nn.SmoothL1Loss(beta=0.5)(x, x * 3),
    "divergence": lambda x, y: nn.KLDivLoss(reduction="batchmean")(x, x.detach().exp()),
    "sequence": lambda x, y: nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Flatten(0), nn.Softmax(-1))(x),
    "list": lambda x, y: [m(x) for m in nn.ModuleList([nn.Tanh(), nn.Identity()])],
    "norms": lambda x, y: (nn.BatchNorm1d(3, affine=False)(x), nn.LayerNorm(3, elementwise_affine=False)(x)),
    "buffers": lambda x, y: pad(x),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_made_in_the_frame(name):
    def f(x, y):
        return MADE[name](x.sin(), y)

    x = torch.linspace(-1, 2, 12).reshape(4, 3).requires_grad_()
    check(f, x, torch.tensor([0, 2, 1, 1]), backward=True)
