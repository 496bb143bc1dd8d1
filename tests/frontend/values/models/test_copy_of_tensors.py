"""Deep copies of tensors, typed dictionaries, ordered dictionaries with attributes."""

from __future__ import annotations

import collections
import copy
import dataclasses
import typing

import pytest
import torch

from ...semantics.harness import check, vec


@dataclasses.dataclass
class Batch:
    data: torch.Tensor
    more: list
    size: int = 3


class Options(typing.TypedDict, total=False):
    scale: float
    data: torch.Tensor


def made_inside(x):
    y = x * 2
    copied = copy.deepcopy({"y": y, "n": 1})
    copied["y"].add_(1)
    return y, copied


def met_twice(x):
    copied = copy.deepcopy([x, (x, 1)])
    copied[0].mul_(2)
    return copied, copied[0] is copied[1][0], x


def as_a_dictionary(x):
    found = dataclasses.asdict(Batch(x + 1, [x, {"k": x * 2}]))
    found["data"].zero_()
    return found, x


def transposed(x):
    return copy.deepcopy(x.t().clone()), copy.deepcopy((x + 1).t().contiguous())


def typed(x):
    options = Options(scale=2.0, data=x)
    options["scale"] += 1
    return options, Options(), Options({"scale": 1.0}), x * options["scale"]


def with_attributes(x):
    made = collections.OrderedDict(a=x + 1)
    made._metadata = collections.OrderedDict()
    made._metadata["a"] = {"version": 1}
    made.back = made
    made._metadata = made._metadata
    return made, made._metadata["a"], hasattr(made, "other"), getattr(made, "other", 5)


def attributes_across_a_break(x):
    made = collections.OrderedDict(a=x + 1)
    made.about = [x]
    print("now")
    made.about.append(1)
    return made, x * 2


def attribute_taken_back(x):
    made = collections.OrderedDict()
    made.kept = 1
    made.lost, n = 2, (x.sum() > 0).item()
    return made, x * n


@pytest.mark.parametrize("f", [typed, with_attributes])
def test_in_one_graph(f):
    check(f, vec(2, 3))


@pytest.mark.parametrize("f", [made_inside, met_twice, as_a_dictionary, transposed])
def test_tensors_are_copied_by_python(f):
    check(f, vec(2, 3), graphs=None, breaks=None)


AROUND = [
    (attributes_across_a_break, ("output",)),
    (attribute_taken_back, ("data-dependent-value", "unsupported-mutation")),
]


@pytest.mark.parametrize(("f", "breaks"), AROUND)
def test_an_attribute_of_one_made_before_a_break_is_pythons(f, breaks):
    check(f, vec(2, 3), graphs=2, breaks=breaks)


def test_the_dictionary_of_a_dataclass_that_existed():
    def f(batch):
        return dataclasses.asdict(batch), batch.data + 1

    check(f, Batch(vec(3), [vec(2), vec(2, 2)]), graphs=None, breaks=None)


def test_state_dict():
    def f(m, x):
        found = m.state_dict(prefix="a.")
        return found, found._metadata, m(x)

    check(f, torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval(), vec(3, 2))


base = vec(6)
with_own = vec(3)
with_own.note = "kept"
LEFT_TO_PYTHON = {
    "a part of a storage": (lambda x: (copy.deepcopy(x), x * 2), (base[1:4],)),
    "two of one storage": (lambda x, y: (copy.deepcopy([x, y]), x * 2), (base, base.view(2, 3))),
    "a view made inside": (lambda x: (copy.deepcopy([x, x.view(-1)]), x * 2), (vec(2, 3),)),
    "an expanded one": (lambda x: (copy.deepcopy(x), x * 2), (vec(1).expand(3),)),
    "one with a gradient": (lambda x: (copy.deepcopy(x), x * 2), (vec(3, grad=True),)),
    "a parameter": (lambda x: (copy.deepcopy(x), x * 2), (torch.nn.Parameter(vec(3)),)),
    "one with attributes": (lambda x: (copy.deepcopy(x), x * 2), (with_own,)),
    "a copy of a dictionary with attributes": (
        lambda x: (copy.deepcopy(attributed(x)), copy.copy(attributed(x)), x * 2),
        (vec(3),),
    ),
}


def attributed(x):
    made = collections.OrderedDict(a=1)
    made.note = [x]
    return made


@pytest.mark.parametrize("name", LEFT_TO_PYTHON)
def test_what_a_clone_would_not_copy_is_left_to_python(name):
    f, inputs = LEFT_TO_PYTHON[name]
    check(f, *inputs, graphs=None, breaks=None)


def test_one_that_has_become_a_part_of_a_storage():
    def f(x):
        return copy.deepcopy(x)

    handle = check(f, vec(3), graphs=None, breaks=None)
    part = vec(6)[:3]
    assert handle(part).untyped_storage().nbytes() == part.untyped_storage().nbytes()
