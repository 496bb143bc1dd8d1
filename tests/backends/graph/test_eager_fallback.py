"""Compiled graphs that raise: the captured graph replaces one that raises alone, with one
warning; errors of the program are raised."""

from __future__ import annotations

import contextlib
import warnings

import framejit
import pytest
import torch


class Broken:
    """A backend whose graphs raise from their second call on, after doing `first`."""

    def __init__(self, first=lambda args: None, error=ValueError):
        self.calls, self.first, self.error = 0, first, error

    def __call__(self, gm, example_inputs):
        def run(*args):
            self.calls += 1
            if self.calls < 2:
                return gm.forward(*args)
            self.first(args)
            raise self.error("no kernel")

        return run


def pure(x):
    return x.sin() * 2


def random(x):
    return x * torch.rand(3)


def writing(x):
    x.add_(1)
    return x * 2


def looking_up(x):
    return torch.arange(5)[x.long() % 7] * 2


def modes(x):
    with torch.no_grad():
        return x * 2


def draws(args):
    torch.rand(7)


def leaves_a_mode(args):
    torch.set_grad_enabled(False)


@pytest.mark.parametrize(
    ("function", "first"), [(pure, None), (random, draws), (writing, None), (modes, leaves_a_mode)]
)
def test_the_captured_graph_takes_over(function, first):
    backend = Broken(first or (lambda args: None))
    compiled = framejit.compile(function, backend=backend)
    ways = []
    for run in (function, compiled):
        torch.manual_seed(0)
        x = torch.ones(3)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            results = [run(x) for _ in range(5)]
        ways.append((results, x, torch.rand(1)))
    torch.testing.assert_close(ways[1], ways[0], rtol=0, atol=0)
    assert torch.is_grad_enabled()
    assert backend.calls == 2
    (warning,) = told
    assert "raised ValueError: no kernel" in str(warning.message)


def transformed(x):
    return torch.func.vmap(lambda row: torch.func.jvp(torch.sin, (row,), (row,))[1])(x)


def in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ x).float()


class Stopping(torch.fx.Interpreter):
    """Runs some nodes of a graph."""

    def __init__(self, gm, nodes):
        super().__init__(gm)
        self.left = nodes

    def run_node(self, node):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return super().run_node(node)


@pytest.mark.parametrize("nodes", range(1, 13))
@pytest.mark.parametrize("function", [transformed, in_autocast, modes])
def test_modes_that_a_backend_leaves_on_when_it_gives_up_amid_a_run(function, nodes):
    def gives_up(gm, example_inputs):
        with contextlib.suppress(StopIteration):
            Stopping(gm, nodes).run(*example_inputs)
        return gm.forward

    x = torch.randn(3, 3)
    torch.testing.assert_close(framejit.compile(function, backend=gives_up)(x), function(x))
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert torch._C._functorch.maybe_current_level() is None


def test_what_the_user_did_is_raised_and_nothing_is_given_up():
    backend = Broken(error=AssertionError)
    backend.calls = -10
    compiled = framejit.compile(looking_up, backend=backend)
    good, bad = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 6.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (good, bad, good, bad, good):
            if x is bad:
                with pytest.raises(IndexError):
                    compiled(x)
            else:
                before = backend.calls
                torch.testing.assert_close(compiled(x), looking_up(x))
                assert backend.calls == before + 1


def test_too_little_memory_gives_nothing_up():
    backend = Broken(error=torch.OutOfMemoryError)
    compiled = framejit.compile(pure, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            before = backend.calls
            torch.testing.assert_close(compiled(torch.ones(3)), pure(torch.ones(3)))
            assert backend.calls > before


def test_with_gradients():
    compiled = framejit.compile(pure, backend=Broken())
    x = torch.ones(3, requires_grad=True)
    compiled(x)
    with pytest.warns(RuntimeWarning, match="from now on"):
        (gradient,) = torch.autograd.grad(compiled(x).sum(), x)
    torch.testing.assert_close(gradient, 2 * torch.ones(3).cos())


@torch.library.custom_op("framejit_tests::fussy", mutates_args=())
def fussy(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 5:
        raise ValueError("too much")
    return x.clone()


fussy.register_fake(torch.empty_like)


class Fussy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.framejit_tests.fussy(x)


@pytest.mark.parametrize(
    ("operation", "good", "bad"),
    [
        (lambda v: torch.arange(3)[v], torch.tensor(1), torch.tensor(7)),
        (
            lambda v: torch.nn.functional.binary_cross_entropy(v, torch.ones(1)),
            torch.tensor([0.5]),
            torch.tensor([7.0]),
        ),
        (
            lambda v: torch.zeros(4).masked_scatter(v > 0, torch.ones(2)),
            torch.tensor([1, 0, 0, 1]),
            torch.tensor([1, 1, 1, 1]),
        ),
        (
            lambda v: torch.nn.functional.multi_margin_loss(torch.ones(2, 3), v),
            torch.tensor([1, 0]),
            torch.tensor([1, 9]),
        ),
        (fussy, torch.ones(2), torch.ones(9)),
        (torch.ops.framejit_tests.fussy, torch.ones(2), torch.ones(9)),
        (Fussy.apply, torch.ones(2), torch.ones(9)),
    ],
)
def test_an_operator_that_refuses_numbers_behind_a_write(operation, good, bad):
    """Nothing is lost and nothing happens twice: neither what was written nor what Python did
    before."""

    def run(x, value, log):
        log.append("before")
        x.mul_(2)
        try:
            result = operation(value)
        except (IndexError, RuntimeError, ValueError) as error:
            log.append(type(error).__name__)
            return x + 1
        log.append("behind")
        return result

    outcomes = []
    for call in (run, framejit.compile(run, backend="eager")):
        x, log = torch.ones(2), []
        outcomes.append(([call(x, value, log) for value in (good, bad, bad, good)], x, log))
    assert outcomes[0][2] == outcomes[1][2]
    torch.testing.assert_close(outcomes[1][:2], outcomes[0][:2], rtol=0, atol=0)
