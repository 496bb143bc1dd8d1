"""sorted() of values: by the keys themselves where they are constants, else by comparisons in the
order of Python's sort, which are guarded. Floats that vary are left to Python: their order seldom
comes again."""

from __future__ import annotations

from ....errors import GraphBreak
from ...values.base import ObservedException, Value
from ...values.constant import call_now
from ...values.context import TraceContext
from ...values.operators import compare
from ...values.tensor.symbolic_number import SymbolicNumber


class SortItem:
    """An item of a sort. Its key is compared as the traced program would compare it, in the order
    of Python's own sort."""

    def __init__(self, tx: TraceContext, key: Value, item: Value) -> None:
        self.tx, self.key, self.item = tx, key, item

    def __lt__(self, other: SortItem) -> bool:
        try:
            return compare(self.tx, "<", self.key, other.key).truth(self.tx)
        except ObservedException as error:
            raise GraphBreak("unknown-call", "a sort in which a comparison raises") from error


def sort_values(
    tx: TraceContext, items: list[Value], key: Value | None, reverse: Value | None
) -> list[Value]:
    """sorted(items, key=key, reverse=reverse)."""
    by_value = key is None or key.is_none()
    keys = items if key is None or by_value else [key.call(tx, [item], {}) for item in items]
    backwards = reverse is not None and reverse.truth(tx)
    varying = [key for key in keys if isinstance(key, SymbolicNumber)]
    if any(key.python_type() is float for key in varying):
        raise GraphBreak("data-dependent-value", "a sort by floats that vary from call to call")
    if varying or not all(key.is_constant() for key in keys):
        pairs = zip(keys, items, strict=True)
        return [
            one.item
            for one in sorted((SortItem(tx, k, item) for k, item in pairs), reverse=backwards)
        ]
    constants = [key.constant() for key in keys]
    by_key = constants.__getitem__
    order = call_now(tx, sorted, range(len(items)), key=by_key, reverse=backwards)
    return [items[index] for index in order]
