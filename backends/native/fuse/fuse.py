"""Fusion: merges kernels of a program with their consumers, and kernels side by side that run in
the same loops."""

from __future__ import annotations

from collections.abc import Sequence, Set

import torch

from ..ir.patterns import Patterns
from ..ir.program import Bound, Call, Kernel, Pattern, Program, Step, reads, views_in, writes
from .merge import merge_or_inline, zip_kernels
from .places import leaves_gpu_idle, turns_windows
from .recompute import computed_by_its_only_reader, computed_by_one_reader, without_stores
from .simplify import simplify
from .split_loops import loop_to_split

MOST_BUFFERS = 24
MOST_NODES = 400
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
        self.split: dict[Pattern, bool] = {}  # whether a kernel becomes several loops
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
        self.compute_values_where_they_are_read()
        order = self.order_steps()
        for number in order:
            self.before[number] = self.ancestors(number)
        self.merge_neighbours()
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
        """Merges the kernel of step `first` into that of step `second`, its reader; returns whether
        it was possible, and notes the reason if not."""
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
            producer.kernel, consumer.kernel
        ):
            reason = "the few rows of the first one would leave most of the GPU idle"
        elif self.device_of(producer).type == "cuda" and turns_windows(
            producer.kernel, consumer.kernel
        ):
            reason = "the first one reads windows, and the second one stores in another order"
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
        todo = self.successors(second)
        while todo:
            other = todo.pop()
            mask = self.before[other]
            if mask & gone or mask | both != mask:
                self.before[other] = (mask | both) & ~gone
                todo += self.successors(other)

    def successors(self, number: int) -> list[int]:
        """The direct successors of a step, among those whose ancestors are known."""
        found = [
            other for name in writes(self.steps[number]) for other in self.readers.get(name, ())
        ]
        if number in self.effect_behind:
            found.append(self.effect_behind[number])
        return [other for other in found if other in self.before]

    # --- computed again ---

    def compute_values_where_they_are_read(self) -> None:
        """Removes stores of values that all their readers can compute themselves."""
        for name in list(self.readers):
            number, readers = self.producer.get(name), sorted(self.readers[name])
            if name in self.kept or number is None or not readers:
                continue
            producer = self.steps[number]
            made = self.computing(name, producer, readers) if isinstance(producer, Bound) else None
            if made is None:
                continue
            for reader, step in zip(readers, made, strict=True):
                self.replace(reader, step)
            self.remove_store(name, number)

    def computing(self, name: str, producer: Bound, readers: Sequence[int]) -> list[Bound] | None:
        """The readers of a buffer that a kernel stores, computing its values; None where not all
        can, or should."""
        made = []
        compute = computed_by_one_reader if len(readers) > 1 else computed_by_its_only_reader
        for step in map(self.steps.__getitem__, readers):
            if not isinstance(step, Bound) or not self.same_device(producer, step):
                return None
            alone = self.patterns.compute_once(compute, producer, step, about={name})
            if alone is None or too_large(alone):
                return None
            made.append(alone)
        return made

    def remove_store(self, name: str, number: int) -> None:
        """Removes a kernel's store to a buffer that nothing reads; the kernel, if it has no
        other."""
        kernel = self.steps[number]
        assert isinstance(kernel, Bound)
        del self.producer[name]
        if set(writes(kernel)) == {name}:
            for other in self.reads.pop(number):
                self.readers[other].discard(number)
            del self.steps[number]
        else:
            left = self.patterns.compute_once(without_stores, kernel, about={name})
            assert left is not None
            self.replace(number, left)

    # --- side by side ---

    def merge_neighbours(self) -> None:
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
                        and self.merge_side_by_side(first, second)
                    ):
                        break

    def merge_side_by_side(self, first: int, second: int) -> bool:
        """Merges two kernels that do not depend on each other, if possible; returns whether it
        did."""
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
        if self.device_of(step).type != "cpu":
            return False
        found = self.split.get(step.pattern)
        if found is None:
            found = self.split[step.pattern] = loop_to_split(step.pattern.kernel) is not None
        return found

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
    """Fuses a program's kernels and makes them simple; also returns, by pair of buffers, why a
    producer and a consumer were not merged."""
    fusion = Fusion(drop_unused(program))
    return fusion.run(), fusion.reasons


def drop_unused(program: Program) -> Program:
    """Removes steps without side effects whose results are not read."""
    needed = program.kept_buffers()
    steps: list[Step] = []
    for step in reversed(program.steps):
        if (isinstance(step, Call) and step.effect) or needed & set(writes(step)):
            needed |= reads(step)
            steps.append(step)
    program.steps = steps[::-1]
    return program


def too_large(bound: Bound) -> bool:
    return len(reads(bound)) + len(writes(bound)) > MOST_BUFFERS or bound.pattern.size > MOST_NODES
