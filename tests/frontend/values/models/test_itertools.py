"""Loops over what itertools returns."""

import itertools

import framejit
import pytest
import torch


def loops(x, items):
    for one, other in itertools.combinations(items, 2):
        x = x * one + other
    for one, other in itertools.permutations(items, 2):
        x = x + one - other * x
    for one, other in itertools.pairwise(items):
        x = x * other + one
    for one, other in itertools.zip_longest(items, items[1:], fillvalue=0.5):
        x = x * one + other
    for one, other in itertools.zip_longest(items, [x]):
        x = x + one if other is None else x + one * other
    return x, list(itertools.permutations([1, 2, 3])), list(itertools.pairwise([1]))


def ends(x, items):
    pairs, longest = itertools.pairwise(items), itertools.zip_longest(items, [], iter([7]))
    taken = [next(pairs), next(longest), next(longest)]
    rest = [*pairs, *longest]
    return x + 1, taken, rest, next(pairs, None), next(longest, None), list(itertools.zip_longest())


@pytest.mark.parametrize("function", [loops, ends])
def test_loops_are_captured(function):
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for items in ([0.5, 2.0, 3.0], [1.0, 3.0, 0.25]):
        x = torch.rand(3)
        assert str(compiled(x, items)) == str(function(x, items))


def test_iterators_go_on_after_a_break():
    def function(x, items):
        begun = [
            itertools.combinations(items, 2),
            itertools.permutations(items, 2),
            itertools.pairwise(items),
            itertools.zip_longest(items, [1], fillvalue=x),
        ]
        ended = itertools.pairwise(items[:1]), itertools.zip_longest([])
        taken = [next(one) for one in begun], [next(one, None) for one in ended]
        y = x + 1
        print(end="")
        return y * 2, taken, [list(one) for one in begun], [list(one) for one in ended]

    compiled = framejit.compile(function, backend="eager")
    for items in ([4, 5, 6], [1, 2, 3]):
        x = torch.rand(3)
        assert str(compiled(x, items)) == str(function(x, items))


def test_a_length_that_python_refuses():
    def function(x):
        try:
            return list(itertools.combinations([x], -1))
        except ValueError as error:
            return x + 1, str(error)

    compiled = framejit.compile(function, backend="eager")
    assert str(compiled(torch.ones(2))) == str(function(torch.ones(2)))
