"""Compares a candidate's run with eager's. Layout and shared memory must be equal; numbers must be
equal, or about as close to a float64 calculation as eager's. Runs with rounded products that differ
are repeated with exact ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from ...records import record
from ..graph.product_precision import (
    exact_products,
    may_round_products_on,
    rounds_matrix_products,
)
from .trial import GRADIENT, INPUT, NUDGES, RunResult

SLACK = 3.0  # a candidate's error against float64 may be so many times eager's
ROUNDINGS = 8.0  # errors of so many roundings of the dtype, relative to the tensor, are ignored
# the same fraction of a rounding of the dtype with the fewest bits in the graph: where the graph
# casts to that dtype, the float64 run has rounded too
SHARED = 1 / 64
# tolerances where the graph cannot run in float64
TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
TF32 = 2e-3  # the tolerance for float32 where torch may round products to ten bits
# the largest error of eager against float64: if it is larger, the float64 run is not the same
# calculation
LIKELY = 3e-2
# the fraction of the largest gradient below which a gradient may be rounding only, as when a
# softmax cancels it; and that of the largest written input
FAINT = 1e-3
# A gradient that is below this fraction of a faint one in float64 is zero but for rounding. Eager's
# may then be exactly zero by chance, so its error does not say how large a candidate's may be.
VANISHING = 1e-9


@record
class MoreRuns:
    """Runs that are made where a candidate's differs from eager's. again: the candidate and eager
    once more. in_float64, nudged: eager in float64, and on inputs changed by so many roundings;
    None where there is no such run. coarsest: the dtype with the fewest bits that the graph
    computes in (autocast inside it included), used where float64 does not help."""

    again: Callable[[], tuple[RunResult, RunResult]]
    in_float64: Callable[[], RunResult | None]
    nudged: Callable[[int], RunResult | None]
    coarsest: Callable[[], torch.dtype | None]

    def without_gradients(self) -> MoreRuns:
        def run_both() -> tuple[RunResult, RunResult]:
            mine, eagers = self.again()
            return mine.without_gradients(), eagers.without_gradients()

        def drop(run: Callable[..., RunResult | None]) -> Callable[..., RunResult | None]:
            def run_without(*roundings: int) -> RunResult | None:
                ran = run(*roundings)
                return ran and ran.without_gradients()

            return run_without

        return MoreRuns(run_both, drop(self.in_float64), drop(self.nudged), self.coarsest)


def difference_in_any_precision(got: RunResult, wanted: RunResult, runs: MoreRuns) -> str:
    """Like `difference`. Where torch may round the operands of products, runs that differ are made
    once more with exact products. Those must agree, and rounding must not have moved the candidate
    much further than eager."""
    reference = cache(runs.in_float64)
    tensors = [item for _, item in wanted.tensors() if isinstance(item, torch.Tensor)]
    if not may_round_products_on({tensor.device.type for tensor in tensors}):
        return difference(got, wanted, reference, runs.coarsest, runs.nudged)
    if not difference(got, wanted, reference, runs.coarsest):
        return ""
    with exact_products():
        mine, eagers = runs.again()
        return difference(mine, eagers, reference, runs.coarsest, runs.nudged) or moved_by_rounding(
            got, wanted, eagers
        )


def moved_by_rounding(got: RunResult, wanted: RunResult, exact: RunResult) -> str:
    """What of a run with rounded products is further from eager's exact run than its
    ill-conditioned graph explains: three times as far as any of the tensors of eager's rounded
    run."""
    names, moves, eagers = [], [], [TF32 / SLACK]
    faint = faint_norms(got, wanted)
    for (name, one), (_, other), (_, best) in zip(
        got.tensors(), wanted.tensors(), exact.tensors(), strict=True
    ):
        if not isinstance(other, torch.Tensor) or same(one, other):
            continue
        if not torch.equal(one.isfinite(), other.isfinite()):
            return f"{name} is infinite or not a number elsewhere than eager's"
        kept = other.isfinite() & best.isfinite()
        one, other, best = (to_double(item.detach())[kept] for item in (one, other, best))
        least = faint.get(name.partition(" ")[0], 0.0)
        names.append(name)
        moves.append(error(one, best, least))
        eagers.append(error(other, best, least))
    furthest = max(eagers)
    for name, moved in zip(names, moves, strict=True):
        if moved > SLACK * furthest:
            return (
                f"{name} is {moved:.1e} away from eager's with exact products, "
                f"eager's at most {furthest:.1e}"
            )
    return ""


def difference(
    got: RunResult,
    wanted: RunResult,
    reference: Callable[[], RunResult | None],
    coarsest: Callable[[], torch.dtype | None] = lambda: None,
    nudged: Callable[[int], RunResult | None] = lambda _: None,
) -> str:
    """What differs in a way that matters; "" for nothing. The functions are those of MoreRuns, and
    called when first needed."""
    if len(got.results) != len(wanted.results):
        return f"{len(got.results)} results, eager has {len(wanted.results)}"
    if sharing(got) != sharing(wanted):
        return "its results share memory in another way than eager's"
    # once, also where there is none
    reference, nudged = cache(reference), cache(nudged)
    faint = cache(lambda: faint_norms(got, wanted))
    for position, ((name, one), (_, other)) in enumerate(
        zip(got.tensors(), wanted.tensors(), strict=True)
    ):
        said = layout_difference(one, other)
        if said:
            return f"{name} {said}"
        if not isinstance(other, torch.Tensor) or same(one, other):
            continue
        if not (other.is_floating_point() or other.is_complex()):
            return f"{name} has other numbers than eager's"
        best = tensor_of(reference(), position)
        least = faint().get(name.partition(" ")[0], 0.0)
        said = judge_numbers(one, other, best, least, coarsest)
        moved = (tensor_of(nudged(roundings), position) for roundings in NUDGES)
        if said and not any(moves_as_far(one, other, tensor, least) for tensor in moved):
            return f"{name} {said}"
    return ""


def tensor_of(run: RunResult | None, position: int) -> Any:
    return run.tensors()[position][1] if run is not None else None


def faint_norms(got: RunResult, wanted: RunResult) -> dict[str, float]:
    """The norm below which a gradient, or an input that was written, may be rounding only, by the
    first word of its name: a mean of centred numbers is small beside their variance."""
    gradients = (norm(tensor) for tensor in wanted.gradients if tensor is not None)
    inputs = (
        norm(other)
        for one, other in zip(got.inputs, wanted.inputs, strict=True)
        if isinstance(other, torch.Tensor) and other.is_floating_point() and not same(one, other)
    )
    return {
        GRADIENT: FAINT * max(gradients, default=0.0),
        INPUT: FAINT * max(inputs, default=0.0),
    }


def moves_as_far(one: torch.Tensor, other: torch.Tensor, nudged: Any, faint: float) -> bool:
    """Whether eager's own numbers move about as far from `other` when its inputs change by a few
    roundings. An element that crosses a threshold, as that of a ReLU, moves gradients at once."""
    if not isinstance(nudged, torch.Tensor):
        return False
    one, other, nudged = one.detach(), other.detach(), nudged.detach()
    kept = other.isfinite()
    if not all(torch.equal(item.isfinite(), kept) for item in (one, nudged)):
        return False
    one, other, nudged = (to_double(item)[kept] for item in (one, other, nudged))
    return error(one, other, faint) <= SLACK * error(nudged, other, faint)


def layout_difference(one: Any, other: Any) -> str:
    """How two results differ apart from their numbers."""
    if not isinstance(other, torch.Tensor):
        if type(one) is type(other) and (one is other or one == other):
            return ""
        return f"is {one!r}, eager's is {other!r}"
    if not isinstance(one, torch.Tensor):
        return f"is a {type(one).__name__}, eager's is a tensor"
    for what in ("dtype", "shape", "device"):
        if getattr(one, what) != getattr(other, what):
            return f"has {what} {getattr(one, what)}, eager's {getattr(other, what)}"
    strides = [
        (a, b)
        for a, b, size in zip(one.stride(), other.stride(), other.shape, strict=True)
        if size > 1
    ]
    if other.numel() and any(a != b for a, b in strides):
        return f"has strides {one.stride()}, eager's {other.stride()}"
    return ""


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other)


def judge_numbers(
    one: torch.Tensor,
    other: torch.Tensor,
    best: Any,
    faint: float,
    coarsest: Callable[[], torch.dtype | None] = lambda: None,
) -> str:
    """Whether numbers that differ from eager's are as good. faint: errors are relative to a norm of
    at least this."""
    one, other = one.detach(), other.detach()
    kept, dtype = other.isfinite(), other.dtype
    if not torch.equal(one.isfinite(), kept) or not torch.equal(one.isnan(), other.isnan()):
        return "is infinite or not a number elsewhere than eager's"
    best = best.detach() if isinstance(best, torch.Tensor) and best.shape == kept.shape else None
    if not kept.all():  # else selecting would copy everything
        one, other = one[kept], other[kept]
        best = best[kept] if best is not None else None
    one, other = to_double(one), to_double(other)
    tolerance = TOLERANCES.get(dtype.to_real(), TOLERANCES[torch.float32])
    if dtype.to_real() is torch.float32 and rounds_matrix_products():
        tolerance = TF32
    best = to_double(best) if best is not None else None
    eagers = error(other, best, faint) if best is not None else None
    if eagers is None or eagers > max(tolerance, LIKELY):
        away = error(one, other, faint)
        if away > tolerance:
            tolerance = max(tolerance, TOLERANCES.get(coarsest() or dtype, 0.0))
        return "" if away <= tolerance else f"is {away:.1e} away from eager's"
    ours = error(one, best, faint)
    rounding = torch.finfo(dtype).eps
    # the float64 run may have rounded as eager does
    if ours > SLACK * eagers + ROUNDINGS * rounding:
        asked = torch.finfo(coarsest() or dtype).eps
        rounding = asked if eagers < SHARED * asked else rounding
    if ours <= SLACK * eagers + ROUNDINGS * rounding:
        return ""
    # zero but for rounding, and the candidate's is a rounding of the largest gradient
    if norm(best) < VANISHING * faint and FAINT * ours <= ROUNDINGS * rounding:
        return ""
    return f"is {ours:.1e} away from float64's, eager's {eagers:.1e}"


def to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def norm(tensor: torch.Tensor) -> float:
    return to_double(tensor.detach()).norm().item()


def error(one: torch.Tensor, other: torch.Tensor, faint: float) -> float:
    """|one - other| / |other|, or over `faint` where that is more."""
    distance, scale = norm(one - other), max(norm(other), faint)
    return distance / scale if scale else distance


def sharing(ran: RunResult) -> list[int]:
    """The number of the first tensor on the same memory, for each result."""
    seen: dict[int, int] = {}
    found = []
    for number, item in enumerate([*ran.inputs, *ran.results]):
        if isinstance(item, torch.Tensor) and item.numel():
            found.append(seen.setdefault(item.untyped_storage().data_ptr(), number))
        else:
            found.append(-1)
    return found
