"""Vertical fusion: merges a producer with its consumer, unless that would repeat expensive
computation.

Where a consumer reads an element that its producer writes at the same point of common loops, it
uses the value directly. The producer's loop indices follow from the address: element a of a buffer
with strides s_i and sizes n_i was stored at the point whose i-th index is (a // s_i) % n_i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

import torch

from ..ir.index import Atom, Hole, Index, Var, atom, linear, product, unravel_index
from ..ir.ir import (
    CAST,
    CONST,
    INDEX,
    LOAD,
    REDUCE,
    TRUE,
    Access,
    Bound,
    Call,
    Kernel,
    Program,
    Scalar,
    Step,
    Store,
    cast,
    loads,
    reads,
    rewrite,
    scattered_value,
    substitute,
    topological,
    views_in,
    writes,
)
from ..ir.ir import scalar as s
from ..ir.patterns import Patterns
from ..ir.scalar_ops import SCALAR_OPS
from .gather import fuse_gather
from .places import coordinates, is_dense, is_serial, leaves_gpu_idle, other_name
from .simplify import simplify
from .split_loops import loop_to_split

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
EXACT = frozenset({LOAD, CONST, INDEX, CAST})  # expressions with the same value everywhere
MOST_BUFFERS = 24
MOST_NODES = 400
CHEAP = 8  # cost up to which a value is recomputed rather than stored
# additions for each element that is read once: points that do not need the value may compute it too
MASKED = 48
SHORT = 1 << 14  # additions that cost less than another kernel launch
# distance in steps of the unfused program beyond which kernels are not merged: they would keep
# their operands and results in memory for long
NEAR = 64


class Fusion:
    """The steps of a program during fusion. `reasons`: why neighbours were not merged."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.patterns = Patterns()
        bound = (
            self.patterns.bind(step) if isinstance(step, Kernel) else step for step in program.steps
        )
        self.steps: dict[int, Step] = dict(enumerate(bound))
        self.kept = {
            view.buffer
            for view in views_in([program.outputs, [list(pair) for pair in program.writes]])
        }
        self.producer: dict[str, int] = {}
        self.readers: dict[str, set[int]] = {}
        self.reads: dict[int, Set[str]] = {}
        for number, step in self.steps.items():
            for name in writes(step):
                self.producer[name] = number
            self.index(number)
        effects = [
            number for number, step in self.steps.items() if isinstance(step, Call) and step.effect
        ]
        # steps with side effects (random numbers, for example) keep their order
        self.effect_before = dict(zip(effects[1:], effects, strict=False))
        self.effect_behind = dict(zip(effects, effects[1:], strict=False))
        self.before: dict[int, int] = {}  # ancestors, as bits
        self.reasons: dict[tuple[str, str], str] = {}

    def index(self, number: int) -> None:
        self.reads[number] = reads(self.steps[number])
        for name in self.reads[number]:
            self.readers.setdefault(name, set()).add(number)

    def ancestors(self, number: int) -> int:
        """A step's ancestors, where its parents' are known."""
        mask = 0
        for parent in self.parents(number):
            mask |= self.before[parent] | 1 << parent
        return mask

    def run(self) -> Program:
        for number in list(self.steps):
            self.before[number] = self.ancestors(number)
            if isinstance(self.steps[number], Bound):
                self.absorb(number)
        order = self.order_steps()
        for number in order:
            self.before[number] = self.ancestors(number)
        self.side_by_side()
        self.program.steps = [
            self.simplify_step(self.steps[number]) for number in self.order_steps()
        ]
        return self.program

    def simplify_step(self, step: Step) -> Step:
        simpler = self.patterns.compute_once(simplify, step) if isinstance(step, Bound) else None
        return step if simpler is None else simpler

    # --- one after the other ---

    def absorb(self, number: int) -> None:
        """Merges producers into a kernel as long as one fits."""
        refused: set[int] = set()
        while True:
            before = {
                self.producer[name] for name in self.reads[number] if name in self.producer
            } - refused
            if not before:
                return
            chosen = max(before)
            if not self.take(chosen, number):
                refused.add(chosen)

    def take(self, first: int, second: int) -> bool:
        producer, consumer = self.steps[first], self.steps[second]
        if not isinstance(producer, Bound) or not isinstance(consumer, Bound):
            return False
        others = {other for name in writes(producer) for other in self.readers.get(name, ())} - {
            first,
            second,
        }
        merged = None
        if any(self.before[second] >> other & 1 for other in others):
            reason = "another step must run in between"
        elif not self.same_device(producer, consumer):
            reason = "they run on different devices"
        elif self.has_parts(producer) and consumer.pattern.kernel.inner:
            reason = "the first one has a loop for each of its operands"
        elif self.device_of(producer).type == "cuda" and leaves_gpu_idle(
            producer.pattern.kernel, consumer.pattern.kernel
        ):
            reason = "the few rows of the first one would leave most of the GPU idle"
        else:
            needed = {
                name
                for name in writes(producer)
                if name in self.kept or self.readers.get(name, set()) - {second}
            }
            merged = self.patterns.compute_once(merge_or_inline, producer, consumer, about=needed)
            reason = "their loops do not match, or too much would be computed twice"
            if merged is not None and too_large(merged):
                merged, reason = None, "one kernel would be too large"
            if merged is not None and needed and set(writes(merged)) == set(writes(consumer)):
                self.replace(second, merged)  # buffers of the producer that other steps read
                self.before[second] = self.ancestors(second)
                return True
        if merged is None:
            self.reasons[writes(producer)[0], writes(consumer)[0]] = reason
            return False
        self.unite(first, second, merged)
        return True

    def replace(self, number: int, merged: Bound) -> None:
        for name in self.reads[number]:
            self.readers[name].discard(number)
        self.steps[number] = merged
        self.index(number)

    def unite(self, first: int, second: int, merged: Bound) -> None:
        """Replaces two steps by one kernel, under the second one's number."""
        for name in self.reads.pop(first):
            self.readers[name].discard(first)
        del self.steps[first]
        self.replace(second, merged)
        for name in writes(merged):
            self.producer[name] = second
        self.before[second] = both = (self.before.pop(first) | self.before[second]) & ~(1 << first)
        gone, both = 1 << first, both | 1 << second
        todo = self.behind(second)
        while todo:
            other = todo.pop()
            mask = self.before[other]
            if mask & gone or mask | both != mask:
                self.before[other] = (mask | both) & ~gone
                todo += self.behind(other)

    def behind(self, number: int) -> list[int]:
        """The direct successors of a step, among those whose ancestors are known."""
        found = [
            other for name in writes(self.steps[number]) for other in self.readers.get(name, ())
        ]
        if number in self.effect_behind:
            found.append(self.effect_behind[number])
        return [other for other in found if other in self.before]

    # --- side by side ---

    def side_by_side(self) -> None:
        """Merges kernels with the same loops that read the same memory."""
        for name in list(self.readers):
            group = sorted(
                number for number in self.readers[name] if isinstance(self.steps.get(number), Bound)
            )
            for position, second in enumerate(group):
                for first in group[:position]:
                    if (
                        second - first <= NEAR
                        and first in self.steps
                        and second in self.steps
                        and self.beside(first, second)
                    ):
                        break

    def beside(self, first: int, second: int) -> bool:
        left, right = self.steps[first], self.steps[second]
        assert isinstance(left, Bound) and isinstance(right, Bound)
        if (
            self.before[first] >> second & 1
            or self.before[second] >> first & 1
            or not self.same_device(left, right)
        ):
            return False
        merged = self.patterns.compute_once(zip_kernels, left, right)
        if merged is None or too_large(merged):
            return False
        self.unite(first, second, merged)
        return True

    def has_parts(self, step: Bound) -> bool:
        """Whether a kernel becomes several loops, which one that reduces could not."""
        return self.device_of(step).type == "cpu" and loop_to_split(step.pattern.kernel) is not None

    def device_of(self, step: Bound) -> torch.device:
        return self.program.buffers[writes(step)[0]].device

    def same_device(self, left: Bound, right: Bound) -> bool:
        return self.device_of(left) == self.device_of(right)

    def order_steps(self) -> list[int]:
        """Numbers of the steps in their order, except that a step's missing inputs come right
        before it: computing them earlier would hold memory."""
        done: set[int] = set()
        ordered: list[int] = []
        for number in sorted(self.steps):
            todo = [number]
            while todo:
                missing = self.parents(todo[-1]) - done if todo[-1] not in done else set()
                assert len(todo) <= len(self.steps), "steps depend on each other in a circle"
                if missing:
                    todo.append(min(missing))
                    continue
                last = todo.pop()
                if last not in done:
                    ordered.append(last)
                    done.add(last)
        return ordered

    def parents(self, number: int) -> set[int]:
        """The steps that must run before one."""
        found = {self.producer[name] for name in self.reads[number] if name in self.producer}
        return found | {self.effect_before[number]} if number in self.effect_before else found


