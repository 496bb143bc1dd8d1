"""Autograd inside compiled code: custom functions, gradients taken in the frame, checkpoints,
transforms; and around it."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from framejit import config
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from .harness import check, strict_compile, vec

BACKENDS = ["eager", "aot_eager"]
LOG = []
LAYER = torch.nn.Linear(2, 2)


class Exp(Function):
    """Its gradient is wrong on purpose: twice the true one."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result * 2


class Linear(Function):
    """Arguments that are no tensors, an intermediate kept on ctx, an output that is no tensor."""

    @staticmethod
    def forward(ctx, x, w, k, flag=True):
        ctx.save_for_backward(x, w)
        ctx.k, ctx.middle = k, (x * 3).sin()
        return x @ w * k, k, x + 1

    @staticmethod
    def backward(ctx, grad, grad_k, grad_other):
        x, w = ctx.saved_tensors
        assert grad_k is None
        left = grad @ w.t() * ctx.k + ctx.middle + grad_other if ctx.needs_input_grad[0] else None
        right = x.t() @ grad * ctx.k if ctx.needs_input_grad[1] else None
        return left, right, None, None


class Scaled(Function):
    """With setup_context; one output without gradient."""

    @staticmethod
    def forward(x, n=2):
        return x * n, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]
        ctx.save_for_backward(output[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.n * ctx.saved_tensors[0], None


class Loud(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        LOG.append(len(LOG))
        return grad * 3


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class InPlaceOfOne(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.mark_dirty(x)
        return y + 1, x.mul_(y)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return h * y * 3, g + h * x


class Unsaid(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * 7


def one(x, w):
    return Exp.apply(x * 2) + w


def other_arguments(x, w):
    a, b, c = Linear.apply(x, w, 3)
    return a * b + c, Linear.apply(x, w.detach(), 2, False)[0], Linear.apply(x, x, 2)[0]


def setup_context(x, w):
    a, positive = Scaled.apply(x)
    return a * w, positive, Scaled.apply(w, 5)[0]


def nested(x, w):
    return Exp.apply(Exp.apply(x) * w)


def without_gradients(x, w):
    with torch.no_grad():
        y = Exp.apply(x)
    return y, w * 2


def returns_its_input(x, w):
    return Same.apply(x) * w


def in_a_loop(x, w):
    for _ in range(3):
        x = Exp.apply(x * 0.1)
    return x * w


def grad_of_custom(x, w):
    y = Exp.apply(x)
    (g,) = torch.autograd.grad(y.sum(), x)
    return g * w


def grad_twice(x, w):
    y = (x * w).sin()
    g = torch.autograd.grad(y.sum(), [x, w], create_graph=True)
    return g[0] * w + g[1]


def grad_of_a_leaf_made_inside(x, w):
    y = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((y * w).sum(), y)
    return g * w


def leaf_handed_out(x, w):
    y = x.detach().requires_grad_()
    return y, (y * w).sum()


def forces(x, w):
    at = x.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        energy = (at * w.detach()).pow(3).sum()
    return energy.detach(), -torch.autograd.grad(energy, at)[0], w * 1


def unused(x, w):
    return torch.autograd.grad((x * 2).sum(), [x, w], allow_unused=True), x * w


def checkpointed(x, w):
    y = checkpoint(lambda a, b: (a @ b).sin(), x * 2, w, use_reentrant=False)
    return y * 2


def checkpoint_of_two(x, w):
    y, z = checkpoint(lambda a: (F.dropout(a @ w).sin(), a + 1), x, use_reentrant=False)
    return y * 2 + z


def checkpoint_of_custom(x, w):
    return checkpoint(Exp.apply, x, use_reentrant=False) * w


def checkpoint_without_gradients(x, w):
    with torch.no_grad():
        y = checkpoint(lambda a: a.sin(), x, use_reentrant=False)
    return y * w


def func_grad(x, w):
    return torch.func.grad(lambda a: (a.sin() * w).sum())(x) * w


def func_grad_and_value(x, w):
    (g, h), value = torch.func.grad_and_value(lambda a, b: (a.sin() * b).sum(), argnums=(0, 1))(
        x, w
    )
    return g, h, value


def func_vmap_of_grad(x, w):
    return torch.func.vmap(torch.func.grad(lambda a, b: (a.sin() * b).sum()))(x, w)


def func_grad_of_grad(x, w):
    return torch.func.grad(lambda a: torch.func.grad(lambda b: (b**3).sum())(a).sum())(x) * w


def func_vjp(x, w):
    out, pull = torch.func.vjp(lambda a: a.sin() * w, x)
    return out, pull(w)[0]


def func_grad_of_parameters(x, w):
    def loss(params):
        return torch.func.functional_call(LAYER, params, (x,)).pow(2).sum()

    return torch.func.grad(loss)({"weight": w, "bias": x[0]})


def in_place(x, w):
    return InPlace.apply(x * 1) * w


def in_place_of_one(x, w):
    a = x * w
    b, c = InPlaceOfOne.apply(a, w)
    return b, c, a, a is c, a.requires_grad, a.sin()


def in_place_of_an_argument(x, w):
    y = w.detach()
    return x + InPlace.apply(y), y


def in_place_that_gains_a_history(x, w):
    a = x.detach() * 1
    before = a.requires_grad
    b, c = InPlaceOfOne.apply(a, w)
    return before, a.requires_grad, a * c, b


def in_place_without_gradients(x, w):
    with torch.no_grad():
        a = x * 1
        b = InPlace.apply(a), a, InPlaceOfOne.apply(a, w)
    return x * w, b


def save_products(ctx, operator, *args, **kwargs):
    saved = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


SAVED = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])


def selective_contexts():
    return create_selective_checkpoint_contexts(save_products)


def layer_of(a, w):
    return ((a @ w).sin() @ w).cos()


def selective_by_policy(x, w):
    contexts = functools.partial(create_selective_checkpoint_contexts, save_products)
    return checkpoint(layer_of, x, w, use_reentrant=False, context_fn=contexts) * 2


def selective_by_operators(x, w):
    operators = [torch.ops.aten.mm.default, torch.ops.aten.sin.default]
    contexts = functools.partial(create_selective_checkpoint_contexts, operators)
    y = checkpoint(layer_of, x * 2, w, use_reentrant=False, context_fn=contexts)
    return checkpoint(layer_of, y, w, use_reentrant=False, context_fn=SAVED)


def selective_by_contexts(x, w):
    y = checkpoint(layer_of, x, w, use_reentrant=False, context_fn=selective_contexts)
    return checkpoint(
        lambda a: F.dropout(a @ w).sin(),
        y,
        use_reentrant=False,
        context_fn=selective_contexts,
        determinism_check="none",
    )


CAPTURED = [
    selective_by_policy, selective_by_operators, selective_by_contexts,
    func_grad, func_grad_and_value, func_vmap_of_grad, func_grad_of_grad, func_vjp, func_grad_of_parameters,
    one, other_arguments, setup_context, nested, without_gradients, returns_its_input, in_a_loop, grad_of_custom, grad_twice,
    grad_of_a_leaf_made_inside, leaf_handed_out, forces, unused, checkpointed, checkpoint_of_two, checkpoint_of_custom,
    checkpoint_without_gradients, in_place, in_place_of_one, in_place_of_an_argument, in_place_that_gains_a_history,
    in_place_without_gradients,
]  # fmt: skip


@pytest.mark.parametrize(
    "program",
    [one, other_arguments, setup_context, nested, returns_its_input],
    ids=lambda p: p.__name__,
)
@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_inference(program, backend):
    check(program, vec(2, 2), vec(2, 2), backend=backend)


@pytest.mark.parametrize("program", CAPTURED, ids=lambda p: p.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_captured_in_one_graph(program, backend):
    check(program, vec(2, 2, grad=True), vec(2, 2, grad=True), backend=backend, backward=True)


def side_effect_in_backward(x, w):
    return Loud.apply(x) * w


def in_place_unsaid(x, w):
    return Unsaid.apply(x * 1) * w


def in_place_of_a_view(x, w):
    a = x * 1
    return InPlace.apply(a[0]) * w, a


def in_place_of_a_leaf(x, w):
    try:
        return InPlace.apply(x) * w
    except RuntimeError as error:
        return str(error), x * w


def only_once(x, w):
    return Once.apply(x) * w


def checkpoint_with_an_effect(x, w):
    def inner(a):
        LOG.append(a.dim())
        return (a * w).sin()

    return checkpoint(inner, x, use_reentrant=False) * 2


def checkpoint_that_breaks(x, w):
    def inner(a):
        print("inside")
        return (a * w).sin()

    return checkpoint(inner, x, use_reentrant=False) * 2


def break_in_vmap(x, w):
    def inner(a):
        print("inside")
        return a.sin()

    return torch.func.vmap(inner)(x) * w


def break_in_grad(x, w):
    def inner(a):
        y = a.sin() * 2
        if y.sum() > 100:
            y = y + 1
        return y.sum()

    return torch.func.grad(inner)(x) * w, torch.func.jvp(torch.sin, (x,), (w,))


def branches(x, w):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)) * w


BROKEN = [
    break_in_vmap, break_in_grad, side_effect_in_backward, in_place_unsaid, in_place_of_a_view, in_place_of_a_leaf,
    checkpoint_with_an_effect, checkpoint_that_breaks,
]  # fmt: skip


@pytest.mark.parametrize("program", BROKEN, ids=lambda p: p.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_clean_break(program, backend):
    check(
        program,
        vec(2, 2, grad=True),
        vec(2, 2, grad=True),
        graphs=None,
        breaks=None,
        globals=("LOG",),
        backend=backend,
        backward=True,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond(backend):
    check(
        branches,
        vec(2, 2, grad=True),
        vec(2, 2, grad=True),
        graphs=None,
        breaks=None,
        backend=backend,
        backward=True,
        again=False,
    )


def test_contexts_made_in_the_frame():
    def f(x, w):
        names = []

        def contexts():
            names.append(x.dim())
            return create_selective_checkpoint_contexts(save_products)

        return checkpoint(layer_of, x, w, use_reentrant=False, context_fn=contexts), names

    check(f, vec(2, 2, grad=True), vec(2, 2), graphs=None, breaks=("unknown-call",), backward=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reentrant_checkpoint(backend):
    def f(x, w):
        return checkpoint(lambda a: (a * w).sin(), x, use_reentrant=True) * 2

    outcomes = []
    for callee in (f, strict_compile(f, backend=backend)):
        x, w = vec(2, 2, grad=True), vec(2, 2, grad=True)
        callee(x, w).sum().backward()
        outcomes.append((x.grad, w.grad))
    torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_are_raised_where_eager_raises_them(backend):
    def not_used(x, w):
        return torch.autograd.grad((x * 2).sum(), [x, w])

    def freed(x, w):
        y = x.exp()
        torch.autograd.grad(y.sum(), x)
        return torch.autograd.grad(y.sum(), x)[0]

    for program in (not_used, freed):
        check(
            program,
            vec(2, grad=True),
            vec(2, grad=True),
            graphs=None,
            breaks=None,
            backend=backend,
            again=False,
        )


@pytest.mark.parametrize("program", [one, setup_context, nested])
@pytest.mark.parametrize("backend", BACKENDS)
def test_double_backward_of_custom_functions(program, backend):
    def second(callee):
        x, w = vec(2, 2, grad=True), vec(2, 2, grad=True)
        result = callee(x, w)
        first = result[0] if isinstance(result, tuple) else result
        grads = torch.autograd.grad(first.sum(), [x, w], create_graph=True)
        return [*grads, *torch.autograd.grad((grads[0] * 2).sum(), [x, w], allow_unused=True)]

    handle = strict_compile(program, backend=backend)
    for mine, yours in zip(second(program), second(handle), strict=True):
        assert (mine is None) == (yours is None)
        assert mine is None or torch.allclose(mine, yours)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_is_differentiated_once(backend):
    handle = strict_compile(only_once, backend=backend)
    for callee in (only_once, handle):
        x, w = vec(2, grad=True), vec(2, grad=True)
        (g,) = torch.autograd.grad(callee(x, w).sum(), x, create_graph=True)
        assert torch.equal(g, w * 7)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()


# compiled frames inside of what eager does with them


def inner(a):
    return (a.sin() * 2).cos()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outer", [
    lambda f, x: torch.func.grad(lambda a: f(a).sum())(x), lambda f, x: torch.func.vmap(f)(x), lambda f, x: torch.func.jacrev(f)(x),
    lambda f, x: torch.func.jacfwd(f)(x), lambda f, x: torch.func.jvp(f, (x,), (x,)), lambda f, x: torch.func.vjp(f, x)[1](x)[0],
    lambda f, x: torch.func.hessian(lambda a: f(a).sum())(x), lambda f, x: checkpoint(f, x, use_reentrant=False),
    lambda f, x: torch.autograd.functional.jacobian(f, x, create_graph=True), lambda f, x: f(x),
])  # fmt: skip
def test_a_handle_under_a_transform(outer, backend):
    handle = strict_compile(inner, backend=backend)
    for _ in range(2):
        for callee in (handle, inner):
            x = vec(3, grad=True)
            result = torch.utils._pytree.tree_leaves(outer(callee, x))[0]
            (g,) = torch.autograd.grad(result.sum(), x)
            if callee is handle:
                got = result, g
        torch.testing.assert_close(got, (result, g))


def test_transforms_around_frames_after_a_break():
    def f(x):
        print("break")
        return torch.func.grad(lambda a: inner(a).sum())(x) + torch.func.vmap(inner)(x)

    check(f, vec(3), graphs=None, breaks=None)


def test_hooks_on_saved_tensors_do_not_see_the_compiler():
    def count(callee):
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append(type(t)) or t, lambda t: t
        ):
            callee(vec(3, grad=True))
        return seen

    for backend in ("eager", "aot_eager", "native"):
        assert count(strict_compile(inner, backend=backend)) == count(inner)


def test_jacobians():
    def f(x):
        return torch.func.jacrev(lambda y: y.sin().sum(0))(x), torch.func.jacrev(
            lambda y: (y * y).sum()
        )(x)

    check(f, vec(2, 3))


def cubed(x):
    return (x**3).sum()


TRANSFORMS = {
    "jvp": (lambda x: torch.func.jvp(torch.sin, (x * 2,), (x,)), 0),
    "jvp, then more": (lambda x: sum(torch.func.jvp(torch.sin, (x,), (x,))) * 2, 0),
    "jacfwd": (lambda x: torch.func.jacfwd(torch.sin)(x) * 2, 0),
    "jacfwd of a lambda": (lambda x: torch.func.jacfwd(lambda y: y.sin() * 2)(x), 0),
    "jacrev": (lambda x: torch.func.jacrev(torch.sin)(x) * 2, 0),
    "jacrev of two": (lambda x: torch.func.jacrev(torch.mul, argnums=(0, 1))(x, x), 0),
    "vjp": (lambda x: torch.func.vjp(torch.sin, x)[1](x), 0),
    "hessian": (lambda x: torch.func.hessian(cubed)(x), 0),
    "jvp of two": (lambda x: torch.func.jvp(torch.mul, (x, x * 2), (x, x)), 0),
    "jvp with more": (
        lambda x: torch.func.jvp(lambda y: (y.sin(), {"more": y + x}), (x,), (x,), has_aux=True),
        0,
    ),
    "jvp of what does not depend": (lambda x: torch.func.jvp(lambda y: x * 2, (x,), (x,)), 0),
    "jvp of jvp": (
        lambda x: torch.func.jvp(lambda y: torch.func.jvp(torch.sin, (y,), (y,))[1], (x,), (x,)),
        0,
    ),
    "jvp of grad": (lambda x: torch.func.jvp(torch.func.grad(cubed), (x,), (x,)), 0),
    "grad of jvp": (
        lambda x: torch.func.grad(lambda y: torch.func.jvp(cubed, (y,), (y,))[1])(x),
        0,
    ),
    "jvp that writes": (
        lambda x: torch.func.jvp(lambda y: y.clone().mul_(y).add_(x), (x,), (x,)),
        0,
    ),
    "jvp of a view": (lambda x: torch.func.jvp(lambda y: y[1:].exp(), (x,), (x,)), 0),
    "jvp of a matrix product": (
        lambda x: torch.func.jvp(lambda y: torch.outer(y, x) @ y, (x,), (x,)),
        0,
    ),
    "jvp of a layer": (
        lambda x: torch.func.jvp(
            lambda y: torch.nn.functional.layer_norm(y, (3,)).softmax(0), (x,), (x,)
        ),
        0,
    ),
    "jacfwd with more": (lambda x: torch.func.jacfwd(lambda y: (y.sin(), y), has_aux=True)(x), 0),
    "jacfwd of jacfwd": (lambda x: torch.func.jacfwd(torch.func.jacfwd(cubed))(x), 0),
    "without gradients": (
        lambda x: torch.no_grad()(lambda y: torch.func.jvp(torch.sin, (y,), (y,)))(x),
        0,
    ),
    "functionalize": (lambda x: torch.func.functionalize(lambda y: y.clone().add_(1))(x), 1),
    "vmap of jacfwd": (lambda x: torch.func.vmap(torch.func.jacfwd(torch.sin))(x.expand(2, 3)), 0),
    "jacfwd of jacrev": (lambda x: torch.func.jacfwd(torch.func.jacrev(cubed))(x), 0),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives_of_other_kinds_cost_one_break_at_most(name):
    f, breaks = TRANSFORMS[name]
    check(f, vec(3), graphs=None, breaks=("unknown-call",) * breaks)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("name", ["jvp of two", "hessian", "jvp that writes"])
def test_forward_derivatives_under_other_backends(name, backend):
    check(TRANSFORMS[name][0], vec(3), graphs=None, backend=backend)


def test_gradients_through_a_forward_derivative():
    def f(x, w):
        return torch.func.jvp(lambda y: (y * w).tanh(), (x,), (w,))

    check(f, vec(3, grad=True), vec(3, grad=True), backward=True)


def test_a_break_inside_of_a_forward_derivative_comes_before_it():
    def f(x):
        def inner(y):
            print("inside")
            return y * y

        return torch.func.jvp(inner, (x + 1,), (x,))[1] * 2

    check(f, vec(3), graphs=None, breaks=None)
    assert torch.autograd.forward_ad._current_level == -1 and torch._C._is_fwd_grad_enabled()


def test_an_error_in_a_graph_with_a_forward_derivative_leaves_no_level():
    def f(x, i):
        return torch.func.jvp(lambda y: y[i] * 2, (x,), (x,))

    handle = strict_compile(f, backend="eager")
    handle(vec(3), torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        handle(vec(3), torch.tensor([1, 7]))
    assert torch._C._functorch.maybe_current_level() is None and torch._C._is_fwd_grad_enabled()
    assert torch._C._enter_dual_level() == 0
    torch._C._exit_dual_level(level=0)
    for mine, its in zip(
        handle(vec(3), torch.tensor([0, 2])), f(vec(3), torch.tensor([0, 2])), strict=True
    ):
        assert torch.equal(mine, its)


def test_a_forward_derivative_strict_or_refused():
    def strict(x):
        try:
            return torch.func.jvp(lambda y: x * 2, (x,), (x,), strict=True)
        except RuntimeError as error:
            return str(error), x + 1

    def refused(x, y):
        try:
            return torch.func.jvp(torch.sin, (x,), (x, y))
        except RuntimeError as error:
            return str(error), x + 1

    check(strict, vec(3), graphs=None, breaks=None)
    check(refused, vec(3), vec(3), graphs=None, breaks=None)
    assert torch.autograd.forward_ad._current_level == -1


def test_forward_derivatives_that_torch_has_to_see_numbers_for():
    def f(x):
        return torch.func.jacfwd(torch.mul, argnums=(0, 1))(x, x + 1), torch.func.vmap(
            torch.func.hessian(cubed)
        )(x.expand(2, 3))

    check(f, vec(3), graphs=None, breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_a_checkpointed_call_that_draws_and_is_differentiated_in_the_frame(backend):
    def f(m, x):
        y = torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False)
        y.sum().backward()
        return y, x.grad, [p.grad for p in m.parameters()]

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
    check(f, model, vec(2, 3, grad=True), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_a_checkpointed_call_writes_is_written_again_by_the_backward_pass(backend):
    def train(f):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(inplace=True)
        )
        f(lambda x: checkpoint(model, x * 2, use_reentrant=False) + 1)(
            torch.randn(6, 4, requires_grad=True)
        ).square().sum().backward()
        return model.state_dict(), [p.grad for p in model.parameters()]

    (state, grads), (compiled_state, compiled_grads) = (
        train(lambda f: f),
        train(lambda f: strict_compile(f, backend=backend, fullgraph=True)),
    )
    assert state["1.num_batches_tracked"] == 2
    torch.testing.assert_close(compiled_state, state)
    torch.testing.assert_close(compiled_grads, grads)


@pytest.mark.parametrize("position", [0, 1], ids=["given", "known"])
def test_tensors_given_to_checkpoint_must_stay_as_they_are_others_need_not(position):
    """A compiled backward pass keeps what a checkpointed function takes from around it, too: it
    raises instead of computing again with what was written since."""

    def f(x, w):
        return checkpoint(lambda a: (a @ w).sin(), x, use_reentrant=False)

    def gradients(f):
        tensors = vec(2, 2, grad=True), vec(2, 2, grad=True)
        y = f(*tensors)
        with torch.no_grad():
            tensors[position].mul_(2)
        return torch.autograd.grad(y.sum(), tensors)

    compiled = strict_compile(f, fullgraph=True)
    if position == 0:
        for g in (f, compiled):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                gradients(g)
    elif config.backend != "eager":  # the autotuner may have chosen eager
        try:
            assert all(map(torch.equal, gradients(f), gradients(compiled)))
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
    else:
        assert all(map(torch.equal, gradients(f), gradients(compiled)))
