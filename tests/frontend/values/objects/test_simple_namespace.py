"""types.SimpleNamespace, and weak references: what they hold, what they are equal to."""

from __future__ import annotations

import types
import weakref

import pytest

from ...semantics.harness import check, vec

NS = types.SimpleNamespace


class Kept:
    pass


class Wider(types.SimpleNamespace):
    def double(self):
        return self.a * 2


KEPT = Kept()
PLAIN, CALLING = weakref.ref(KEPT), weakref.ref(KEPT, lambda ref: None)


@pytest.mark.parametrize("use, breaks", [
    (lambda x, n: (NS(a=1, b=x), NS(**{"a": 1}), NS(), x + 1), 0),
    (lambda x, n: (n.a + 1, setattr(n, "b", x * 2), n.b, delattr(n, "a"), hasattr(n, "a"), sorted(vars(n)), getattr(n, "no", 7)), 0),
    (lambda x, n: (setattr(n, "held", NS(of=n)), n.held.of is n, x + 1), 0),
    (lambda x, n: (Wider(a=x + 1).double(), Wider(a=3)), 0),
    (lambda x, n: (x + 1, n == NS(a=1)), 1),
    (lambda x, n: (x + 1, repr(NS(a=1, b="c"))), 1),
    (lambda x, n: [x + 1 for _ in [vars(n).update(c=4)]] + [n.c], 0),
], ids=lambda part: "")  # fmt: skip
def test_a_namespace(use, breaks):
    check(use, vec(2), NS(a=1), breaks=breaks, graphs=None)


def test_what_a_namespace_lacks():
    def f(x):
        told = []
        for use in (lambda: NS(a=1).b, lambda: delattr(NS(a=1), "b")):
            try:
                use()
            except AttributeError as error:
                told.append(str(error))
        return x + 1, told[0]

    check(f, vec(2))


def test_weak_references_are_equal_as_what_they_lead_to():
    def f(x):
        both = [weakref.ref(KEPT), weakref.ref(KEPT)]
        return (
            x + 1,
            PLAIN == CALLING,
            PLAIN is CALLING,
            PLAIN != CALLING,
            PLAIN in [CALLING],
            PLAIN == 3,
            both[0] is both[1],
            both[0] == CALLING,
        )

    check(f, vec(2), graphs=None, breaks=("unknown-call",) * 2)


def test_a_weak_reference_that_leads_nowhere():
    gone = weakref.ref(Kept())

    def f(x):
        return x + 1, gone() is None, gone == PLAIN, gone == gone, gone != PLAIN

    check(f, vec(2))
