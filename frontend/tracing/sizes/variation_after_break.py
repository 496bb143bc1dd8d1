"""After a break: the sizes and numbers in the state at the break that are known to vary. The first
capture of the code after the break makes them dynamic."""

from __future__ import annotations

import torch

from ....guards.source import (
    ArrayTensor,
    CalculatedNumber,
    CellContents,
    IteratorItem,
    SequenceItem,
    SlotSource,
    Source,
)
from ...pycode.instr import DecodedCode, Op
from ...pycode.liveness import loop_around
from ...pycode.resume import ResumePoint, SuspendedFrame
from ...values.base import LazyValue, Value
from ...values.constant import VaryingLiteral
from ...values.containers.builtin_container import BoundBuiltin
from ...values.containers.list import ListValue
from ...values.containers.sequence import Sequence
from ...values.functions.cell import CellValue
from ...values.functions.method import MethodValue
from ...values.iterators.iterator import (
    VARYING_COMPREHENSION,
    VARYING_LIST,
    VARYING_LOOP,
    Iterator,
)
from ...values.numpy.array import ArrayValue
from ...values.tensor.symbolic_number import VALUE_NEEDED
from ...values.tensor.tensor import TensorValue
from ..capture import Capture
from ..interpreter.outcome import BreakExit, BrokenFrame
from .variation import Beginnings, Variation

VARYING_LENGTHS = (VARYING_LOOP, VARYING_COMPREHENSION, VARYING_LIST)
# breaks that take a number from a tensor: it differs each time
NUMBERS = ("data-dependent-value", "data-dependent-branch")

# modules whose functions give another number each time
CLOCKS_AND_DICE = frozenset({"random", "time", "numpy.random.mtrand", "numpy.random._generator"})
STORES = frozenset({Op.STORE_FAST, Op.STORE_DEREF})


def pass_on_variation(
    variation: Variation, capture: Capture, frames: tuple[SuspendedFrame, ...]
) -> None:
    """Records in the variation of a continuation's site what varies in the state that it is given
    (see pycode/resume.py)."""
    exit_ = capture.exit
    if not isinstance(exit_, BreakExit):
        return
    found = capture.trace.symbols.variation
    for changed in capture.trace.effects.changed:
        if isinstance(changed, ListValue) and changed.source is not None and changed.added:
            found.expect_growth(CalculatedNumber(changed.source, len))
    known = found.by_beginning()
    root: Source = SlotSource(0, "state")
    for suspended, frame in zip(frames, exit_.frames, strict=False):
        values = state_values(suspended.point, frame)
        expect_carried_numbers(variation, suspended, frame, root)
        for index, value in enumerate(values):
            if value is not None:
                record_variation(variation, known, value, SequenceItem(root, index))
        if frame is exit_.frames[-1] and values:
            expect_varying_result(variation, exit_, frame, SequenceItem(root, len(values) - 1))
        root = SequenceItem(root, len(values))


def expect_carried_numbers(
    variation: Variation, suspended: SuspendedFrame, frame: BrokenFrame, root: Source
) -> None:
    """Records that variables whose state is at `root` differ in each iteration of the loop around
    the break."""
    carried = carried_slots(suspended.decoded, suspended.point.index, frame)
    for index, slot in enumerate(sorted(suspended.point.bound)):
        if slot in carried and is_number(frame.slots[slot]):
            variation.expect_number(SequenceItem(root, index))


def expect_varying_result(
    variation: Variation, exit_: BreakExit, frame: BrokenFrame, result: Source
) -> None:
    """Records that the result of the breaking statement, found at `result`, differs in each call if
    it is likely to."""
    if gives_varying_number(exit_, frame):
        variation.expect_number(result)
    if exit_.reason.detail in VARYING_LENGTHS:
        variation.expect_many(CalculatedNumber(result, len))
        variation.expect_number(IteratorItem(result, 0))
        variation.expect_dims(result, 1, [0])


