"""Copies of functions made group by group, whole or up to a cut where they hand over their
state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from framejit.frontend.pycode.code_builder import CodeBuilder, Label, dummy_closure
from framejit.frontend.pycode.instr import DecodedCode
from framejit.frontend.pycode.resume import ResumePoint, resume_code

from .abstract_stack import Stack


class Nothing:
    def __repr__(self):
        return "<nothing>"


NOTHING = Nothing()  # an unbound slot, a NULL


class Copier:
    """Feeds a builder with copies of a function's groups, handlers included."""

    def __init__(self, decoded: DecodedCode, lifted: bool = False) -> None:
        self.decoded = decoded
        self.builder = CodeBuilder(decoded)
        if lifted:
            self.builder.load_lifted()
            self.builder.pop_top()
        self.labels: dict[int, Label] = {}

    def label(self, index: int) -> Label:
        return self.labels.setdefault(index, self.builder.label())

    def copy_all(self, cut: int = -1, hand_over: Callable[[], None] = lambda: None) -> None:
        decoded, b = self.decoded, self.builder
        starts = [
            i for i in range(decoded.start, len(decoded.instrs)) if decoded.instrs[i].starts_group
        ]
        for i, end in zip(starts, [*starts[1:], len(decoded.instrs)], strict=True):
            b.place_label(self.label(i))
            if i == cut:
                hand_over()
            target = max(instr.target for instr in decoded.instrs[i:end])
            jump = self.label(target) if target >= 0 else None
            handler = decoded.handlers[i]
            if handler is None:
                b.raw(decoded.instrs[i], jump)
            else:
                with b.protect(self.label(handler.target), handler.depth, handler.lasti):
                    b.raw(decoded.instrs[i], jump)

    def function_like(self, function: FunctionType) -> FunctionType:
        return function_with(self.builder.finish(), function, function.__closure__)


def function_with(code: CodeType, function: FunctionType, closure: Any) -> FunctionType:
    return FunctionType(code, function.__globals__, function.__name__, None, closure)


class HandedOver(Exception):
    """Never raised: marks the tuple a cut copy returns."""


def cut_copy(
    function: FunctionType, decoded: DecodedCode, cut: int, stack: Stack, arrival: int
) -> FunctionType:
    """A copy that at its n-th arrival at `cut` returns (HandedOver, slots, stack values), NOTHING
    where none is."""
    copier = Copier(decoded)
    b = copier.builder
    counter = [arrival]

    def due() -> bool:
        counter[0] -= 1
        return counter[0] == 0

    def hand_over() -> None:
        go_on = b.label()
        call(b, due)
        b.jump_if(False, go_on)
        b.load_const(HandedOver)
        result = b.temp()
        b.store_slot(result)
        kept = []
        for kind in reversed(stack):
            kept.append(b.temp())
            if kind == "exc":
                call(b, sys.exception)
                b.store_slot(kept[-1])
                b.pop_except()
            else:
                b.store_slot(kept[-1])
        b.load_slot(result)
        for slot in range(len(decoded.slots)):
            load_or_nothing(b, slot, 1 + slot)
        b.build_tuple(len(decoded.slots))
        for depth, slot in enumerate(reversed(kept)):
            load_or_nothing(b, slot, 2 + depth)
        b.build_tuple(len(kept))
        b.build_tuple(3)
        b.return_value()
        b.place_label(go_on)

    copier.copy_all(cut, hand_over)
    return copier.function_like(function)


def call(b: CodeBuilder, function: Callable[[], Any]) -> None:
    b.load_callee(function)
    b.call(0)


def load_or_nothing(b: CodeBuilder, slot: int, depth: int) -> None:
    """Push a local or NOTHING, `depth` items lying below."""
    unbound, done = b.label(), b.label()
    with b.protect(unbound, depth, False):
        b.load_slot(slot)
    b.jump(done)
    b.place_label(unbound)
    b.pop_top()
    b.load_const(NOTHING)
    b.place_label(done)


def resume(
    function: FunctionType,
    copied: CodeType,
    decoded: DecodedCode,
    cut: int,
    stack: Stack,
    state: Any,
) -> Any:
    """What the original does from `cut` on with what a cut copy handed over."""
    _, slots, items = state
    kinds, carried = [], []
    for kind, item in zip(stack, items, strict=True):
        if item is NOTHING:
            kinds.append("null")
            continue
        kinds.append(
            "value" if kind in ("maybe", "null") else kind
        )  # a copied LOAD_METHOD leaves function and self
        carried.append(original_index(item, copied, function.__code__) if kind == "lasti" else item)
    bound = frozenset(slot for slot, item in enumerate(slots) if item is not NOTHING)
    code = resume_code(decoded, ResumePoint(cut, tuple(kinds), bound))
    return function_with(code, function, dummy_closure(code))(
        (*(slots[slot] for slot in sorted(bound)), *carried)
    )


def original_index(lasti: int, copied: CodeType, original: CodeType) -> int:
    """The original's index of the instruction a copy has at `lasti`: the one with the same
    position."""
    position = list(copied.co_positions())[lasti]
    return list(original.co_positions()).index(position)
