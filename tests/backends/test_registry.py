"""Backends by name, by function, and what goes wrong with them."""

import framejit
import pytest
import torch


def double(x):
    return torch.sin(x) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_shipped_backends_run(backend):
    x = torch.randn(4, requires_grad=True)
    got = framejit.compile(double, backend=backend)(x)
    assert torch.equal(got, double(x))
    (gradient,) = torch.autograd.grad(got.sum(), x)
    assert torch.equal(gradient, torch.autograd.grad(double(x).sum(), x)[0])


def test_a_function_with_torch_compiles_signature_is_a_backend():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append((gm, example_inputs))
        return gm.forward

    x = torch.randn(4)
    assert torch.equal(framejit.compile(double, backend=backend)(x), double(x))
    ((gm, inputs),) = graphs
    assert isinstance(gm, torch.fx.GraphModule) and inputs[0] is x


def test_registering_by_call_and_by_decorator(register):
    framejit.register_backend("mine", lambda gm, inputs: gm.forward)

    @framejit.register_backend
    def other(gm, inputs):
        return gm.forward

    @framejit.register_backend("third")
    def _(gm, inputs):
        return gm.forward

    assert {"mine", "other", "third"} <= set(framejit.list_backends())
    assert torch.equal(
        framejit.compile(double, backend="third")(torch.ones(2)), double(torch.ones(2))
    )


def test_a_taken_name_names_its_owner(register):
    framejit.register_backend("mine", lambda gm, inputs: gm.forward)
    with pytest.raises(ValueError, match="test_registry.py"):
        framejit.register_backend("mine", lambda gm, inputs: None)
    with pytest.raises(ValueError, match="framejit ships"):
        framejit.register_backend("eager", lambda gm, inputs: None)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (dict(backend="nope"), "aot_eager, autotune, .*eager, .*inductor"),
        (dict(mode="fast"), "max-autotune"),
        (dict(options={"x": 1}, backend="eager"), "takes none"),
        (dict(options={"x": 1}, backend="autotune"), "tune_budget_s"),
        (dict(options={"x": 1}, backend=lambda gm, inputs, level=0: gm.forward), "it has: level"),
        (dict(options={"triton.cudagraf": True}, backend="inductor"), "triton.cudagraphs"),
        (dict(dynamic="yes"), "dynamic must be"),
    ],
)
def test_wrong_arguments_raise_at_once(asked, message):
    with pytest.raises(ValueError, match=message):
        framejit.compile(double, **asked)


def test_options_reach_the_backend():
    seen = []

    def backend(gm, inputs, *, level=0):
        seen.append(level)
        return gm.forward

    framejit.compile(double, backend=backend, options={"level": 3})(torch.ones(2))
    assert seen == [3]


def test_mode_reaches_a_backend_that_has_modes():
    seen = []

    def backend(gm, inputs, mode="default"):
        seen.append(mode)
        return gm.forward

    framejit.compile(double, backend=backend, mode="max-autotune")(torch.ones(2))
    framejit.compile(double, backend=backend)(torch.ones(2))
    framejit.compile(double, backend="eager", mode="reduce-overhead")(torch.ones(2))
    assert seen == ["max-autotune", "default"]


def raises(gm, inputs):
    raise RuntimeError("no such kernel")


def returns_nothing(gm, inputs):
    return None


@pytest.mark.parametrize("backend", [raises, returns_nothing], ids=lambda backend: backend.__name__)
def test_a_failing_backend_is_named(backend):
    with pytest.raises(framejit.BackendError, match=backend.__name__) as caught:
        framejit.compile(double, backend=backend)(torch.ones(2))
    assert caught.value.backend == backend.__name__ and caught.value.__cause__ is not None


def test_a_failing_backend_may_cost_a_warning_only():
    with framejit.config.patch(suppress_errors=True):
        compiled = framejit.compile(double, backend=raises)
    with pytest.warns(UserWarning, match="no such kernel"):
        assert torch.equal(compiled(torch.ones(2)), double(torch.ones(2)))