def gives_varying_number(exit_: BreakExit, frame: BrokenFrame) -> bool:
    """Whether the result of a break, if it is a number, is likely to differ in each call."""
    if exit_.reason.reason.id in NUMBERS or exit_.reason.detail.endswith(VALUE_NEEDED):
        return True
    instr = frame.decoded.instrs[frame.index]
    if instr.op is not Op.CALL:
        return False
    under = len(frame.stack) - instr.arg[0]
    return any(
        home_of(value) in CLOCKS_AND_DICE for value in frame.stack[max(under - 2, 0) : under]
    )


def home_of(callee: Value) -> str:
    """The module of a callable, or of the object whose method it is."""
    if isinstance(callee, MethodValue | BoundBuiltin):
        return str(callee.receiver.python_type().__module__)
    found = callee.object if isinstance(callee, LazyValue) else getattr(callee, "real", None)
    return str(getattr(found, "__module__", ""))


def carried_slots(decoded: DecodedCode, index: int, frame: BrokenFrame) -> frozenset[int]:
    """The slots of variables whose numbers differ in the next iteration of the loop around a break:
    those that an iteration reads from the one before and binds anew (a sum, the best value so far),
    and those that a loop over enumerate() binds."""
    loop = loop_around(decoded, index)
    heads = [at for at in loop if decoded.instrs[at].op is Op.FOR_ITER]
    bound = {decoded.instrs[at].arg for at in loop if decoded.instrs[at].op in STORES}
    carried = bound & frozenset[int]().union(*(decoded.live_in[head] for head in heads))
    if any(is_enumerate(value) for value in frame.stack):
        carried |= {slot for head in heads for slot in unpacked_slots(decoded, head + 1)}
    return frozenset(carried)


def is_number(value: Value | None) -> bool:
    known = isinstance(value, LazyValue) or (value is not None and value.is_constant())
    return known and value is not None and value.python_type() in (int, float)


def is_enumerate(value: Value) -> bool:
    return isinstance(value, LazyValue | Iterator) and value.python_type() is enumerate


def unpacked_slots(decoded: DecodedCode, index: int) -> list[int]:
    """The slots of the variables to which the instruction at `index` unpacks a tuple."""
    instrs = decoded.instrs
    if instrs[index].op is not Op.UNPACK_SEQUENCE:
        return []
    stores = instrs[index + 1 : index + 1 + instrs[index].arg]
    return [instr.arg for instr in stores if instr.op in STORES]


def state_values(point: ResumePoint, frame: BrokenFrame) -> list[Value | None]:
    """The values of the items of a frame's state; None for results of the instruction."""
    stack = [
        frame.stack[position] if position < len(frame.stack) else None
        for position in range(len(point.stack))
    ]
    kept = [value for value, kind in zip(stack, point.stack, strict=True) if kind != "null"]
    return [*(frame.slots[slot] for slot in sorted(point.bound)), *kept]


def record_variation(
    variation: Variation,
    known: Beginnings,
    value: Value,
    path: Source,
    around: tuple[Value, ...] = (),
) -> None:
    """Records what varies in a value and in its parts. `around`: the values that contain it, since
    it may contain them."""
    if isinstance(value, ArrayValue) and not value.is_scalar:
        record_variation(variation, known, value.tensor, ArrayTensor(path))
    if isinstance(value, TensorValue):
        dims = [dim for dim, size in enumerate(value.fake.shape) if isinstance(size, torch.SymInt)]
        if dims:
            variation.expect_dims(path, value.fake.dim(), dims)
    elif isinstance(value, VaryingLiteral):
        variation.expect_number(path)
    elif (
        isinstance(value, Sequence)
        and value not in around
        and getattr(value, "unread", None) is None
    ):
        for index, item in enumerate(value.items):
            record_variation(variation, known, item, SequenceItem(path, index), (*around, value))
    elif isinstance(value, CellValue) and value.contents is not None:
        if value not in around:
            record_variation(variation, known, value.contents, CellContents(path), (*around, value))
    if value.source is not None:
        variation.known_below(known, value.source, path)
