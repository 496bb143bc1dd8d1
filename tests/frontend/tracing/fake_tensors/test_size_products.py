"""Sizes as products: what is equal, what is missing, and the strides of views, as torch has them."""

from __future__ import annotations

import pytest
import torch
from framejit.frontend.tracing.fake_tensors.size_products import (
    dense_order,
    is_same_size,
    missing_size,
    product_of,
    strides_of_view,
)
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

NUMBERS = {"n": 37, "m": 41}


@pytest.fixture
def sizes():
    """n and m, two sizes that vary."""
    env = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    made = []
    for name, number in NUMBERS.items():
        source = torch._dynamo.source.ConstantSource(name)
        symbol = env.create_unspecified_symbol(number, source, DimDynamic.DYNAMIC)
        made.append(env.create_symintnode(symbol, hint=number, source=source))
    yield made
    assert env.guards == []  # nothing was asked


def number(size):
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


SAME = {
    "a number in a sum": lambda n, m: (2 * (n + 1), 2 * n + 2),
    "in another order": lambda n, m: (n * m * 3, 3 * m * n),
    "a quotient": lambda n, m: (32 * ((n - 1) // 4 + 1), 32 + 32 * ((n - 1) // 4)),
    "numbers": lambda n, m: (6, 6),
}
DIFFERENT = {
    "another number": lambda n, m: (2 * n, 3 * n),
    "another symbol": lambda n, m: (n, m),
    "a square": lambda n, m: (n * n, n),
    "a number and a symbol": lambda n, m: (37, n),
    "numbers": lambda n, m: (6, 7),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_size(name, sizes):
    assert is_same_size(*SAME[name](*sizes))
    assert product_of(SAME[name](*sizes)[:1]) == product_of(SAME[name](*sizes)[1:])


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_size(name, sizes):
    assert not is_same_size(*DIFFERENT[name](*sizes))


MISSING = {
    "a number": lambda n, m: ([n, 6, m], [m, n]),
    "a size": lambda n, m: ([n, 6, m], [6, n]),
    "a product": lambda n, m: ([n, 6, m], [6]),
    "a part of a number": lambda n, m: ([n, 6, m], [n, m, 2]),
    "a quotient": lambda n, m: ([n, 8, (m - 1) // 2 + 1], [n, 8]),
    "everything": lambda n, m: ([n, m], []),
}
NOT_FOUND = {
    "no divisor": lambda n, m: ([n, 6], [4, n]),
    "another symbol": lambda n, m: ([n, 6], [m]),
    "a factor of a product": lambda n, m: ([n * m, 6], [n, 6]),
    "of nothing": lambda n, m: ([n, 0], [n, 0]),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_size(name, sizes):
    have, given = MISSING[name](*sizes)
    missing = missing_size(have, given)
    whole = rest = 1
    for size in have:
        whole *= number(size)
    for size in given:
        rest *= number(size)
    assert missing is not None and number(missing) * rest == whole


@pytest.mark.parametrize("name", NOT_FOUND)
def test_a_missing_size_that_is_not_found(name, sizes):
    assert missing_size(*NOT_FOUND[name](*sizes)) is None


VIEWS = {
    "split": lambda n, m: ((n, 12, m), (0, 2, 1), (n, 3, 4, m)),
    "merged": lambda n, m: ((n, 4, 3, m), (0, 3, 1, 2), (n, 12, m)),
    "merged in order": lambda n, m: ((n, 4, m), (2, 0, 1), (4 * n, m)),
    "merged and split": lambda n, m: ((n, 4, 6, m), (3, 0, 1, 2), (n, 8, 3, m)),
    "ones": lambda n, m: ((n, 12, m), (0, 2, 1), (1, n, 1, 12, m, 1)),
    "from a one": lambda n, m: ((n, 1, 12, m), (0, 1, 3, 2), (n, 12, m)),
    "impossible": lambda n, m: ((n, 4, m), (1, 0, 2), (n * 4, m)),
    "other factors": lambda n, m: ((n, 6, m), (0, 2, 1), (n, m, 6)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides_of_a_view(name, sizes):
    """As torch calculates them for numbers."""

    def strides_in(order, shape):
        strides, step = [0] * len(shape), 1
        for dim in reversed(order):
            strides[dim] = step
            step = step * shape[dim]
        return strides

    shape, order, wanted = VIEWS[name](*sizes)
    found = strides_of_view(shape, strides_in(order, shape), wanted)
    real = torch.empty_strided(
        [*map(number, shape)], strides_in(order, [*map(number, shape)]), device="meta"
    )
    try:
        expected = real.view([*map(number, wanted)]).stride()
    except RuntimeError:
        assert found is None
        return
    assert found is not None
    real_sizes = [*map(number, wanted)]
    assert [number(one) for one, size in zip(found, real_sizes, strict=True) if size > 1] == [
        one for one, size in zip(expected, real_sizes, strict=True) if size > 1
    ]


ORDERS = {
    "contiguous": (lambda n, m: ((n, 3, m), (3 * m, m, 1)), [2, 1, 0]),
    "turned": (lambda n, m: ((n, 3, m), (3 * m, 1, 3)), [1, 2, 0]),
    "a sum": (lambda n, m: ((2, n + 1, m), (1, 2, 2 * n + 2)), [0, 1, 2]),
    "with gaps": (lambda n, m: ((n, 3), (6, 2)), None),
    "expanded": (lambda n, m: ((n, m), (0, 1)), None),
    "a one": (lambda n, m: ((n, 1), (1, 1)), None),
    "no dimension": (lambda n, m: ((), ()), []),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_a_dense_tensor(name, sizes):
    make, order = ORDERS[name]
    assert dense_order(*make(*sizes)) == order
