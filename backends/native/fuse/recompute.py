"""Values that are computed again where they are read.

A kernel may store a value only for kernels with other loops: while it computes the gradient of a
layer norm's input row by row, it would store two numbers for every element whose sums over columns
are the gradients of the weights. Where the operands of such a value are less memory traffic than
the value, it is computed where it is read, and not stored.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ..ir.index import Hole, Var
from ..ir.program import Kernel, Store
from ..ir.scalar import LOAD, REDUCE, SCATTER, TRUE, Scalar, loads, topological
from .inline import CHEAP, cost, with_values_in_place
from .merge import feeds_a_comparison


def computed_by_its_only_reader(
    producer: Kernel, consumer: Kernel, names: Set[str]
) -> Kernel | None:
    """computed_by_one_reader for a value that no other kernel reads: it saves the store as well as
    the load."""
    return compute_where_read(producer, consumer, names, 2)


def computed_by_one_reader(producer: Kernel, consumer: Kernel, names: Set[str]) -> Kernel | None:
    """The consumer, computing what it reads of the producer's buffer (the one name); None where
    that is impossible or takes no less memory traffic."""
    return compute_where_read(producer, consumer, names, 1)


def compute_where_read(
    producer: Kernel, consumer: Kernel, names: Set[str], saved: int
) -> Kernel | None:
    """computed_by_one_reader. saved: how many loads and stores of the buffer this saves for each of
    its elements."""
    (name,) = names
    (store,) = (store for store in producer.stores if store.buffer == name)
    passed = [node for node in loads(consumer.roots()) if node.attr.buffer == name]
    alone = Kernel(producer.variables, (), (store,))
    if (
        not is_cheap_element(store, producer)
        or not reads_each_once(consumer, passed, producer)
        or feeds_a_comparison(alone, consumer)
    ):
        return None
    stores = with_values_in_place(consumer, passed, {name: store}, producer.variables)
    if stores is None:
        return None
    made = replace(consumer, stores=stores, origins=producer.origins[-1:] + consumer.origins)
    before = {node.attr for node in loads(consumer.roots())}
    more = {
        node.attr: node.dtype.itemsize
        for node in loads(made.roots())
        if reads_each_point(node, made)
    }
    extra = sum(size for access, size in more.items() if access not in before)
    return made if extra < saved * store.value.dtype.itemsize else None


def is_cheap_element(store: Store, kernel: Kernel) -> bool:
    """Whether a kernel stores, for each of its points, what it computes from that point's elements
    with few operations."""
    nodes = topological([store.value])
    return (
        store.index.variables() == real_loops(kernel.variables)
        and not any(node.op in (REDUCE, SCATTER) for node in nodes)
        and all(is_plain_load(node) for node in nodes if node.op == LOAD)
        and cost([store.value]) <= CHEAP
    )


def is_plain_load(node: Scalar) -> bool:
    """Whether a load is unconditional, at a place that the loops give."""
    holes = (isinstance(item, Hole) for item in node.attr.index.atoms())
    return node.args[0] is TRUE and not node.attr.checked and not any(holes)


def reads_each_once(consumer: Kernel, passed: list[Scalar], producer: Kernel) -> bool:
    """Whether loads read one element at each point of the consumer, of which there are no more than
    of the producer."""
    read, made = consumer.rows * consumer.columns, producer.rows * producer.columns
    if not all(map(is_plain_load, passed)) or len({node.attr for node in passed}) != 1:
        return False
    return read == made or (
        read.value is not None and made.value is not None and read.value <= made.value
    )


def reads_each_point(node: Scalar, kernel: Kernel) -> bool:
    """Whether a load reads another element at each point, unlike one of a row or a column."""
    return bool(node.attr.index.variables() >= real_loops(kernel.variables))


def real_loops(variables: tuple[Var, ...]) -> set[Var]:
    """The loops of more than one step."""
    return {variable for variable in variables if variable.size != 1}


def without_stores(kernel: Kernel, names: Set[str]) -> Kernel:
    """The kernel without its stores to these buffers, of which it has others."""
    return replace(
        kernel, stores=tuple(store for store in kernel.stores if store.buffer not in names)
    )
