"""Maps memory addresses back to loop indices: the iteration that stores an element, and whether
iterations are whole rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..ir.index import ONE, ZERO, Atom, Index, Var, product
from ..ir.program import Kernel, Store
from ..ir.scalar import loads

LONG_ROW = 1 << 15
FEW_ROWS = 64
FEW_ROWS_ON_A_GPU = 256
# The same where rows are side by side in memory, as the columns of a matrix: one program on a GPU
# reduces BESIDE of them.
LONG_COLUMN = 1 << 10
BESIDE = 32
WINDOW = 4  # loads from one tensor for each element


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


def covers_range(place: Index, variables: Iterable[Var], count: Index) -> bool:
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


def is_serial(outer: Sequence[Var], inner: Sequence[Var]) -> bool:
    """Whether a kernel has so few, long rows that processors would be idle."""
    rows, columns = product([v.size for v in outer]).value, product([v.size for v in inner]).value
    return rows is not None and columns is not None and rows < FEW_ROWS and columns > LONG_ROW


def has_rows_side_by_side(kernel: Kernel) -> bool:
    """Whether neighbours in memory belong to neighbouring rows."""
    last = kernel.outer[-1:]
    return any(
        node.attr.index.coefficient(variable) == 1
        for node in loads(kernel.roots())
        for variable in last
    )


def leaves_gpu_idle(producer: Kernel, consumer: Kernel) -> bool:
    """Whether elements that need the results of a few long rows would be computed in the same loop.
    In a kernel of their own, after it, they are shared between all processors."""
    points = product([consumer.rows, consumer.columns]).value
    if (
        not has_few_long_rows(producer)
        or points is not None
        and points <= (producer.rows.value or 0)
    ):
        return False
    inner = set(producer.inner)
    results = {store.buffer for store in producer.stores if not store.index.variables() & inner}
    return any(node.attr.buffer in results for node in loads(consumer.roots()))


def turns_windows(producer: Kernel, consumer: Kernel) -> bool:
    """Whether a kernel that reads several elements of one tensor for each of its own would store
    in another order than it reads: on a GPU each of these loads would change its layout, instead of
    the one result."""
    most = Counter(node.attr.buffer for node in loads(producer.roots())).most_common(1)
    if not most or most[0][1] < WINDOW:
        return False
    stored = {store.buffer for store in producer.stores}
    passed = [node for node in loads(consumer.roots()) if node.attr.buffer in stored]
    return any(
        neighbours(node.attr.index).isdisjoint(neighbours(store.index))
        for node in passed
        for store in consumer.stores
    )


def neighbours(place: Index) -> set[Var]:
    """The variables whose steps lead from an element to the next in memory."""
    return {variable for variable in place.variables() if place.coefficient(variable) == ONE}


def has_few_long_rows(kernel: Kernel) -> bool:
    """Whether a kernel reduces so few, long rows that processors of a GPU would be idle."""
    rows, columns = kernel.rows.value, kernel.columns.value
    if not kernel.inner or rows is None or columns is None:
        return False
    if has_rows_side_by_side(kernel):
        return rows < FEW_ROWS_ON_A_GPU * BESIDE and columns > LONG_COLUMN
    return rows < FEW_ROWS_ON_A_GPU and columns > LONG_ROW
