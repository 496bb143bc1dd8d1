"""Digests of classes."""

from __future__ import annotations

from framejit.frontend.runtime.stored.content import digest_of_class


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
