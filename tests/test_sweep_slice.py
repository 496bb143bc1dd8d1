"""Slices of long tables: which cases run, and that none is lost for ever."""

from __future__ import annotations

import pytest

from . import sweep_slice


@pytest.fixture
def slice_of(monkeypatch):
    """Takes a slice by its number."""

    def choose(number):
        monkeypatch.setattr(sweep_slice, "WHOLE", False)
        monkeypatch.setattr(sweep_slice, "NUMBER", number)

    return choose


class Case:
    def __init__(self, **params):
        self.callspec = self
        self.params = params


@pytest.mark.parametrize("size", [1, 3, 7, 20])
@pytest.mark.parametrize("step", [1, 2, 5, 10])
def test_each_case_is_in_some_slice_and_none_is_empty(step, size, slice_of):
    seen = set()
    for number in range(step * size):
        slice_of(number)
        chosen = sweep_slice.one_of(step, range(size))
        assert 0 < len(chosen) <= -(-size // step)
        seen |= set(chosen)
    assert seen == set(range(size))


@pytest.mark.parametrize("number", range(6))
def test_a_slice_of_a_product_has_several_values_of_each_parameter(number, slice_of):
    slice_of(number)
    product = [(other, way) for other in range(30) for way in "abc"]
    for values in zip(*sweep_slice.one_of(3, product), strict=True):
        assert len(set(values)) > 1


@pytest.mark.parametrize("number", [0, 1, 7, 5039])
def test_each_value_of_the_parameters_named_has_a_case(number, slice_of):
    slice_of(number)
    functions = [lambda: 1, lambda: 2, lambda: 3]  # of one name
    cases = [
        Case(function=function, backend=backend, other=other)
        for function in functions
        for backend in ("a", "b", ["c"])
        for other in range(10)
    ]
    chosen = sweep_slice.covering(30, ("function", "backend"), cases)
    assert {id(case.params["function"]) for case in chosen} == set(map(id, functions))
    assert {str(case.params["backend"]) for case in chosen} == {"a", "b", "['c']"}
    assert len(chosen) <= 3 + 5
    assert chosen == sorted(chosen, key=cases.index)


def test_a_whole_run_takes_all(monkeypatch):
    monkeypatch.setattr(sweep_slice, "WHOLE", True)
    assert sweep_slice.one_of(3, range(5)) == [0, 1, 2, 3, 4]
    assert sweep_slice.few_or_all(2, 9) == 9
    assert sweep_slice.few_of(2, 9) == range(9)


class Single:
    """A test without parameters."""

    def __init__(self, path):
        self.path = path

    def get_closest_marker(self, name):
        return pytest.mark.sweep(2).mark


def test_marked_tests_of_a_file_run_in_turns(slice_of):
    items = [Single("one"), Single("other"), Single("one"), Single("one")]
    seen = []
    for number in range(2):
        slice_of(number)
        left = sweep_slice.left_out(items, ())
        assert {item.path for item in items if item not in left} == {"one", "other"}
        seen += [item for item in items if item not in left]
    assert set(seen) == set(items)


def test_a_few_random_cases_are_others_in_the_next_slice(monkeypatch):
    monkeypatch.setattr(sweep_slice, "WHOLE", False)
    found = []
    for number in range(4):
        monkeypatch.setattr(sweep_slice, "NUMBER", number)
        found += sweep_slice.few_of(2, 9)
    assert found == [0, 1, 2, 3, 4, 5, 6, 7]


def test_the_number_can_be_given(monkeypatch):
    monkeypatch.setenv("FRAMEJIT_SWEEP_SLICE", "17")
    assert sweep_slice.slice_number() == 17
    monkeypatch.delenv("FRAMEJIT_SWEEP_SLICE")
    assert sweep_slice.slice_number() == sweep_slice.slice_number() < sweep_slice.SLICES
