"""bisect of numbers that vary."""

import bisect

import framejit
import pytest
import torch

MILESTONES = [3, 7, 12]


@pytest.mark.parametrize("function", [bisect.bisect_left, bisect.bisect_right, bisect.bisect])
@pytest.mark.parametrize("sort", [list, tuple])
def test_a_number_that_varies_is_compared_not_specialised(function, sort):
    def schedule(x, epoch, milestones):
        return x * 0.5 ** function(milestones, epoch)

    compiled = framejit.compile(schedule, backend="eager", fullgraph=True)
    x, milestones = torch.ones(2), sort(MILESTONES)
    for epoch in range(20):
        assert str(compiled(x, epoch, milestones)) == str(schedule(x, epoch, milestones))
    assert len(compiled.framejit.explain().captures) <= 6  # one for each interval, and two


class Reversed(float):
    def __lt__(self, other):
        return float(self) > float(other)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: bisect.bisect([], x),  # nothing is compared
        lambda x, n: bisect.bisect_left([1, 2, 3, 3, 4], 3, 1, 3),
        lambda x, n: bisect.bisect_right([1, 2, 3, 3, 4], n, lo=1, hi=n),
        lambda x, n: bisect.bisect([5, 3, 1], -n, key=lambda item: -item),
        lambda x, n: bisect.bisect([x.sum(), x.sum() + 1, x.sum() + 2], x.sum() + n),
        lambda x, n: bisect.bisect([Reversed(5), Reversed(3), Reversed(1)], Reversed(n)),
        lambda x, n: bisect.bisect(["a", "b", "d"], "c" * n),
    ],
)
def test_bisect_as_python_does(program):
    compiled = framejit.compile(lambda x, n: (x + 1, program(x, n)), backend="eager")
    for n in (3, 2, 1):
        assert compiled(torch.ones(2), n)[1] == program(torch.ones(2), n)


def test_numbers_that_cannot_be_compared():
    compiled = framejit.compile(lambda x, n: (x + 1, bisect.bisect([1, 2, None], n)))
    for n in (3, 4):
        with pytest.raises(TypeError, match="not supported between instances"):
            compiled(torch.ones(2), n)
