"""Whole training steps compiled: gradients stored and reset, clipped and scaled, optimizers'
methods."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from framejit import events
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .harness import capture_events, check, strict_compile, vec

OPTIMIZERS = {
    "SGD": {"lr": 0.01}, "SGD,momentum": {"lr": 0.01, "momentum": 0.9, "nesterov": True}, "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1}, "AdamW,foreach": {"lr": 0.01, "foreach": True}, "RMSprop": {"lr": 0.01},
}  # fmt: skip


class Trained(nn.Sequential):
    """Its copies have the gradients, too."""

    def __deepcopy__(self, memo):
        made = copy._reconstruct(self, memo, *self.__reduce_ex__(2), deepcopy=copy.deepcopy)
        for mine, its in zip(self.parameters(), made.parameters(), strict=True):
            its.grad = copy.deepcopy(mine.grad, memo)
        return made


def leaf(*shape, grad=True, dtype=torch.float32):
    made = vec(*shape, dtype=dtype).requires_grad_()
    if grad:
        made.grad = vec(*shape, dtype=dtype) + 1
    return made


def net():
    torch.manual_seed(0)
    return Trained(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_a_gradient_set_to_none():
    def f(p):
        before = p.grad
        p.grad = None
        return p.grad is None, before, p * 2

    check(f, leaf(3))
    check(f, leaf(3, grad=False))


def test_a_gradient_deleted():
    def f(p):
        del p.grad
        return p.grad, p + 1

    check(f, leaf(3))


def test_a_gradient_made_in_the_graph():
    def f(p, x):
        p.grad = x * 2
        p.grad += 1
        return p.grad * 3, p.grad

    check(f, leaf(3), vec(3))


def test_gradients_exchanged():
    def f(p, q):
        p.grad, q.grad = q.grad, p.grad
        return p.grad + 1, q.grad is p.grad

    check(f, leaf(3), leaf(3))


def test_a_gradient_that_is_another_tensors_storage():
    def f(p, flat):
        p.grad = flat[:3]
        p.grad.mul_(2)
        return flat.sum()

    check(f, leaf(3), vec(5))


def test_stored_and_then_a_break_and_a_rollback():
    def f(p, x):
        y = x + 1
        p.grad = y
        print(p.grad.shape)
        p.grad = None
        return p * y

    check(f, leaf(3), vec(3), graphs=2, breaks=("output",))


def test_a_break_in_the_statement_that_stores():
    def f(p, x):
        p.grad, n = x * 2, ((x.sum() > 0).item(), setattr(p, "grad", None))[0]
        return p.grad * n

    check(f, leaf(3), vec(3), graphs=2, breaks=("data-dependent-value",))


@pytest.mark.parametrize("make", [lambda x: x[:2], lambda x: x.double(), lambda x: 3])
def test_gradients_that_torch_refuses_are_refused_by_torch(make):
    def f(p, x):
        try:
            p.grad = make(x)
        except (RuntimeError, TypeError) as error:
            return str(error).partition("\n")[0], p * 2
        return p * 3

    check(f, leaf(3), vec(3), graphs=None, breaks=None, again=False)


def test_a_tensor_as_its_own_gradient():
    def f(p):
        y = p * 2
        p.grad = p
        return y

    check(f, leaf(3), graphs=None, breaks=None)


def test_one_tensor_under_two_names():
    def f(p, q):
        p.grad = None
        return q.grad is None, q * 2

    one, other = leaf(3), leaf(3)
    handle = strict_compile(f, backend="eager")
    assert handle(one, other)[0] is False
    assert handle(other, other)[0] is True
    one.grad = vec(3)
    assert handle(one, other)[0] is True and one.grad is None


def test_the_other_tensor_is_looked_at_for_its_gradient_only():
    def f(p, q):
        p.grad = None
        return q.grad is None

    one, other = leaf(3), leaf(3)
    handle = strict_compile(f, backend="eager")
    assert handle(one, other) is False
    one.grad = vec(3)
    assert handle(one, one) is True


def test_a_gradient_stored_after_a_pass():
    def f(p, seen):
        p.grad = None
        (p * 2).sum().backward()
        seen.append(p.grad.clone())
        p.grad = p.grad * 0.5
        return p.grad

    check(f, leaf(3), [])


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad_of_a_module(to_none):
    def f(m, x):
        m.zero_grad(set_to_none=to_none)
        return m(x)

    model = net()
    model(vec(3, 4)).sum().backward()
    check(f, model, vec(3, 4))


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "eager") for name in OPTIMIZERS), ("SGD", "aot_eager"), ("AdamW", "native")],
)
def test_training_steps(name, backend):
    def train(compile_it):
        model = net()
        optimizer = getattr(torch.optim, name.partition(",")[0])(
            model.parameters(), **OPTIMIZERS[name]
        )

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss, norm

        function = strict_compile(step, backend=backend) if compile_it else step
        results = [function(vec(3, 4) + i) for i in range(4)]
        return (
            results,
            [p.detach() for p in model.parameters()],
            [p.grad for p in model.parameters()],
            function,
        )

    eager, mine = train(False), train(True)
    torch.testing.assert_close(mine[:3], eager[:3], rtol=1e-4, atol=1e-5)
    assert mine[3].framejit.compiles <= 4


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_zero_grad_of_an_optimizer_has_no_break(name):
    model = net()
    model(vec(3, 4)).sum().backward()

    def f(optimizer, model, x):
        optimizer.zero_grad()
        return model(x), [p.grad for p in model.parameters()]

    check(f, getattr(torch.optim, name)(model.parameters(), lr=0.1), model, vec(3, 4))


CLIPPERS = {
    "norm": lambda ps: nn.utils.clip_grad_norm_(ps, 0.5),
    "largest": lambda ps: nn.utils.clip_grad_norm_(ps, 0.5, norm_type=float("inf"), foreach=True),
    "value": lambda ps: nn.utils.clip_grad_value_(ps, 1.2),
    "one by one": lambda ps: nn.utils.clip_grad_norm_(ps, 0.5, foreach=False),
    "total": lambda ps: nn.utils.get_total_norm([p.grad for p in ps if p.grad is not None]),
}


@pytest.mark.parametrize("how", CLIPPERS)
def test_gradients_clipped(how):
    clip = CLIPPERS[how]

    def f(ps):
        return clip(ps), [p.grad for p in ps]

    check(
        f,
        [
            leaf(3),
            leaf(2, grad=False),
            leaf(2, 2, dtype=torch.float64),
            leaf(4),
            leaf(1, dtype=torch.bfloat16),
        ],
    )


def test_tensors_in_groups_as_torch_orders_them():
    group = torch.utils._foreach_utils._group_tensors_by_device_and_dtype

    def f(a, b):
        found = group([a, b, []], with_indices=True)
        bare = group([a, b])
        return (
            [(key, lists, where) for key, (lists, where) in found.items()],
            list(bare.items()),
            a[0] * 2,
        )

    a = [
        vec(1),
        vec(2, dtype=torch.float64),
        vec(3),
        vec(2, dtype=torch.bfloat16),
        vec(2, dtype=torch.float64),
    ]
    check(f, a, [vec(2), None, vec(1), None, vec(3)])


def test_lists_that_do_not_go_together():
    def f(a, b):
        try:
            return torch._C._group_tensors_by_device_and_dtype([a, b], False)
        except RuntimeError:
            return a[0] + 1

    check(f, [vec(1), vec(2)], [vec(1)], graphs=None, breaks=1)


def test_what_is_compiled_leaves_the_model_to_be_copied():
    def f(m):
        for p in m.parameters():
            p.grad = torch.zeros_like(p)
        return None

    model = net()
    strict_compile(f, backend="eager")(model)
    copied = copy.deepcopy(model)
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in copied.parameters())
    assert len({id(p.grad) for p in model.parameters()}) == 4


STEPPED = {
    "SGD": {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}, "Adam": {"amsgrad": True}, "AdamW": {"fused": True}, "NAdam": {}, "RAdam": {},
    "RAdam,foreach": {"foreach": True, "weight_decay": 0.1}, "ASGD": {"t0": 3.0}, "ASGD,foreach": {"foreach": True, "t0": 3.0}, "Adamax": {},
    "Adagrad": {}, "Adagrad,foreach": {"foreach": True}, "Adadelta": {}, "Rprop": {}, "RMSprop": {"centered": True, "momentum": 0.9},
    "RMSprop,foreach": {"foreach": True, "centered": True, "momentum": 0.9},
    **{f"{name},tensor": {"lr": torch.tensor(0.01), "foreach": False} for name in ("SGD", "Adam", "AdamW", "Adadelta", "Rprop", "RMSprop", "NAdam")},
    "SGD,tensor,momentum": {"lr": torch.tensor(0.01, dtype=torch.float64), "foreach": False, "momentum": 0.9, "nesterov": True},
    "SGD,tensor,foreach": {"lr": torch.tensor(0.01), "foreach": True, "momentum": 0.9},
}  # fmt: skip


def stepped(cls, settings, steps, compile_it, schedule=None):
    """Loss, parameters and state after some steps; the breaks; how often it was compiled at each
    step."""
    model = net()
    optimizer = cls(model.parameters(), **{"lr": 0.01, **settings})
    scheduler = schedule and schedule(optimizer)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return loss

    function = strict_compile(step, backend="eager") if compile_it else step
    seen = capture_events(function) if compile_it else []
    losses, compiles = [], []
    for i in range(steps):
        losses.append(function(vec(3, 4) + i / 10).detach())
        compiles.append(function.framejit.compiles if compile_it else 0)
    broken = [event.sentence for event in seen if isinstance(event, events.Break)]
    state = [
        value for values in optimizer.state_dict()["state"].values() for value in values.values()
    ]
    return (
        [losses, [p.detach() for p in model.parameters()], state, optimizer.param_groups[0]["lr"]],
        broken,
        compiles,
    )


@pytest.mark.parametrize("name", STEPPED)
def test_a_step_has_no_break(name):
    cls = getattr(torch.optim, name.partition(",")[0])
    eager, mine = (stepped(cls, STEPPED[name], 8, compile_it) for compile_it in (False, True))
    torch.testing.assert_close(mine[0], eager[0], rtol=2e-6, atol=1e-7)
    assert mine[1] == [] and mine[2][-1] == mine[2][1] <= 4


FACTORS = {
    "add": lambda x, y, a: x.add(y, alpha=a), "add_": lambda x, y, a: x.add_(y, alpha=-a), "sub": lambda x, y, a: torch.sub(x, y, alpha=a),
    "sub_": lambda x, y, a: x.sub_(y, alpha=a), "torch.add": lambda x, y, a: torch.add(x, y, alpha=a.double()),
    "what is written": lambda x, y, a: x.add_(y, alpha=x[0, 0]), "nested": lambda x, y, a: (x.add(y, alpha=a).sub_(y, alpha=a * a), a),
    "full_like": lambda x, y, a: torch.full_like(x, a), "full_like, double": lambda x, y, a: torch.full_like(x.t(), a.double()),
    "no tensor": lambda x, y, a: (x.add(y, alpha=2), torch.add(x, 3, alpha=2), torch.add(1, x, alpha=2), torch.sub(x, y, out=x.clone())),
    "by name": lambda x, y, a: (torch.add(input=x, other=y, alpha=2), torch.sub(x, other=y), x.add(other=y), torch.full_like(input=x, fill_value=2)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", FACTORS)
def test_a_number_in_a_tensor_as_a_factor(name, backend):
    check(FACTORS[name], vec(3, 4), vec(4), torch.tensor(0.3), fullgraph=True, backend=backend)


def test_what_a_factor_gives_is_rounded_once():
    f = strict_compile(
        lambda x, y, a: (x.add(y, alpha=a), x.sub(y, alpha=a)), backend="eager", fullgraph=True
    )
    for dtype in (torch.float32, torch.float64):
        x, y, a = (
            torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape)))
            for shape in ((64, 37), (37,), ())
        )
        assert torch.equal(f(x, y, a)[0], x.add(y, alpha=a)) and torch.equal(
            f(x, y, a)[1], x.sub(y, alpha=a)
        )


ASKED = {
    "a gradient": (vec(3, grad=True), torch.tensor(0.3)), "integers": (torch.arange(3), torch.tensor(3)), "half": (vec(3).half(), torch.tensor(0.3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_number_that_an_operator_asks_a_tensor_for(name):
    def f(x, a):
        y = x * 2
        return y.add(x, alpha=a) * 2

    breaks = ("data-dependent-value",) if fake_tensors_refuse(f, *ASKED[name]) else ()
    assert breaks or name == "integers"
    check(f, *ASKED[name])
    with framejit.config.patch(capture_scalar_outputs=False):
        check(f, *ASKED[name], graphs=1 + len(breaks), breaks=breaks)


def fake_tensors_refuse(f, *args):
    """Whether torch asks for the number when sizes are calculated; from 2.15 on it does not for
    integers."""
    with FakeTensorMode() as mode:
        try:
            f(*map(mode.from_tensor, args))
        except RuntimeError:
            return True
    return False


def test_lbfgs():
    def run(compile_it):
        model, seen = net(), []
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, lr=0.1)

        def step(x):
            def closure():
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                return loss

            return optimizer.step(closure)

        function = strict_compile(step, backend="eager") if compile_it else step
        if compile_it:
            seen = capture_events(function)
        losses = [function(vec(3, 4) + i / 10).detach() for i in range(3)]
        told = {
            event.reason_id
            for event in seen
            if isinstance(event, events.Break) and "add_" in event.sentence
        }
        return losses, [p.detach() for p in model.parameters()], told

    mine, eager = run(True), run(False)
    torch.testing.assert_close(mine[:2], eager[:2], rtol=2e-6, atol=1e-7)
    assert not mine[2]


def test_the_end_of_a_range_opened_before_a_break():
    def f(x):
        with torch.profiler.record_function("range"):
            n = ((x * 2).sum() > 0).item()
            y = x + n
        return y.sin()

    check(f, vec(3), graphs=None, breaks=("data-dependent-value", "unknown-call"))


SCHEDULES = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 3), "ExponentialLR": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10), "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 60),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: 0.95**n), "LinearLR": lambda o: torch.optim.lr_scheduler.LinearLR(o),
}  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"foreach": False, "lr": torch.tensor(0.01)},
        {"beta2_decay": -0.7, "weight_decay": 0.1, "maximize": True, "eps": (1e-6, 1e-2)},
    ],
    ids=["", "tensor", "all"],
)
def test_a_step_of_adafactor_is_left_to_python(settings):
    eager, mine = (
        stepped(torch.optim.Adafactor, copy.deepcopy(settings), 4, compile_it, SCHEDULES["StepLR"])
        for compile_it in (False, True)
    )
    torch.testing.assert_close(mine[0], eager[0], rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule(name):
    eager, mine = (
        stepped(torch.optim.SGD, {}, 20, compile_it, SCHEDULES[name])
        for compile_it in (False, True)
    )
    torch.testing.assert_close(mine[0], eager[0], rtol=1e-6, atol=1e-7)
    assert (
        mine[1] == []
        and mine[2][-1] <= 8
        and mine[2][-1] == mine[2][10 if name != "OneCycleLR" else 17]
    )


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize(
    "settings", [{}, {"num_layers": 2, "dropout": 0.5}], ids=["plain", "dropout"]
)
@pytest.mark.parametrize("cls", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_networks(cls, settings, backend):
    def f(m, x):
        return m(x)[0]

    torch.manual_seed(0)
    check(f, cls(3, 4, batch_first=True, **settings), vec(2, 5, 3), backend=backend, backward=True)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_dropout_of_a_recurrent_network_without_gradients(backend):
    def f(m, x):
        with torch.no_grad():
            return m(x)[0]

    torch.manual_seed(0)
    check(f, nn.GRU(3, 4, 2, dropout=0.5), vec(2, 5, 3), backend=backend)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_an_overload_that_is_a_keyword(backend):
    def f(x):
        return torch.empty(4).random_(0, 9) + x, x.sin()

    check(f, vec(4), backend=backend)
