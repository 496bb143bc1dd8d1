"""Digests of classes."""

from __future__ import annotations

import tempfile

import torch
from framejit.frontend.runtime.stored.content import (
    content_of,
    digest_of_class,
    digest_of_code,
    in_file,
)
from framejit.frontend.runtime.stored.object_descriptions import is_known_by_content


def test_names_of_a_class_that_are_no_strings_are_not_compared():
    class Key:
        def __hash__(self):
            return hash("first")

        def __eq__(self, other):
            raise AssertionError("code of the program has run")

    def first(self):
        return 1

    def second(self):
        return 2

    plain = type("Made", (), {"first": first})
    keyed = type("Made", (), {Key(): 5, "second": first})
    assert digest_of_class(keyed) != digest_of_class(plain)
    assert digest_of_class(plain) == digest_of_class(type("Made", (), {"first": first}))
    assert digest_of_class(plain) != digest_of_class(type("Made", (), {"first": second}))


NESTED = "def outer():\n    def inner():\n        return 1\n    return inner\n"


def cell_of_process(number):
    name = f"{tempfile.gettempdir()}/ipykernel_{number}/123.py"
    return name, compile(NESTED, name, "exec").co_consts[0]


def test_a_cell_of_a_notebook_is_the_same_in_the_next_kernel():
    (_, first), (name, second) = cell_of_process(11), cell_of_process(22)
    assert digest_of_code(first) == digest_of_code(second)
    moved = in_file(first, name)
    assert moved == second and moved.co_filename == name
    assert [one.co_filename for one in moved.co_consts if hasattr(one, "co_code")] == [name]


def test_code_of_another_file_keeps_its_name():
    _, first = cell_of_process(11)
    assert in_file(first, "other.py") is first
    other = compile(NESTED, "ipykernel_11/123.py", "exec").co_consts[0]
    assert digest_of_code(other) != digest_of_code(first)


def test_members_of_an_enumeration_in_c_differ():
    """One class, and nothing in their attributes tells them apart."""
    one, other = torch.distributed.ReduceOp.SUM, torch.distributed.ReduceOp.MAX
    assert content_of(one) != content_of(other)
    assert is_known_by_content(one)


def test_other_objects_of_pybind11_are_not_known_by_their_class():
    made = torch.ops.aten.sin.default._schema
    assert not is_known_by_content(made)
