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