def fuse(program: Program) -> tuple[Program, dict[tuple[str, str], str]]:
    """Fuses a program's kernels and makes them simple; with it, by pair of buffers, why a producer
    and a consumer stayed apart."""
    fusion = Fusion(drop_unused(program))
    return fusion.run(), fusion.reasons


def drop_unused(program: Program) -> Program:
    """Removes steps without side effects whose results are not read."""
    needed = {
        view.buffer for view in views_in([program.outputs, [list(pair) for pair in program.writes]])
    }
    steps: list[Step] = []
    for step in reversed(program.steps):
        if (isinstance(step, Call) and step.effect) or needed & set(writes(step)):
            needed |= reads(step)
            steps.append(step)
    program.steps = steps[::-1]
    return program


def too_large(bound: Bound) -> bool:
    return len(reads(bound)) + len(writes(bound)) > MOST_BUFFERS or bound.pattern.size > MOST_NODES


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
        return cast(node.args[0], node.dtype) if node.op == CAST else node

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
    return Kernel(outer, inner, (*kept, *stores), producer.origins + consumer.origins)


def common_loops(
    producer: Kernel, consumer: Kernel, stored: Mapping[str, Store], passed: Sequence[Access]
) -> tuple[tuple[Var, ...], tuple[Var, ...], dict[Atom, Index]] | None:
    """Common loops, and the producer's variables in terms of them; None where their points do not
    correspond."""
    by_row = [variable for variable in consumer.outer if variable.size != 1]
    along = [variable for variable in consumer.inner if variable.size != 1]
    every = by_row + along
    mapping, columns = points(producer, stored, passed)
    if mapping is None or not is_dense(
        linear(producer.outer).substitute(mapping), used_variables(mapping, every), producer.rows
    ):
        return None
    rows = used_variables(mapping, every)
    outer, inner = consumer.outer, consumer.inner
    if not producer.inner:
        return (outer, inner, mapping) if rows in (every, by_row) else None
    if columns is not None:
        used = used_variables(columns, every)
        if (
            set(used) & set(rows)
            or len(used) + len(rows) != len(every)
            or (inner and rows != by_row)
        ):
            return None
        if not is_dense(linear(producer.inner).substitute(columns), used, producer.columns):
            return None
        if not inner:
            outer, inner = tuple(rows), tuple(used)
        return None if is_serial(outer, inner) else (outer, inner, mapping | columns)
    if not inner and rows == by_row:
        inner = tuple(
            Var(other_name(variable.name, consumer), variable.size) for variable in producer.inner
        )
        return (
            outer,
            inner,
            mapping | {old: atom(new) for old, new in zip(producer.inner, inner, strict=True)},
        )
    if not inner:
        outer, inner = tuple(rows), tuple(variable for variable in by_row if variable not in rows)
    elif rows != by_row:
        return None
    if product([variable.size for variable in inner]) != producer.columns or is_serial(
        outer, inner
    ):
        return None
    return outer, inner, mapping | unravel_index(producer.inner, linear(inner))


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
    values: dict[tuple[Access, int], Scalar] = {}
    for node in passed:
        key = node.attr, id(node.args[0])
        if key in values:
            continue
        store = stored[node.attr.buffer]
        mapping = coordinates(store, producer.outer, node.attr.index)
        if mapping is None:
            return None
        values[key] = mask_loads(substitute([store.value], mapping)[0], node.args[0])
    by_id = {id(node): values[node.attr, id(node.args[0])] for node in passed}

    def change(node: Scalar) -> Scalar:
        if id(node) in by_id:
            return by_id[id(node)]
        return cast(node.args[0], node.dtype) if node.op == CAST else node

    stores = zip(consumer.stores, rewrite(consumer.roots(), change), strict=True)
    return replace(
        consumer,
        stores=tuple(Store(store.buffer, store.index, value) for store, value in stores),
        origins=producer.origins + consumer.origins,
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
    """For each stored buffer that is read, the cost of computing all that is read of it at a
    point."""
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
