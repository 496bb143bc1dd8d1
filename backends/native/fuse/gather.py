"""Fuses a kernel that computes rows with a consumer that reads a few elements of each row, so that
only those are stored: a loss over a vocabulary reads one element of each row of a log-softmax.

The consumer's points must be the producer's rows, each once. Whether a computed subscript is inside
the row is taken from the consumer's own check, which is moved to the remaining loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from ..ir.index import Atom, ClaimedBounds, Hole, Index, Var, atom, index, linear
from ..ir.program import Kernel, Store
from ..ir.scalar import (
    CONST,
    INDEX,
    LOAD,
    REDUCE,
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
from .places import coordinates, covers_range, is_serial, other_name


class CannotFuse(Exception):
    """The two kernels do not match."""


def fuse_gather(producer: Kernel, consumer: Kernel, needed: Set[str]) -> Kernel | None:
    """One kernel over the producer's rows; None where these are not the consumer's points. needed:
    buffers of the producer that others read; of each row they may hold one value."""
    if not producer.inner or consumer.inner or is_serial(consumer.outer, producer.inner):
        return None
    stored = {store.buffer: store for store in producer.stores}
    kept = [store for store in producer.stores if store.buffer in needed]
    if any(store.index.variables() & set(producer.inner) for store in kept):
        return None
    passed = [node for node in loads(consumer.roots()) if node.attr.buffer in stored]
    names = {old: Var(other_name(old.name, consumer), old.size) for old in producer.inner}
    try:
        places = {id(node): point(producer, stored[node.attr.buffer], node) for node in passed}
        row = common_row(producer, consumer, places.values())
        reduced = moved_reductions(producer, row, {old: atom(new) for old, new in names.items()})
        given = {
            id(node): value_at(stored[node.attr.buffer].value, reduced, places[id(node)], node)
            for node in passed
        }
    except CannotFuse:
        return None

    def change(node: Scalar) -> Scalar:
        if id(node) in given:
            return given[id(node)]
        return cast_again(node)

    stores = [
        Store(store.buffer, store.index.substitute(row), value_at(store.value, reduced, row))
        for store in kept
    ]
    stores += [
        Store(store.buffer, store.index, value)
        for store, value in zip(consumer.stores, rewrite(consumer.roots(), change), strict=True)
    ]
    origins = producer.origins + consumer.origins
    return Kernel(consumer.outer, tuple(names.values()), tuple(stores), origins)


def point(producer: Kernel, store: Store, node: Scalar) -> dict[Atom, Index]:
    """The point of the producer's loops at which the element was stored that a load reads; of a
    row's one value, the row."""
    place = node.attr.index
    holes = {item for item in place.atoms() if isinstance(item, Hole)}
    if node.args[0] is not TRUE or len(holes) > 1:
        raise CannotFuse
    place = place.substitute(
        {hole: atom(ClaimedBounds(atom(hole), size_beyond(node, hole))) for hole in holes}
    )
    wide = store.index.variables() & set(producer.inner)
    found = coordinates(store, producer.variables if wide else producer.outer, place)
    if found is None:
        raise CannotFuse
    return found


def size_beyond(node: Scalar, hole: Hole) -> Index:
    """The bound of a computed subscript, from the load's check."""
    subscript, check = node.args[1 + hole.number], node.args[-1]
    if (
        not node.attr.checked
        or check.op != "and"
        or (check.args[0].op, check.args[1].op) != ("ge", "lt")
    ):
        raise CannotFuse
    (lower, low), (upper, high) = check.args[0].args, check.args[1].args
    if lower is not subscript or upper is not subscript or index_of(low) != 0:
        raise CannotFuse
    return index_of(high)


def index_of(node: Scalar) -> Index:
    if node.op not in (INDEX, CONST):
        raise CannotFuse
    return index(node.attr)


def common_row(
    producer: Kernel, consumer: Kernel, places: Iterable[Mapping[Atom, Index]]
) -> dict[Atom, Index]:
    """The producer's row at each of the consumer's points, in terms of the consumer's loops."""
    rows: list[dict[Atom, Index]] = [
        {variable: place[variable] for variable in producer.outer} for place in places
    ]
    points = [variable for variable in consumer.outer if variable.size != 1]
    if any(row != rows[0] for row in rows) or not covers_range(
        linear(producer.outer).substitute(rows[0]), points, producer.rows
    ):
        raise CannotFuse
    return rows[0]


def moved_reductions(
    producer: Kernel, row: Mapping[Atom, Index], along: Mapping[Atom, Index]
) -> dict[int, Scalar]:
    """The producer's reductions, each as the same one in other loops. along: the loops along its
    rows."""
    reductions = [node for node in topological(producer.roots()) if node.op == REDUCE]
    return dict(zip(map(id, reductions), substitute(reductions, {**row, **along}), strict=True))


def value_at(
    value: Scalar,
    reduced: Mapping[int, Scalar],
    place: Mapping[Atom, Index],
    reader: Scalar | None = None,
) -> Scalar:
    """A stored value at one position. reduced: replacements for reductions; reader: the load that
    reads it, None for a value of a whole row."""
    claims: dict[Atom, Index] = {
        item: item.expression
        for expression in place.values()
        for item in expression.atoms()
        if isinstance(item, ClaimedBounds)
    }
    done: dict[int, Scalar] = {}
    for node in topological([value]):
        if node.op == REDUCE:
            done[id(node)] = reduced[id(node)]
            continue
        new = Scalar(
            node.op, tuple(done[id(argument)] for argument in node.args), node.dtype, node.attr
        )
        if node.op == LOAD:
            there = node.attr.index.substitute(place)
            if reader is None:
                new = replace(new, attr=replace(node.attr, index=there))
            else:
                new = move_load(new, there, claims, reader)
        elif node.op == INDEX:
            there = node.attr.substitute(place)
            if not claims.keys().isdisjoint(there.atoms()):
                raise CannotFuse
            new = replace(new, attr=there)
        done[id(node)] = new
    if claims and not any(
        node.op == LOAD and node.attr.checked for node in topological([done[id(value)]])
    ):
        raise CannotFuse  # no load is left that could be checked
    return done[id(value)]


def move_load(node: Scalar, there: Index, claims: Mapping[Atom, Index], reader: Scalar) -> Scalar:
    """A load at another position, with the consumer's computed subscript and its check if the
    position depends on them."""
    held = claims.keys() & set(there.atoms())
    if not held:
        return replace(node, attr=replace(node.attr, index=there))
    subscripts = node.args[1 : len(node.args) - node.attr.checked]
    (hole,) = (item for claim in held for item in claims[claim].atoms() if isinstance(item, Hole))
    there = there.substitute({claim: atom(Hole(len(subscripts))) for claim in held})
    check = s("and", node.args[-1], reader.args[-1]) if node.attr.checked else reader.args[-1]
    arguments = (node.args[0], *subscripts, reader.args[1 + hole.number], check)
    return Scalar(LOAD, arguments, node.dtype, Access(node.attr.buffer, there, True))
