"""Computes a producer's values where its consumer reads them, unless that would repeat expensive
computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..ir.index import Hole, Index, Var
from ..ir.program import Kernel, Store
from ..ir.scalar import (
    LOAD,
    TRUE,
    Access,
    Scalar,
    cast_again,
    loads,
    rewrite,
    substitute,
    topological,
)
from ..ir.scalar import scalar as s
from ..ir.scalar_ops import SCALAR_OPS
from .places import coordinates

CHEAP = 8  # cost up to which a value is recomputed rather than stored
# additions for each element that is read once: points that do not need the value may compute it too
MASKED = 48
SHORT = 1 << 14  # additions that cost less than another kernel launch


def inline(producer: Kernel, consumer: Kernel, needed: bool) -> Kernel | None:
    """The consumer with the producer's values computed where it reads them; the producer's stores
    are removed."""
    if producer.inner:
        return None
    stored = {store.buffer: store for store in producer.stores}
    passed = [node for node in loads(consumer.roots()) if node.attr.buffer in stored]
    if any(isinstance(item, Hole) for node in passed for item in node.attr.index.atoms()):
        return None
    if not worth_repeating(producer, consumer, passed, needed):
        return None
    stores = with_values_in_place(consumer, passed, stored, producer.outer)
    if stores is None:
        return None
    return replace(consumer, stores=stores, origins=producer.origins + consumer.origins)


def with_values_in_place(
    consumer: Kernel, passed: Sequence[Scalar], stored: Mapping[str, Store], loops: Sequence[Var]
) -> tuple[Store, ...] | None:
    """The consumer's stores, computing what its loads `passed` read: what was `stored` in loops
    over these variables. None where the point of an element's loops is not known."""
    values: dict[tuple[Access, int], Scalar] = {}
    for node in passed:
        key = node.attr, id(node.args[0])
        if key in values:
            continue
        store = stored[node.attr.buffer]
        mapping = coordinates(store, loops, node.attr.index)
        if mapping is None:
            return None
        values[key] = mask_loads(substitute([store.value], mapping)[0], node.args[0])
    by_id = {id(node): values[node.attr, id(node.args[0])] for node in passed}

    def change(node: Scalar) -> Scalar:
        if id(node) in by_id:
            return by_id[id(node)]
        return cast_again(node)

    return tuple(
        Store(store.buffer, store.index, value)
        for store, value in zip(consumer.stores, rewrite(consumer.roots(), change), strict=True)
    )


def mask_loads(value: Scalar, mask: Scalar) -> Scalar:
    """The value, with its loads executed only where mask is true."""
    if mask is TRUE:
        return value

    def change(node: Scalar) -> Scalar:
        if node.op != LOAD:
            return node
        own = node.args[0]
        return Scalar(
            LOAD,
            (mask if own is TRUE else s("and", mask, own), *node.args[1:]),
            node.dtype,
            node.attr,
        )

    return rewrite([value], change)[0]


def worth_repeating(
    producer: Kernel, consumer: Kernel, passed: Sequence[Scalar], needed: bool
) -> bool:
    """Whether a consumer should compute a producer's values again instead of reading them. passed:
    the consumer's loads of these values. needed: whether they are stored in any case."""
    accesses = {node.attr for node in passed}
    price = cost(producer.roots())
    read = {node.attr for node in loads(producer.roots())}
    if not read:
        return price <= 4 * CHEAP
    if needed:
        return price <= 2 and len(read) == 1
    times = consumer.rows * consumer.columns * len(accesses)
    if _at_most(times, producer.rows) or (times.value is not None and times.value * price < SHORT):
        return True
    if all(reads_once(node, consumer) for node in passed) and all(
        _at_most(consumer.rows * consumer.columns * price, producer.rows * MASKED)
        for price in prices_of_reading(producer, accesses)
    ):
        return True
    return price <= CHEAP and len(read) <= 2 or price == 0


def prices_of_reading(producer: Kernel, accesses: Iterable[Access]) -> list[int]:
    """The cost of computing all that is read of a buffer at a point, for each stored buffer that is
    read."""
    read = Counter(access.buffer for access in accesses)
    return [
        cost([store.value]) * read[store.buffer]
        for store in producer.stores
        if store.buffer in read
    ]


def reads_once(node: Scalar, consumer: Kernel) -> bool:
    """Whether a load is executed only at some points, at each for another element, as for the
    operands of cat()."""
    return (
        node.args[0] is not TRUE
        and {variable for variable in consumer.variables if variable.size != 1}
        <= node.attr.index.variables()
    )


def _at_most(left: Index, right: Index) -> bool:
    if left.value is not None and right.value is not None:
        return left.value <= right.value
    return left == right


def cost(roots: Iterable[Scalar]) -> int:
    """The cost of all operations, each counted once, in additions."""
    return sum(SCALAR_OPS[node.op].cost for node in topological(roots) if node.op in SCALAR_OPS)
