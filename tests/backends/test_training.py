"""What aot_autograd is told while it traces for us."""
import framejit
import pytest
import torch
from framejit.backends.training import TENSORIFY, numbers_kept


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
    handle = framejit.compile(lambda x: (x * 2, x.sum(0), x.t(), x.sin().exp()), backend="aot_eager", dynamic=True)
    for rows in (3, 5):
        x = torch.ones(rows, 4, requires_grad=grad)
        results = handle(x)
        assert [vars(tensor) for tensor in (*results, x)] == [{}] * 5


def test_a_backward_part_without_kernels_runs_torchs_operators():
    """One of which the gradient divides by a size that varies, in a graph that writes to a buffer."""

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.count = torch.nn.BatchNorm1d(4), torch.nn.Buffer(torch.zeros(()))

        def forward(self, x):
            self.count += 1
            y = self.norm(x)
            y[:, 0] = 0
            return y.relu()

    def gradients(f):
        inputs = [torch.arange(4.0 * rows).sin().reshape(rows, 4).requires_grad_() for rows in (2, 3, 5)]
        return [torch.autograd.grad(f(x).sum(), x) for x in inputs]

    expected = gradients(Norm())
    with framejit.config.patch(strict=True):
        torch.testing.assert_close(gradients(framejit.compile(Norm(), backend="native")), expected, rtol=1e-4, atol=1e-6)
