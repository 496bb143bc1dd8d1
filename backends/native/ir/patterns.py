"""Caches transformations by kernel pattern: kernels that differ only in their buffers are
transformed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from typing import Any

from .program import Bound, Kernel, Pattern
from .scalar import LOAD, topological


class Patterns:
    """The distinct kernels of a program, and their cached transformations."""

    def __init__(self) -> None:
        self._known: dict[Any, Pattern] = {}
        self._made: dict[Hashable, tuple[Pattern, tuple[int, ...]] | None] = {}

    def bind(self, kernel: Kernel) -> Bound:
        """A kernel as a pattern applied to its buffers."""
        key, names = canonical_form(kernel)
        pattern = self._known.get(key)
        if pattern is None:
            numbers = {name: number for number, name in enumerate(names)}
            nodes = topological(kernel.roots())
            loaded = {numbers[node.attr.buffer] for node in nodes if node.op == LOAD}
            stored = (numbers[store.buffer] for store in kernel.stores)
            pattern = self._known[key] = Pattern(
                kernel, names, tuple(sorted(loaded)), tuple(stored), len(nodes)
            )
        return Bound(pattern, names)

    def compute_once(
        self, make: Callable[..., Kernel | None], *given: Bound, about: Set[str] | None = None
    ) -> Bound | None:
        """make(kernels and some of their buffers), computed once for kernels that are equal and
        share buffers in the same way."""
        names = tuple(dict.fromkeys(name for bound in given for name in bound.names))
        numbers = {name: number for number, name in enumerate(names)}
        same = tuple((bound.pattern, *(numbers[name] for name in bound.names)) for bound in given)
        key = make, same, frozenset(numbers[name] for name in about or ())
        if key not in self._made:
            kernel = make(*(bound.kernel for bound in given), *([] if about is None else [about]))
            bound = None if kernel is None else self.bind(kernel)
            self._made[key] = (
                None
                if bound is None
                else (bound.pattern, tuple(numbers[name] for name in bound.names))
            )
        found = self._made[key]
        return (
            None if found is None else Bound(found[0], tuple(names[number] for number in found[1]))
        )


def canonical_form(kernel: Kernel) -> tuple[Any, tuple[str, ...]]:
    """The properties that are equal for kernels that differ only in their buffers' names, and the
    names."""
    names: dict[str, int] = {}
    numbers: dict[int, int] = {}
    parts: list[Any] = []
    for node in topological(kernel.roots()):
        attr = node.attr
        if node.op == LOAD:
            attr = names.setdefault(attr.buffer, len(names)), attr.index, attr.checked
        elif isinstance(attr, float):
            attr = repr(attr)  # 0.0 is not -0.0, NaN is NaN
        numbers[id(node)] = len(parts)
        parts.append(
            (node.op, *(numbers[id(arg)] for arg in node.args), node.dtype, type(attr), attr)
        )
    for store in kernel.stores:
        parts.append(
            (names.setdefault(store.buffer, len(names)), store.index, numbers[id(store.value)])
        )
    return (kernel.outer, kernel.inner, kernel.origins, tuple(parts)), tuple(names)
