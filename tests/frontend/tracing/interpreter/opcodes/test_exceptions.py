"""Where a `with` breaks whose manager watches torch's operations."""

import framejit
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def watched(x, mode):
    y = x * 2
    with mode() as watching:
        z = y.sin() + 1
    return z, watching.seen


@pytest.mark.parametrize("mode", [Functions, Operators])
def test_a_mode_ends_before_the_functions_around_go_on(mode):
    def block(x):
        y, seen = watched(x.exp(), mode)
        return y.tanh() * 2, seen

    def f(x):
        first, seen = block(x)
        second, again = block(first + x)
        return second.sigmoid() * 3, seen, again

    events = []
    with framejit.config.patch(sinks=(events.append,)):
        handle = framejit.compile(f, backend="eager")
        for rows in (2, 3, 4):
            x = torch.full((rows, 3), 0.3)
            found, expected = handle(x), f(x)
            torch.testing.assert_close(found[0], expected[0])
            assert found[1:] == expected[1:] and len(found[1]) == 2
    in_eager = {one.function for one in events if isinstance(one, framejit.events.Skipped)}
    assert in_eager <= {"watched"}


def test_a_mode_in_the_compiled_function_itself():
    handle = framejit.compile(watched, backend="eager")
    for rows in (2, 3):
        x = torch.ones(rows, 3)
        found, expected = handle(x, Functions), watched(x, Functions)
        torch.testing.assert_close(found[0], expected[0])
        assert found[1] == expected[1]
