"""Simplifies a kernel: shares equal values, folds constants, splits a loop where addresses divide
its variable, and joins loops where all addresses allow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..ir.index import ZERO, Atom, ClaimedBounds, Division, Index, Var, atom, index
from ..ir.program import Kernel, Store, loops
from ..ir.scalar import (
    CAST,
    CONST,
    HALF,
    INDEX,
    LOAD,
    ROUNDINGS,
    Scalar,
    cast,
    const,
    evaluate,
    rewrite,
    share,
    substitute,
    topological,
)
from ..ir.scalar_ops import SCALAR_OPS


def simplify(kernel: Kernel) -> Kernel:
    """The same kernel, ready to be printed."""
    kernel = _fold(drop_claims(kernel))
    kernel = split_variable(kernel)
    kernel = _fold(kernel)
    return _join(kernel)


def with_values(
    kernel: Kernel, values: Sequence[Scalar], places: Sequence[Index] | None = None
) -> Kernel:
    places = places or [store.index for store in kernel.stores]
    stores = (
        Store(store.buffer, place, value)
        for store, place, value in zip(kernel.stores, places, values, strict=True)
    )
    return replace(kernel, stores=tuple(stores))


def rename_variables(
    kernel: Kernel, mapping: dict[Atom, Index], outer: Sequence[Var], inner: Sequence[Var]
) -> Kernel:
    """The kernel over other loops; `mapping` gives each old variable in terms of the new ones."""
    places = [store.index.substitute(mapping) for store in kernel.stores]
    return replace(
        with_values(kernel, substitute(kernel.roots(), mapping), places),
        outer=tuple(outer),
        inner=tuple(inner),
    )


# --- constants ---


def _fold(kernel: Kernel) -> Kernel:
    return with_values(kernel, share(rewrite(kernel.roots(), fold)))


def fold(node: Scalar) -> Scalar:
    """The value of a node that is known at compile time, or a simpler node."""
    if node.op == CAST:
        (value,) = node.args
        twice = node.dtype in HALF and value.op == ROUNDINGS[node.dtype]
        return cast(value.args[0] if twice else value, node.dtype)
    if node.op == INDEX and node.attr.value is not None:
        return const(node.attr.value, node.dtype)
    rule = _RULES.get(node.op)
    if rule is not None:
        found = rule(*node.args)
        if found is not None:
            return found
    if node.op in SCALAR_OPS and node.args and all(arg.op == CONST for arg in node.args):
        return const(evaluate(node.op, *node.args), node.dtype)
    return node


def _is(node: Scalar, value: Any) -> bool:
    return (
        node.op == CONST
        and node.attr == value
        and not (value == 0 and isinstance(node.attr, float) and math.copysign(1, node.attr) < 0)
    )


def _and(a: Scalar, b: Scalar) -> Scalar | None:
    if _is(a, True) or _is(b, False):
        return b
    return a if _is(b, True) or _is(a, False) else None


def _or(a: Scalar, b: Scalar) -> Scalar | None:
    if _is(a, False) or _is(b, True):
        return b
    return a if _is(b, False) or _is(a, True) else None


def _where(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar | None:
    if condition.op == CONST:
        return yes if condition.attr else no
    return yes if yes is no else None


def _mul(a: Scalar, b: Scalar) -> Scalar | None:
    if _is(a, 1):
        return b
    return a if _is(b, 1) else None


def _add(a: Scalar, b: Scalar) -> Scalar | None:
    if a.dtype.is_floating_point:
        return None  # -0.0 + 0.0 is 0.0
    if _is(a, 0):
        return b
    return a if _is(b, 0) else None


def bound_condition(name: str) -> Callable[[Scalar, Scalar], Scalar | None]:
    """The rule for a comparison: it is a constant where the bounds of loop variables decide it."""

    def rule(a: Scalar, b: Scalar) -> Scalar | None:
        """Comparisons of loop variables that are always true or always false."""
        if a.op not in (INDEX, CONST) or b.op not in (INDEX, CONST) or a.dtype != torch.int64:
            return None
        left, right = (index(x.attr) if x.op == CONST else x.attr for x in (a, b))
        bounds = (left - right).bounds()
        if bounds is None or bounds[0].value is None or bounds[1].value is None:
            return None
        low, high = bounds[0].value, bounds[1].value
        always, never = {
            "ge": (low >= 0, high < 0),
            "gt": (low > 0, high <= 0),
            "le": (high <= 0, low > 0),
            "lt": (high < 0, low >= 0),
        }[name]
        return const(always, torch.bool) if always or never else None

    return rule


_RULES: dict[str, Callable[..., Scalar | None]] = {
    "and": _and, "or": _or, "where": _where, "mul": _mul, "add": _add,
    **{name: bound_condition(name) for name in ("ge", "gt", "le", "lt")},
}  # fmt: skip


# --- loops ---


def places(kernel: Kernel) -> list[Index]:
    """Every Index of a kernel: in stores, loads and values."""
    found = [store.index for store in kernel.stores]
    for node in topological(kernel.roots()):
        if node.op == LOAD:
            found.append(node.attr.index)
        elif node.op == INDEX:
            found.append(node.attr)
    return list(dict.fromkeys(found))


def drop_claims(kernel: Kernel) -> Kernel:
    """Removes claimed bounds, which are only needed for fusion."""
    while True:
        found = {
            item
            for expression in places(kernel)
            for item in expression.atoms()
            if isinstance(item, ClaimedBounds)
        }
        if not found:
            return kernel
        mapping: dict[Atom, Index] = {item: item.expression for item in found}
        kernel = rename_variables(kernel, mapping, kernel.outer, kernel.inner)


def split_variable(kernel: Kernel) -> Kernel:
    """Splits a variable that addresses divide by n into two, the second of size n."""
    while True:
        found = find_division(places(kernel))
        if found is None:
            return kernel
        variable, number = found
        assert variable.size.value is not None
        names = {item.name for item in kernel.variables}
        high, low = (
            Var(_fresh(variable.name + suffix, names), index(size))
            for suffix, size in (("h", variable.size.value // number), ("l", number))
        )
        pair = {variable: atom(high) * number + atom(low)}
        outer, inner = (
            [new for old in group for new in ((high, low) if old == variable else (old,))]
            for group in (kernel.outer, kernel.inner)
        )
        kernel = rename_variables(kernel, pair, outer, inner)  # type: ignore[arg-type]


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def find_division(expressions: Iterable[Index]) -> tuple[Var, int] | None:
    """A loop variable, and how often its range repeats in a quotient or remainder of an address:
    split there, it needs no division. None where there is none."""
    for expression in expressions:
        for item in expression.atoms():
            if not isinstance(item, Division) or item.divisor.value is None:
                continue
            for monomial, coefficient in item.numerator.terms.items():
                if (
                    len(monomial) == 1
                    and isinstance(monomial[0], Var)
                    and monomial[0].size.value is not None
                ):
                    number = item.divisor.value // math.gcd(item.divisor.value, coefficient)
                    if (
                        number > 1
                        and monomial[0].size.value % number == 0
                        and monomial[0].size.value > number
                    ):
                        return monomial[0], number
    return None


def _join(kernel: Kernel) -> Kernel:
    """Makes one loop of neighbouring ones whose elements are neighbours in all addresses."""
    expressions = places(kernel)
    mapping: dict[Atom, Index] = {}
    groups = []
    for prefix, variables in (("x", kernel.outer), ("r", kernel.inner)):
        joined: list[list[Var]] = []
        for variable in variables:
            if variable.size == 1:
                mapping[variable] = ZERO
            elif joined and _joins(joined[-1], variable, expressions):
                joined[-1].append(variable)
            else:
                joined.append([variable])
        sizes = []
        for members in joined:
            size = index(1)
            for member in members:
                size = size * member.size
            sizes.append(size)
        fresh = loops(sizes, prefix)
        for members, variable in zip(joined, fresh, strict=True):
            for member in members[:-1]:
                mapping[member] = ZERO
            mapping[members[-1]] = atom(variable)
        groups.append(fresh)
    return rename_variables(kernel, mapping, *groups)


def _joins(members: Sequence[Var], variable: Var, expressions: Iterable[Index]) -> bool:
    """Whether every address steps over `variable` and the previous one as over one long loop."""
    for expression in expressions:
        left, right = expression.coefficient(members[-1]), expression.coefficient(variable)
        if left is None or right is None or left != right * variable.size:
            return False
    return True
