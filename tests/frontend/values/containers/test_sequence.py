"""Tuples and lists of subclasses with methods of their own."""

import pytest
import torch

from ...semantics.harness import check


class WithoutLength(tuple):
    """As a label of a representation, whose dimension is no length."""

    __slots__ = ()

    def __len__(self):
        raise NotImplementedError

    @property
    def dim(self):
        return 2 * self[0] + 1


class Backwards(list):
    def __iter__(self):
        return reversed(list(list.__iter__(self)))

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return list.__getitem__(self, -1 - index)


class Pairs(tuple):
    """Iterates over the items in twos."""

    def __iter__(self):
        items = tuple.__iter__(self)
        return zip(items, items, strict=True)


LABEL, LIST, PAIRS = WithoutLength((2, 1)), Backwards([1, 2, 3]), Pairs((1, 2, 3, 4))


@pytest.mark.parametrize("use", [
    lambda x, label, items, pairs: x * label.dim + label[1],
    lambda x, label, items, pairs: [x * item for item in items] + [len(items), items[0]],
    lambda x, label, items, pairs: [x * a + b for a, b in pairs] + [len(pairs), pairs[1]],
    lambda x, label, items, pairs: [LABEL.dim, x * LIST[0], *LIST, *PAIRS],
    lambda x, label, items, pairs: (x + 1, [*map(tuple.__len__, (label, pairs))], list.__len__(items)),
], ids=["without a length", "backwards", "pairs", "globals", "methods of the base"])  # fmt: skip
def test_items_are_those_that_the_base_holds(use):
    check(lambda x: use(x, LABEL, LIST, PAIRS), torch.ones(2), breaks=None, graphs=None)
