"""types.SimpleNamespace: what it holds, what it is equal to."""

from __future__ import annotations

import types

import pytest

from ...semantics.harness import check, vec

NS = types.SimpleNamespace


class Wider(types.SimpleNamespace):
    def double(self):
        return self.a * 2


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
