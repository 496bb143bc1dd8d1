"""aot_eager's settings of aot_autograd: numbers that vary stay arguments, and results carry no
marks."""

import framejit
import pytest
import torch
from framejit.backends.autograd.aot_eager import TENSORIFY, numbers_kept
from framejit.backends.native import backend as native
from framejit.backends.native.lower import fractions

AS_IT_IS = native.run_by_operators


@pytest.mark.parametrize("before", [None, "1"])
def test_the_switch_is_the_users_again_when_the_last_thread_is_out(before, monkeypatch):
    environment = {} if before is None else {TENSORIFY: before}
    monkeypatch.setattr("os.environ", environment)
    enter, leave = numbers_kept.__enter__, numbers_kept.__exit__
    enter()
    enter()  # another thread
    leave()
    assert environment[TENSORIFY] == "0"
    leave()
    assert environment.get(TENSORIFY) == before


@pytest.mark.parametrize("grad", [False, True])
def test_results_whose_sizes_vary_carry_no_attribute(grad):
    handle = framejit.compile(
        lambda x: (x * 2, x.sum(0), x.t(), x.sin().exp()), backend="aot_eager", dynamic=True
    )
    for rows in (3, 5):
        x = torch.ones(rows, 4, requires_grad=grad)
        results = handle(x)
        assert [vars(tensor) for tensor in (*results, x)] == [{}] * 5


@pytest.mark.parametrize("kernels", [True, False])
def test_a_gradient_divided_by_a_size_that_varies(kernels, monkeypatch):
    """A backward part for which there are no kernels runs torch's operators."""

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = torch.nn.Buffer(torch.zeros(()))

        def forward(self, x):
            self.count += 1
            y = x / (1 + x.var(0))
            y[:, 0] = 0
            return y.relu()

    def gradients(f):
        inputs = [
            torch.arange(4.0 * rows).sin().reshape(rows, 4).requires_grad_() for rows in (2, 3, 5)
        ]
        return [torch.autograd.grad(f(x).sum(), x) for x in inputs]

    without = []
    monkeypatch.setattr(
        native,
        "run_by_operators",
        lambda part, boxed: without.append(part) or AS_IT_IS(part, boxed),
    )
    if not kernels:
        monkeypatch.setattr(fractions, "OPERATIONS", {})
    expected = gradients(Norm())
    with framejit.config.patch(strict=True):
        found = gradients(framejit.compile(Norm(), backend="native"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert bool(without) != kernels


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_backward_pass_that_wants_sizes_as_numbers(backend):
    """Where these vary, torch's operators run the graph."""

    def warp(x, theta):
        grid = torch.nn.functional.affine_grid(theta, x.size(), align_corners=False)
        return torch.nn.functional.grid_sample(x, grid, align_corners=False)

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(warp, backend=backend)
        for rows in (2, 3, 4):
            x, theta = torch.randn(rows, 2, 5, 5), torch.randn(rows, 2, 3, requires_grad=True)
            got, wanted = compiled(x, theta), warp(x, theta)
            torch.testing.assert_close(got, wanted)
            for one, other in zip(
                torch.autograd.grad(got.sum(), theta),
                torch.autograd.grad(wanted.sum(), theta),
                strict=True,
            ):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.new_zeros(x.shape[0]),
        lambda x: torch.zeros_like(x)[:, 0],
        lambda x: x.new_full((2,), 3.0),
    ],
)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_tensor_made_like_one_with_a_gradient_that_gets_a_history_later(make, backend):
    def f(x, s):
        total = make(x)
        total -= s.sum(dim=1)
        total -= (s * x).sum(dim=1)
        return x * 2, total

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f, backend=backend)
        leaves = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
        runs = [
            (call(*leaves), torch.autograd.grad([one.sum() for one in call(*leaves)], leaves))
            for call in (f, compiled)
        ]
    torch.testing.assert_close(runs[1], runs[0])
