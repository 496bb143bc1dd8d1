"""Merges two kernels: a producer and its consumer, or two that run in the same loops.

Where a consumer reads an element that its producer writes at the same point of common loops, it
uses the value directly. The producer's loop indices follow from the address: element a of a buffer
with strides s_i and sizes n_i was stored at the point whose i-th index is (a // s_i) % n_i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ..ir.index import Atom, Hole, Index, Var, atom, linear, product, unravel_index
from ..ir.program import Kernel, Store, scattered_value
from ..ir.scalar import (
    CAST,
    CONST,
    INDEX,
    LOAD,
    REDUCE,
    Access,
    Scalar,
    cast_again,
    loads,
    rewrite,
    substitute,
    topological,
)
from .gather import fuse_gather
from .inline import inline
from .places import coordinates, covers_range, is_serial, other_name

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
EXACT = frozenset({LOAD, CONST, INDEX, CAST})  # expressions with the same value everywhere


def merge_or_inline(producer: Kernel, consumer: Kernel, needed: Set[str]) -> Kernel | None:
    """Both as one kernel. needed: buffers of the producer that others read."""
    if feeds_a_comparison(producer, consumer) or scattered_value(producer) is not None:
        return None
    scattered = scattered_value(consumer)
    if scattered is not None:
        starts = scattered.args[0].attr.buffer in {store.buffer for store in producer.stores}
        return None if starts else inline(producer, consumer, bool(needed))
    return (
        merge(producer, consumer, needed)
        or inline(producer, consumer, bool(needed))
        or fuse_gather(producer, consumer, needed)
    )


def feeds_a_comparison(producer: Kernel, consumer: Kernel) -> bool:
    """Whether the consumer compares floats that the producer computes with other floats, as in `l
    == l.max()`. Both sides must come from memory: computed in another loop, a number may round
    differently (vectorised code and single elements differ), and no element would equal the largest
    one."""
    calculated = {
        store.buffer
        for store, root in zip(producer.stores, producer.roots(), strict=True)
        if any(node.op not in EXACT for node in topological([root]))
    }
    for node in topological(consumer.roots()) if calculated else ():
        if node.op not in COMPARISONS or node.args[0] is node.args[1]:
            continue
        sides = [loads([side]) for side in node.args]
        if not all(sides) or not any(side.dtype.is_floating_point for side in node.args):
            continue
        if any(load.attr.buffer in calculated for side in sides for load in side):
            return True
    return False


def merge(producer: Kernel, consumer: Kernel, needed: Set[str]) -> Kernel | None:
    """Both in common loops, with each point computed once; None where the loops do not match."""
    stored = {store.buffer: store for store in producer.stores}
    passed = [node.attr for node in loads(consumer.roots()) if node.attr.buffer in stored]
    if any(isinstance(item, Hole) for access in passed for item in access.index.atoms()):
        return None
    found = common_loops(producer, consumer, stored, passed)
    if found is None:
        return None
    outer, inner, mapping = found
    if any(stored[access.buffer].index.substitute(mapping) != access.index for access in passed):
        return None
    values = substitute(producer.roots(), mapping)
    given = {store.buffer: value for store, value in zip(producer.stores, values, strict=True)}

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD and node.attr.buffer in given:
            return given[node.attr.buffer]
        return cast_again(node)

    kept = [
        Store(store.buffer, store.index.substitute(mapping), value)
        for store, value in zip(producer.stores, values, strict=True)
        if store.buffer in needed
    ]
    own = rewrite(consumer.roots(), change)
    stores = [
        Store(store.buffer, store.index, value)
        for store, value in zip(consumer.stores, own, strict=True)
    ]
    made = Kernel(outer, inner, (*kept, *stores), producer.origins + consumer.origins)
    alone = all(map(reads_in_one_order, (producer, consumer)))
    return None if alone and not reads_in_one_order(made) else made


def reads_in_one_order(kernel: Kernel) -> bool:
    """Whether no matrix is read along its rows and another, or the same, along its columns: where
    the rows of one lie side by side in memory, an inner loop would jump through the other."""
    if not kernel.inner or not kernel.outer:
        return True
    orders = set()
    for node in loads(kernel.roots()):
        used = node.attr.index.variables()
        if not used.isdisjoint(kernel.inner) and not used.isdisjoint(kernel.outer):
            near = {variable for variable in used if node.attr.index.coefficient(variable) == 1}
            orders.add(not near.isdisjoint(kernel.inner))
    return len(orders) < 2


def common_loops(
    producer: Kernel, consumer: Kernel, stored: Mapping[str, Store], passed: Sequence[Access]
) -> tuple[tuple[Var, ...], tuple[Var, ...], dict[Atom, Index]] | None:
    """Common loops, and the producer's variables in terms of them; None where their points do not
    correspond."""
    by_row = [variable for variable in consumer.outer if variable.size != 1]
    along = [variable for variable in consumer.inner if variable.size != 1]
    every = by_row + along
    mapping, columns = points(producer, stored, passed)
    if mapping is None or not covers_range(
        linear(producer.outer).substitute(mapping), used_variables(mapping, every), producer.rows
    ):
        return None
    rows = used_variables(mapping, every)
    outer, inner = consumer.outer, consumer.inner
    if not producer.inner:
        return (outer, inner, mapping) if rows in (every, by_row) else None
    if inner and rows != by_row:
        return None
    if columns is not None:
        used = used_variables(columns, every)
        disjoint = not set(used) & set(rows) and len(used) + len(rows) == len(every)
        place = linear(producer.inner).substitute(columns)
        if not disjoint or not covers_range(place, used, producer.columns):
            return None
        if not inner:
            outer, inner = tuple(rows), tuple(used)
        return None if is_serial(outer, inner) else (outer, inner, mapping | columns)
    if not inner and rows == by_row:
        inner, renamed = inner_loop_of(producer, consumer)
        return outer, inner, mapping | renamed
    if not inner:
        outer, inner = tuple(rows), tuple(variable for variable in by_row if variable not in rows)
    if product([variable.size for variable in inner]) != producer.columns or is_serial(
        outer, inner
    ):
        return None
    return outer, inner, mapping | unravel_index(producer.inner, linear(inner))


def inner_loop_of(producer: Kernel, consumer: Kernel) -> tuple[tuple[Var, ...], dict[Atom, Index]]:
    """The producer's inner loop under names that the consumer has not, and its variables in terms
    of these."""
    inner = tuple(
        Var(other_name(variable.name, consumer), variable.size) for variable in producer.inner
    )
    return inner, {old: atom(new) for old, new in zip(producer.inner, inner, strict=True)}


def points(
    producer: Kernel, stored: Mapping[str, Store], passed: Sequence[Access]
) -> tuple[dict[Atom, Index] | None, dict[Atom, Index] | None]:
    """The point of the producer's loops at which each element was stored: its row, and the position
    in the row (None for a value of the whole row)."""
    outer: dict[Atom, Index] | None = None
    inner: dict[Atom, Index] | None = None
    for access in passed:
        store = stored[access.buffer]
        if not store.index.variables() & set(producer.inner):
            outer = coordinates(store, producer.outer, access.index)
            continue
        found = coordinates(store, producer.variables, access.index)
        if found is None:
            return None, None
        inner = {variable: found[variable] for variable in producer.inner}
        outer = outer or {variable: found[variable] for variable in producer.outer}
    return outer, inner


def used_variables(mapping: Mapping[Atom, Index], variables: Sequence[Var]) -> list[Var]:
    """The variables that the mapping's values depend on."""
    found = {variable for expression in mapping.values() for variable in expression.variables()}
    return [variable for variable in variables if variable in found]


def zip_kernels(left: Kernel, right: Kernel) -> Kernel | None:
    """Two independent kernels as one, if their loops are the same."""
    if scattered_value(left) is not None or scattered_value(right) is not None:
        return None
    pairs = list(zip(left.variables, right.variables, strict=False))
    if any(
        node.op == REDUCE and node.attr.startswith("arg")
        for node in topological((*left.roots(), *right.roots()))
    ):
        return None  # they would prevent SIMD for the others
    same = len(left.outer) == len(right.outer) and len(left.inner) == len(right.inner)
    if not same or any(a.size != b.size for a, b in pairs):
        return None
    mapping: Mapping[Atom, Index] = {b: atom(a) for a, b in pairs}
    shared = {node.attr for node in loads(left.roots())} & {
        Access(node.attr.buffer, node.attr.index.substitute(mapping))
        for node in loads(right.roots())
    }
    if not shared:
        return None
    values = substitute(right.roots(), mapping)
    stores = tuple(
        Store(st.buffer, st.index.substitute(mapping), value)
        for st, value in zip(right.stores, values, strict=True)
    )
    return Kernel(left.outer, left.inner, left.stores + stores, left.origins + right.origins)
