"""Integer expressions for addresses and sizes: polynomials over loop variables and sizes, with
floor division and remainder.

An Index is kept in one canonical form, so that two addresses are equal exactly when they print the
same: fusion rests on that. Variables know their size, which is what makes `(768*i + j) // 768`
simplify to `i`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

from ....records import record


class Atom:
    """A factor of a term. The defaults are those of a number about which nothing is known."""

    @property
    def key(self) -> str:
        """The key by which factors are ordered."""
        raise NotImplementedError

    def operands(self) -> tuple[Index, ...]:
        """The expressions that it is made of."""
        return ()

    def largest(self) -> Index | None:
        """The largest value over all values of the variables, if there is a bound."""
        return None

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        """The factor with atoms replaced in its operands."""
        return atom(self)


@record
class Var(Atom):
    """A loop variable: 0 <= value < size."""

    name: str
    size: Index

    @cached_property
    def key(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def largest(self) -> Index:
        return self.size - 1


@record
class Sym(Atom):
    """A size known when the program runs, at least 1."""

    name: str

    @property
    def key(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def largest(self) -> Index:
        return atom(self)


@record
class Hole(Atom):
    """A number that a kernel computes itself: the n-th computed subscript of a load or store."""

    number: int

    @property
    def key(self) -> str:
        return f"@{self.number}"

    def __str__(self) -> str:
        return f"@{self.number}"


@record
class Division(Atom):
    """An expression divided by a positive one, rounded down."""

    numerator: Index
    divisor: Index
    sign: ClassVar[str]

    @cached_property
    def key(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"(({self.numerator}) {self.sign} ({self.divisor}))"

    def operands(self) -> tuple[Index, ...]:
        return self.numerator, self.divisor


class Quotient(Division):
    sign = "//"

    def largest(self) -> Index | None:
        inside = self.numerator.bounds()
        if inside is None or not nonnegative(inside[0]):
            return None
        return inside[1] // self.divisor

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        return self.numerator.substitute(mapping) // self.divisor.substitute(mapping)


class Remainder(Division):
    sign = "%"

    def largest(self) -> Index:
        return self.divisor - 1

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        return self.numerator.substitute(mapping) % self.divisor.substitute(mapping)


@record
class ClaimedBounds(Atom):
    """An expression that is known to be at least 0 and below a size wherever it is used, because of
    a mask."""

    expression: Index
    size: Index

    @cached_property
    def key(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"({self.expression})"

    def operands(self) -> tuple[Index, ...]:
        return (self.expression,)

    def largest(self) -> Index:
        return self.size - 1

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        return claim_bounds(self.expression.substitute(mapping), self.size.substitute(mapping))


Monomial = tuple[Atom, ...]


class Index:
    """A sum of products of atoms with integer coefficients. Immutable; compares by value."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    @property
    def value(self) -> int | None:
        """The number, if it is one."""
        if not self.terms:
            return 0
        if len(self.terms) == 1:
            return self.terms.get(())
        return None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.value == other
        return isinstance(other, Index) and (self is other or self.terms == other.terms)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __add__(self, other: Index | int) -> Index:
        other = index(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            _add(terms, monomial, coefficient)
        return Index(_recombine(terms))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index({monomial: -coefficient for monomial, coefficient in self.terms.items()})

    def __sub__(self, other: Index | int) -> Index:
        return self + -index(other)

    def __rsub__(self, other: Index | int) -> Index:
        return index(other) + -self

    def __mul__(self, other: Index | int) -> Index:
        """The product, multiplied out into a sum of monomials."""
        other = index(other)
        number = other.value
        if number is not None:
            if number == 1:
                return self
            return (
                Index(
                    {monomial: coefficient * number for monomial, coefficient in self.terms.items()}
                )
                if number
                else ZERO
            )
        if self.value is not None:
            return other * self
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                _add(terms, _product(left, right), a * b)
        return Index(_recombine(terms))

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        divisor = index(other)
        if self.value is not None and divisor.value is not None:
            return index(self.value // divisor.value)
        exact, rest = split_terms(self, divisor)
        if _within(rest, divisor):
            return exact
        head, tail, common = _steps(rest, divisor)
        if common > 1:
            return exact + head // (divisor.value // common)  # type: ignore[operator]
        return exact + atom(Quotient(rest, divisor))

    def __mod__(self, other: Index | int) -> Index:
        divisor = index(other)
        if self.value is not None and divisor.value is not None:
            return index(self.value % divisor.value)
        _, rest = split_terms(self, divisor)
        if _within(rest, divisor):
            return rest
        head, tail, common = _steps(rest, divisor)
        if common > 1:
            return head % (divisor.value // common) * common + tail  # type: ignore[operator]
        return atom(Remainder(rest, divisor))

    def atoms(self) -> Iterator[Atom]:
        """Every atom in it, also inside quotients."""
        for monomial in self.terms:
            for item in monomial:
                yield item
                for operand in item.operands():
                    yield from operand.atoms()

    def variables(self) -> set[Var]:
        return {item for item in self.atoms() if isinstance(item, Var)}

    def substitute(self, mapping: Mapping[Atom, Index]) -> Index:
        """The expression with atoms replaced, all at once."""
        if not any(item in mapping for item in self.atoms()):
            return self
        total = ZERO
        for monomial, coefficient in self.terms.items():
            product = index(coefficient)
            for item in monomial:
                product = product * (mapping[item] if item in mapping else item.substitute(mapping))
            total = total + product
        return total

    def coefficient(self, variable: Atom) -> Index | None:
        """The factor of a variable; None if the expression is not linear in it."""
        found: dict[Monomial, int] = {}
        for monomial, number in self.terms.items():
            if variable in monomial:
                rest = list(monomial)
                rest.remove(variable)
                if variable in rest:
                    return None
                monomial = tuple(rest)
                found[monomial] = number
            operands = (operand for item in monomial for operand in item.operands())
            if any(variable in set(operand.atoms()) for operand in operands):
                return None
        return Index(found)

    def bounds(self) -> tuple[Index, Index] | None:
        """Smallest and largest value over all values of the variables; None if it contains a
        computed subscript."""
        low = high = ZERO
        for monomial, coefficient in self.terms.items():
            most: Index = ONE
            for item in monomial:
                top = item.largest()
                if top is None:
                    return None
                most = most * top
            if all(isinstance(item, Sym) for item in monomial):
                low, high = low + most * coefficient, high + most * coefficient
            elif coefficient > 0:
                high = high + most * coefficient
            else:
                low = low + most * coefficient
        return low, high

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in sorted(
            self.terms.items(), key=lambda term: (-len(term[0]), [item.key for item in term[0]])
        ):
            factors = [str(item) for item in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"

    def __repr__(self) -> str:
        return f"Index({self})"


@lru_cache(4096)
def _number(value: int) -> Index:
    return Index({(): value} if value else {})


def index(value: Index | int) -> Index:
    """A number as an Index."""
    return value if isinstance(value, Index) else _number(int(value))


def atom(item: Atom) -> Index:
    return Index({(item,): 1})


def claim_bounds(expression: Index, size: Index) -> Index:
    """The expression, assumed to be at least 0 and below size."""
    return expression if _within(expression, size) else atom(ClaimedBounds(expression, size))


ZERO, ONE = index(0), index(1)


def product(sizes: Iterable[Index]) -> Index:
    total = ONE
    for size in sizes:
        total = total * size
    return total


def linear(variables: Sequence[Var]) -> Index:
    """The number of a loop point, counted in order."""
    total = Index({})
    for variable in variables:
        total = total * variable.size + atom(variable)
    return total


def unravel_index(variables: Sequence[Var], number: Index) -> dict[Atom, Index]:
    """The loop point with this number."""
    mapping: dict[Atom, Index] = {}
    step = Index({(): 1})
    for variable in reversed(variables):
        mapping[variable] = number // step % variable.size
        step = step * variable.size
    return mapping


def _add(terms: dict[Monomial, int], monomial: Monomial, coefficient: int) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    return tuple(sorted(left + right, key=lambda item: item.key))


def _recombine(terms: dict[Monomial, int]) -> dict[Monomial, int]:
    """c*n*(e // n) + c*(e % n) is c*e."""
    for monomial, coefficient in terms.items():
        for position, item in enumerate(monomial):
            if not isinstance(item, Remainder):
                continue
            others = monomial[:position] + monomial[position + 1 :]
            quotient = Quotient(item.numerator, item.divisor)
            scaled = Index({_product(others, (quotient,)): coefficient}) * item.divisor
            if all(terms.get(other) == number for other, number in scaled.terms.items()):
                rest = {
                    other: number
                    for other, number in terms.items()
                    if other != monomial and other not in scaled.terms
                }
                whole = Index({others: coefficient}) * item.numerator
                return dict((Index(rest) + whole).terms)
    return terms


def split_terms(numerator: Index, divisor: Index) -> tuple[Index, Index]:
    """Terms that the divisor divides, divided by it, and the others."""
    if len(divisor.terms) != 1:
        return (ONE, ZERO) if numerator == divisor else (ZERO, numerator)
    ((common, number),) = divisor.terms.items()
    exact: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in numerator.terms.items():
        remaining = list(monomial)
        for item in common:
            if item not in remaining:
                break
            remaining.remove(item)
        else:
            if coefficient % number == 0:
                exact[tuple(remaining)] = coefficient // number
                continue
        rest[monomial] = coefficient
    return Index(exact), Index(rest)


def with_longer_rows(place: Index, length: int, longer: Index) -> Index | None:
    """The position of an element of a matrix once its rows, of `length` elements, are longer; None
    where the position does not tell the row."""
    row, column = split_terms(place, index(length))
    return row * longer + column if _within(column, index(length)) else None


def _within(rest: Index, divisor: Index) -> bool:
    """Whether 0 <= rest < divisor, whatever the variables are."""
    if not rest.terms:
        return True
    bounds = rest.bounds()
    return bounds is not None and nonnegative(bounds[0]) and nonnegative(divisor - 1 - bounds[1])


def _steps(rest: Index, divisor: Index) -> tuple[Index, Index, int]:
    """Writes rest as common*head + tail with common dividing the divisor and 0 <= tail < common;
    common is 1 where that fails."""
    number = divisor.value
    if number is None:
        return rest, ZERO, 1
    ordered = sorted(rest.terms.items(), key=lambda term: -abs(term[1]))
    common = number
    for position, (_, coefficient) in enumerate(ordered):
        common = math.gcd(common, coefficient)
        if common == 1:
            break
        tail = Index(dict(ordered[position + 1 :]))
        if _within(tail, index(common)):
            return (
                Index({monomial: value // common for monomial, value in ordered[: position + 1]}),
                tail,
                common,
            )
    return rest, ZERO, 1


def nonnegative(expression: Index) -> bool:
    """Whether an expression of sizes alone is provably at least 0; sizes are at least 1."""
    if expression.value is not None:
        return expression.value >= 0
    if all(coefficient >= 0 for coefficient in expression.terms.values()):
        return True
    shifted = expression.substitute(
        {item: atom(item) + 1 for item in expression.atoms() if isinstance(item, Sym)}
    )
    return all(coefficient >= 0 for coefficient in shifted.terms.values())
