"""Digests of classes."""

from __future__ import annotations

import torch
from framejit.frontend.runtime.stored.content import content_of, digest_of_class
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


def test_members_of_an_enumeration_in_c_differ():
    """One class, and nothing in their attributes tells them apart."""
    one, other = torch.distributed.ReduceOp.SUM, torch.distributed.ReduceOp.MAX
    assert content_of(one) != content_of(other)
    assert is_known_by_content(one)


def test_other_objects_of_pybind11_are_not_known_by_their_class():
    made = torch.ops.aten.sin.default._schema
    assert not is_known_by_content(made)
