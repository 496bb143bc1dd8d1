"""Ranges whose bounds vary: their parts and length are symbols."""

import pytest
import torch

from ...semantics.harness import strict_compile


def parts_of(x, found):
    return x * found.start + found.stop, len(found), bool(found)


def same_range(x, found):
    return x + len(found), found


@pytest.mark.parametrize("f", [parts_of, same_range])
def test_a_given_range(f):
    compiled = strict_compile(f, backend="eager", fullgraph=True)
    for start in range(2, 12):
        found = range(start, start + 3 + start % 4)
        got, want = compiled(torch.ones(2), found), f(torch.ones(2), found)
        assert torch.equal(got[0], want[0]) and got[1:] == want[1:]
    assert compiled.framejit.compiles == 2
    assert got[-1] is found or f is parts_of
    assert str(compiled(torch.ones(2), range(7, 3))) == str(f(torch.ones(2), range(7, 3)))


def test_the_step_is_specialised():
    def f(x, found):
        return x + found.start, len(found), found[0]

    compiled = strict_compile(f, backend="eager")
    for start, step in [(1, 1), (2, 1), (3, 2), (9, -2), (12, 3), (15, 3)]:
        found = range(start, start + step * 5, step)
        assert str(compiled(torch.ones(2), found)) == str(f(torch.ones(2), found))
