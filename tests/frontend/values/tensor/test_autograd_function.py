"""torch.autograd.Function inside torch.func transforms, and with sizes and numbers that vary: one
node of the graph, where its Python does nothing but calculate."""

from __future__ import annotations

import copy
import functools

import framejit
import pytest
import torch
from torch.func import grad, jacrev, vjp, vmap
from torch.utils.checkpoint import checkpoint

from ...semantics.harness import check, strict_compile, vec

SCALE = 3.0
LOG: list[str] = []
WEIGHTS = [3.0]


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * SCALE  # not what the forward pass says


class Product(torch.autograd.Function):
    @staticmethod
    def forward(x, y, times=1):
        return x * y * times, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.times = inputs[2]

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y * ctx.times + h, g * x * ctx.times * 2 + h, None

    @staticmethod
    def vmap(info, in_dims, x, y, times):
        x = (
            x.movedim(in_dims[0], 0)
            if in_dims[0] is not None
            else x.expand(info.batch_size, *x.shape)
        )
        y = (
            y.movedim(in_dims[1], 0)
            if in_dims[1] is not None
            else y.expand(info.batch_size, *y.shape)
        )
        return Product.apply(x * 2, y, times), (0, 0)  # not what mapping over forward would give


class Base(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Tells(Base):
    @staticmethod
    def forward(x):
        print("forward")
        return x * 2


class TellsBackwards(Base):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        LOG.append("backward")
        return g * 2


class Draws(Base):
    @staticmethod
    def forward(x):
        return x * torch.rand(3)


class Asks(Base):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 if ctx.needs_input_grad[0] else None


class Scaled(Base):
    @staticmethod
    def forward(x):
        return x * SCALE


class Weighted(Base):
    @staticmethod
    def forward(x):
        return x * WEIGHTS[0]

    @staticmethod
    def backward(ctx, g):
        return g * WEIGHTS[0]


class TellsInItsRule(torch.autograd.Function):
    forward, setup_context, backward = Weighted.forward, Weighted.setup_context, Weighted.backward

    @staticmethod
    def vmap(info, in_dims, x):
        print("rule", info, in_dims)
        return x * 2, in_dims[0]


class Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def of_grad(x):
    return grad(lambda a: Square.apply(a).sum())(x) + 1


def of_vmap(x):
    return vmap(Square.apply)(x) + 1


def of_vmap_over_columns(x):
    return vmap(lambda a: Square.apply(a * 2), in_dims=1, out_dims=1)(x.expand(2, 3))


def of_grad_in_vmap(x):
    return vmap(grad(lambda a: Square.apply(a).sin()))(x)


def of_vmap_in_grad(x):
    return grad(lambda a: vmap(Square.apply)(a).sum())(x)


def of_two_grads(x):
    return grad(lambda b: grad(lambda a: (Square.apply(a) * a).sum())(b).sum())(x)


def of_vjp(x):
    out, pull = vjp(Square.apply, x)
    return out, pull(x * 3)


def of_jacobian(x):
    return jacrev(lambda a: Square.apply(a))(x)


def of_a_rule(x):
    return vmap(lambda a, b: Product.apply(a, b, 2))(x, x + 1)


def of_a_rule_for_one_argument(x):
    return vmap(lambda a: Product.apply(a, x, 3))(x)


def of_a_rule_that_is_not_asked(x):
    return vmap(lambda a: Product.apply(x, x, 3)[0] + a)(x)


def of_a_rule_in_grad(x):
    return grad(lambda a: vmap(lambda b: Product.apply(b, a[0], 2)[0])(a).sum())(x)


def of_a_rule_around_grad(x):
    return vmap(grad(lambda a: Product.apply(a.sin(), a, 2)[0]))(x)


class TwoResults(Base):
    @staticmethod
    def forward(x, y, times=2.0):
        return x * y * times, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2], output[0])
        ctx.times = inputs[2]

    @staticmethod
    def backward(ctx, g, h):
        x, y, product = ctx.saved_tensors
        return g * y * ctx.times + h, g * x * ctx.times + h + product, None


class Counted(Base):
    @staticmethod
    def forward(x):
        return x.sum(), x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * x * x.shape[0]


def of_two_results(x):
    def f(a, b):
        return (TwoResults.apply(a, b)[0] * TwoResults.apply(a, b, 3.0)[1]).sum()

    return grad(f, argnums=(0, 1))(x, x + 1)[1] + vmap(lambda a: TwoResults.apply(a, x)[0])(x).sum()


def of_an_output_without_gradient(x):
    return grad(lambda a: Counted.apply(a)[0])(x) + vmap(lambda a: Counted.apply(a)[1])(x[None])[0]


