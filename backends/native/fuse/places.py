"""Maps memory addresses back to loop indices: the iteration that stores an element, and whether
iterations are whole rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.index import ZERO, Atom, Index, Var, product
from ..ir.program import Kernel, Store

LONG_ROW = 1 << 15
FEW_ROWS = 64
FEW_ROWS_ON_A_GPU = 256


def coordinates(store: Store, outer: Sequence[Var], place: Index) -> dict[Atom, Index] | None:
    """The point of the loops `outer` at which an element was stored, from its position in the
    buffer."""
    mapping: dict[Atom, Index] = {}
    for variable in outer:
        stride = store.index.coefficient(variable)
        if stride is None or not stride.terms or variable.size == ZERO:
            return None
        mapping[variable] = place // stride % variable.size
    return mapping if store.index.substitute(mapping) == place else None


def is_dense(place: Index, variables: Iterable[Var], count: Index) -> bool:
    """Whether an address takes the values 0 .. count-1, each once, as the variables run."""
    steps = []
    for variable in variables:
        step = place.coefficient(variable)
        if step is None:
            return False
        steps.append((step, variable.size))
    expected = Index({(): 1})
    while steps:
        following = [item for item in steps if item[0] == expected]
        if len(following) != 1:
            return False
        steps.remove(following[0])
        expected = expected * following[0][1]
    return (
        expected == count
        and not place.substitute({variable: Index({}) for variable in variables}).terms
    )


def other_name(name: str, consumer: Kernel) -> str:
    """A variable name that the consumer does not use."""
    names = {variable.name for variable in consumer.variables}
    while name in names:
        name += "_"
    return name


def is_serial(outer: Sequence[Var], inner: Sequence[Var], few: int = FEW_ROWS) -> bool:
    """Whether a kernel has so few, long rows that processors would be idle."""
    rows, columns = product([v.size for v in outer]).value, product([v.size for v in inner]).value
    return rows is not None and columns is not None and rows < few and columns > LONG_ROW


def leaves_gpu_idle(producer: Kernel, consumer: Kernel) -> bool:
    """Whether elements that need the results of a few long rows would be computed in the same loop.
    In a kernel of their own, behind it, they are shared between all processors."""
    points = product([consumer.rows, consumer.columns]).value
    return (
        bool(producer.inner)
        and is_serial(producer.outer, producer.inner, FEW_ROWS_ON_A_GPU)
        and (points is None or points > (producer.rows.value or 0))
    )
