"""What aot_autograd is told while it traces for us."""
import pytest
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