CALLED_IN_TRANSFORMS = [
    of_grad, of_vmap, of_vmap_over_columns, of_grad_in_vmap, of_vmap_in_grad, of_two_grads, of_vjp, of_jacobian, of_a_rule,
    of_a_rule_for_one_argument, of_a_rule_that_is_not_asked, of_a_rule_in_grad, of_a_rule_around_grad,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("fn", CALLED_IN_TRANSFORMS, ids=lambda fn: fn.__name__)
def test_calls_in_transforms(fn, backend):
    def f(x):
        return fn(x * 2)

    again = fn is not of_vjp  # torch makes a class for each call
    check(f, vec(3), graphs=None, breaks=None, backend=backend, again=again)
    check(
        f, vec(3, grad=True), graphs=None, breaks=None, backend=backend, backward=True, again=again
    )


CAPTURED = [
    of_grad, of_vmap, of_vmap_over_columns, of_grad_in_vmap, of_vmap_in_grad, of_two_grads, of_jacobian, of_two_results,
    of_an_output_without_gradient,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("fn", CAPTURED, ids=lambda fn: fn.__name__)
def test_calls_in_transforms_are_one_graph(fn, backend):
    check(fn, vec(3), graphs=1, backend=backend)
    check(fn, vec(3, grad=True), graphs=1, backend=backend, backward=True)


def test_a_list_that_changes_breaks_at_the_transform():
    """Its place is before the transform, where Python makes the call."""

    def f(x, log):
        y = x.sin()
        z = grad(lambda a: Square.apply(a).sum())(y)
        log.append(z)
        return z.cos()

    check(f, vec(3), [], graphs=None, breaks=None)


@pytest.mark.parametrize("cls", [Tells, TellsBackwards, Draws, Asks], ids=lambda cls: cls.__name__)
def test_whose_python_does_more_is_called_by_python(cls):
    def f(x):
        y = x + 1
        return grad(lambda a: cls.apply(a).sum())(y) * 2

    check(f, vec(3), graphs=None, breaks=None, globals=("LOG",))


def test_whose_rule_does_more_is_called_by_python():
    def f(x):
        y = x + 1
        return vmap(TellsInItsRule.apply)(y) * 2, vmap(grad(TellsInItsRule.apply))(y)

    check(f, vec(3), graphs=None, breaks=None)


def test_with_a_rule_mapped_over_twice():
    def f(x):
        return vmap(vmap(lambda a: Product.apply(a, a + 1, 1)))(x + 1)

    check(f, vec(2, 3), graphs=None, breaks=None)


def test_after_a_change_that_it_could_see():
    def f(x):
        global SCALE
        SCALE = 7.0
        return grad(lambda a: Square.apply(a).sum())(x) + vmap(Scaled.apply)(x)

    check(f, vec(3), graphs=None, breaks=None, globals=("SCALE",))


def test_before_a_change_that_its_backward_pass_would_see():
    def f(x):
        global SCALE
        out, pull = vjp(Square.apply, x)
        SCALE = SCALE + 1
        return out, pull(x)

    check(f, vec(3), graphs=None, breaks=None, globals=("SCALE",), again=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_before_a_change_in_a_list_that_its_backward_pass_reads(backend):
    def f(x):
        out, pull = vjp(Weighted.apply, x)
        WEIGHTS[0] += 1
        return out, pull(x)

    check(f, vec(3), graphs=None, breaks=None, globals=("WEIGHTS",), backend=backend, again=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "autotune"])
@pytest.mark.parametrize("of", [torch.sin, Square.apply], ids=["an operator", "a function"])
def test_a_pullback_that_is_called_behind_a_break(of, backend):
    def f(x):
        out, pull = vjp(of, x * 2)
        print("break")
        return out, pull(x)

    again = of is torch.sin  # torch makes a class for each call of a function
    check(
        f,
        vec(3),
        graphs=None,
        breaks=("output", "unsupported-value") if again else None,
        backend=backend,
        again=again,
    )


def test_refused_as_torch_does():
    def f(x):
        return grad(lambda a: Refused.apply(a).sum())(x + 1)

    check(f, vec(3), graphs=None, breaks=None)


net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
parameters = dict(net.named_parameters())
OF_MODULES = {
    "jacrev": lambda x: torch.func.jacrev(net)(x), "jacfwd": lambda x: torch.func.jacfwd(net)(x),
    "hessian": lambda x: torch.func.hessian(lambda t: net(t).sum())(x), "grad": lambda x: torch.func.grad(lambda t: net(t).sum())(x),
    "vjp": lambda x: torch.func.vjp(net, x)[1](torch.ones(2)), "jvp": lambda x: torch.func.jvp(net, (x,), (torch.ones_like(x),)),
    "vmap of jacrev": lambda x: torch.func.vmap(torch.func.jacrev(net))(x[None].expand(5, -1)),
    "jacrev of parameters": lambda x: torch.func.jacrev(lambda p: torch.func.functional_call(net, p, (x,)))(parameters),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native", "torchscript"])
@pytest.mark.parametrize("program", OF_MODULES.values(), ids=OF_MODULES)
def test_transforms_of_modules_are_captured(program, backend):
    handle = framejit.compile(program, backend=backend)
    x = torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(handle(x), program(x))
    assert handle.framejit.explain().ops > 5


class Scale(torch.autograd.Function):
    """Its gradient is not what the forward pass says."""

    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s * SCALE, None


class Mean(torch.autograd.Function):
    """A size, and numbers calculated from it, in both passes."""

    @staticmethod
    def forward(ctx, x):
        ctx.count, ctx.half = x.shape[0], x.shape[0] * 0.5
        ctx.save_for_backward(x)
        return x.sin().sum(0) / ctx.count

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g / ctx.count * ctx.half).expand(x.shape[0], *g.shape) * x.cos()


class Both(torch.autograd.Function):
    """Numbers beside two tensors, one result without a gradient."""

    @staticmethod
    def forward(ctx, x, y, alpha, power):
        ctx.save_for_backward(x, y)
        ctx.alpha, ctx.power = alpha, power
        least = (x * alpha).argmin(-1)
        ctx.mark_non_differentiable(least)
        return x * alpha + y * (power + 1), least

    @staticmethod
    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        return g * ctx.alpha * y, g * (ctx.power + 1) * x, None, None


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(x, n):
        return x[:n] * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, g):
        return torch.cat([g * 3, g.new_zeros(ctx.shape[0] - ctx.n, *ctx.shape[1:])]), None


def made(size, *numbers):
    return vec(size, 3, grad=True), *numbers


VARYING = {
    "a float": (lambda x, s: Scale.apply(x, s), [made(4, 0.5 + i) for i in range(6)]),
    "an int": (lambda x, s: Scale.apply(x, s), [made(4, 2 + i) for i in range(6)]),
    "a calculated float": (lambda x, s: Scale.apply(x, s * 2 + 1), [made(4, 0.5 + i) for i in range(6)]),
    "sizes": (lambda x: Mean.apply(x), [made(3 + i) for i in range(6)]),
    "sizes of an intermediate": (lambda x: Mean.apply(x * 2).sin(), [made(3 + i) for i in range(6)]),
    "a size as an argument": (lambda x: Scale.apply(x, x.shape[0]), [made(3 + i) for i in range(6)]),
    "several": (lambda x, a, p: Both.apply(x, x.sin(), a, p)[0], [made(3 + i, 0.5 + i, i + 2) for i in range(6)]),
    "a slice": (lambda x, n: Rows.apply(x, n), [made(9 + i, 2 + i) for i in range(6)]),
    "twice": (lambda x, s: Scale.apply(Scale.apply(x, s), s + 1), [made(3 + i, 0.5 + i) for i in range(6)]),
    "a checkpoint": (
        lambda x, s: checkpoint(lambda y: (y * s).sin() / y.shape[0], x, use_reentrant=False),
        [made(3 + i, 0.5 + i) for i in range(6)],
    ),
    "a checkpoint around one": (
        lambda x, s: checkpoint(lambda y: Scale.apply(y, s).sin(), x, use_reentrant=False),
        [made(3 + i, 0.5 + i) for i in range(6)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program, calls", VARYING.values(), ids=VARYING)
def test_numbers_that_vary(program, calls, backend):
    """At most two compiles, in one graph."""
    compiled = strict_compile(program, backend=backend)
    for x, *numbers in calls:
        expected, found = program(x, *numbers), compiled(x, *numbers)
        torch.testing.assert_close(found, expected)
        assert found.requires_grad
        weights = vec(*expected.shape)
        (wanted,) = torch.autograd.grad((expected * weights).sum(), x)
        (gradient,) = torch.autograd.grad((found * weights).sum(), x)
        torch.testing.assert_close(gradient, wanted)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, *numbers), program(x, *numbers))
    report = compiled.framejit.explain()
    assert len(report.breaks) == 0
    assert len(report.captures) <= 4  # two with gradients, two without


def test_a_number_that_varies_and_the_gradient_of_the_gradient():
    compiled = strict_compile(lambda x, s: Scale.apply(x.sin(), s), backend="eager")
    for step in range(4):
        found = []
        for function in (lambda x, s: Scale.apply(x.sin(), s), compiled):
            x = vec(3, grad=True)
            (first,) = torch.autograd.grad(function(x, step + 0.5).sum(), x, create_graph=True)
            found.append(torch.autograd.grad(first.square().sum(), x)[0])
        assert torch.equal(*found)


def test_a_result_that_has_no_gradient_beside_numbers_that_vary():
    def program(x, a):
        return Both.apply(x, x.sin(), a, 2)

    compiled = strict_compile(program)
    for step in range(4):
        x = vec(3, 4, grad=True)
        expected, found = program(x, step + 0.5), compiled(x, step + 0.5)
        assert all(map(torch.equal, found, expected))
        assert [one.requires_grad for one in found] == [True, False]
    assert compiled.framejit.explain().breaks == ()


# backward passes that depend on whether gradients are recorded: with create_graph they are


class Cosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad * x.sin()


def factor_without_gradients(x):
    with torch.no_grad():
        return 3 * x * x


def factor_with_gradients(x):
    with torch.enable_grad():
        return 3 * x * x


def factor_by_the_mode(x):
    return 3 * x * (x if torch.is_grad_enabled() else x.detach())


def factor_by_another_function(x):
    return 3 * Cosine.apply(x)


def cube_with(factor):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * factor(x)

    return lambda x: Cube.apply(x * 2).sin()


FACTORS = [
    factor_without_gradients,
    factor_with_gradients,
    factor_by_the_mode,
    factor_by_another_function,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: factor.__name__)
def test_second_derivatives_by_the_mode_of_the_backward_pass(factor, backend):
    f = cube_with(factor)
    found = []
    for run in (f, framejit.compile(f, backend=backend)):
        x = torch.tensor([0.5, 1.0], requires_grad=True)
        (first,) = torch.autograd.grad((run(x) ** 2).sum(), x, create_graph=True)
        found.append((first.detach(), torch.autograd.grad(first.sum(), x)[0]))
    torch.testing.assert_close(*found)


class SavesAfterBreaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, times):
        print(end="")  # a frame of its own
        y = x * w
        ctx.save_for_backward(x, w, y)
        ctx.times = times
        positive = (x > 0).sum()
        ctx.mark_non_differentiable(positive)
        return y * y * times, positive

    @staticmethod
    def backward(ctx, g, _):
        x, w, y = ctx.saved_tensors
        return 2 * y * w * g * ctx.times, 2 * y * x * g * ctx.times, None


def test_a_context_that_python_made_keeps_what_forward_saves():
    def f(x, w, times):
        results = SavesAfterBreaks.apply(x, w, times)
        results[0].sum().backward()
        return *results, results[1].requires_grad, x.grad, w.grad

    compiled = framejit.compile(f, backend="eager")
    for times in (2, 3):
        x, w = torch.arange(-1.0, 3.0), torch.ones(4)
        expected, got = (
            call(x.clone().requires_grad_(), w.clone().requires_grad_(), times)
            for call in (f, compiled)
        )
        assert str(got) == str(expected)
    own = [one for one in compiled.framejit.explain().breaks if one.function.endswith(".forward")]
    assert [one.id for one in own] == ["output"]


class Gated(torch.autograd.Function):
    """A result, a mask and integers; missing gradients stay None."""

    @staticmethod
    def forward(x, y):
        return x * y, (x > 0).float(), x.argsort()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, of_mask, of_order):
        x, y = ctx.saved_tensors
        seen = 1 if of_mask is None and of_order is None else 100
        return g * y * seen if ctx.needs_input_grad[0] else None, g * x


def gated(x, y):
    made, mask, order = Gated.apply(x, y)
    return made * mask, order


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients_of_results_that_are_not_differentiable_are_missing(backend):
    check(gated, vec(4, grad=True), vec(4, grad=True), backward=True, backend=backend)
    check(gated, vec(4), vec(4, grad=True), backward=True, backend=backend)


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x / 2, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return (0 if g is None else g / 2) + (0 if h is None else h * 2)


def one_half(x):
    return Halves.apply(x)[0].sin()


def test_which_of_several_gradients_are_missing_is_known_later():
    check(one_half, vec(4, grad=True), backward=True, graphs=None, breaks=None)


@functools.lru_cache
def factor(n):
    return sum([n, 1])


class Cached(torch.autograd.Function):
    """What is not interpreted in the same way where there are side effects."""

    @staticmethod
    def forward(ctx, x):
        return x * factor(3) * copy.deepcopy(Extended()).scale

    @staticmethod
    def backward(ctx, g):
        return g * factor(4)


class Extended:
    scale = 2.0

    def __getattr__(self, name):
        raise AttributeError(name)


def test_functions_that_are_asked_for_side_effects():
    check(lambda x: Cached.apply(x), vec(3, grad=True), backward=True)
