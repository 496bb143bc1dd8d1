"""torch's operator database through compiled code: every operator's first samples, values and
gradients against eager.

In: OpInfos. Out: one Row an operator and a setting - captured in one graph or why not, and what
differed from eager. The whole database takes minutes: `python tests/frontend/opdb/sweep.py
[--update] [name ...]`; CI runs a slice (test_opdb.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import framejit
import torch
from framejit import events
from framejit.backends.graph.node_targets import target_name
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

if __package__:
    from . import wrapped_samples
else:  # run as a script
    import wrapped_samples  # type: ignore[import-not-found, no-redef]

# Each sample looks through the stack for a test of unittest, and reads the source of each file there.
common_utils.extract_test_fn = lambda: None
SAMPLES = 3
# backend, whether gradients are taken, and whether sizes and numbers are symbols from the first
# call
SETTINGS = (
    "eager",
    "aot_eager",
    "native",
    "eager+grad",
    "aot_eager+grad",
    "native+grad",
    "eager+dynamic",
    "aot_eager+grad+dynamic",
)
TORCH_COMPILE = (
    "torch.compile"  # the peer of `eager`: it is only counted, and only where it is asked for
)
# inputs laid out otherwise than the database does; counted where it is asked for
LAID_OUT = tuple(
    f"{backend}+{layout}"
    for backend in ("native", "aot_eager+grad", "native+grad")
    for layout in ("transposed", "channels_last")
)
# inputs that are wrapper subclasses; counted where it is asked for
WRAPPED = tuple(
    f"{backend}+{word}"
    for word in wrapped_samples.WRAPPERS
    for backend in ("eager", "native", "eager+grad", "native+grad")
)
# inputs on a GPU; counted where it is asked for
ON_GPU = ("eager+cuda", "native+cuda", "aot_eager+grad+cuda", "native+grad+cuda")
PEERS = (TORCH_COMPILE, f"{TORCH_COMPILE}+grad")
TOLERANCE = {
    "native": 5e-5
}  # relative and absolute, where sums run in another order than eager's; others 1e-5
OPEN = Path(__file__).with_name(
    "not_captured.json"
)  # by setting: operators of which a sample is not one graph


@dataclass
class Row:
    """What became of one operator in one setting. `captured`: each sample was one graph. `reason`:
    why not. `difference`: how a result differed from eager, None where all were equal. `raised`:
    of how many samples eager raises."""

    name: str
    setting: str
    samples: int
    captured: bool
    reason: str | None
    difference: str | None
    seconds: float
    raised: int = 0


def operators() -> dict[str, OpInfo]:
    """The operators of the database that take float32, by name."""
    return {
        op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op
        for op in op_db
        if torch.float32 in op.dtypes
    }


def applies(op: OpInfo, setting: str) -> bool:
    asked = setting.split("+")
    if "cuda" in asked and torch.float32 not in op.supported_dtypes("cuda"):
        return False
    return "grad" not in asked or op.supports_autograd


def samples(op: OpInfo, grad: bool, layout: str = "", device: str = "cpu") -> list[SampleInput]:
    """The first samples, made anew and always the same. An operator without samples has an empty
    list."""
    torch.manual_seed(0)
    made: Iterator[SampleInput] = op.sample_inputs(device, torch.float32, requires_grad=grad)
    given = [sample for _, sample in zip(range(SAMPLES), made, strict=False)]
    return (
        [sample.transform(lambda item: laid_out(item, layout)) for sample in given]
        if layout
        else given
    )


def laid_out(item: Any, layout: str) -> Any:
    """A tensor with other strides: channels-last where it has four dimensions or five, else, or for
    "transposed", the last two swapped. Or a wrapper of a tensor."""
    if layout in wrapped_samples.WRAPPERS:
        return wrapped_samples.wrap(item, layout) if isinstance(item, torch.Tensor) else item
    if (
        not isinstance(item, torch.Tensor)
        or item.layout is not torch.strided
        or item.dim() < 2
        or not item.is_contiguous()
    ):
        return item
    if layout == "channels_last" and item.dim() in (4, 5):
        made = item.detach().clone(
            memory_format=torch.channels_last if item.dim() == 4 else torch.channels_last_3d
        )
    else:
        made = item.detach().mT.contiguous().mT
    return made.requires_grad_(item.requires_grad)


@dataclass
class Result:
    """Outputs, inputs afterwards, and gradients of one run; or the exception."""

    output: Any = None
    inputs: Any = None
    grads: list[torch.Tensor | None] | None = None
    error: BaseException | None = None


def run(function: Callable[..., Any], sample: SampleInput, grad: bool) -> Result:
    arguments = [sample.input, sample.args, sample.kwargs]
    result = Result(inputs=arguments)
    torch.manual_seed(1)
    try:
        result.output = function(*arguments)
        if grad:
            result.grads = gradients(result.output, arguments)
    except Exception as error:
        result.error = error
    return result


def run_compiled(
    function: Callable[..., Any],
    sample: SampleInput,
    grad: bool,
    backend: str,
    dynamic: bool | None,
) -> tuple[Result, list[Any]]:
    """The result of a first call, and the events of its compilation."""
    with framejit.config.patch(strict=True):
        handle = framejit.compile(function, backend=backend, dynamic=dynamic)
    recorder = events.Recorder()
    handle.framejit.cache.sinks.append(recorder)
    return run(handle, sample, grad), recorder.events


def gradients(output: Any, arguments: Any) -> list[torch.Tensor | None] | None:
    """Gradients of a weighted sum of all outputs; None where there is nothing to differentiate."""
    leaves = [
        t
        for t in pytree.tree_leaves(arguments)
        if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf
    ]
    outputs = [
        t for t in pytree.tree_leaves(output) if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    if not leaves or not outputs:
        return None
    weights = [
        wrapped_samples.wrap_like(
            torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape).to(t.dtype), t
        )
        for t in outputs
    ]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def difference(left: Result, right: Result, repeat: Result, tolerance: float) -> str | None:
    """How `right` (compiled) differs from `left` (eager); numbers in which eager differs from
    itself do not count."""
    if left.error is not None or right.error is not None:
        if type(left.error) is not type(right.error) or str(left.error) != str(right.error):
            return f"raised {left.error!r} in eager, {right.error!r} compiled"
        return None
    for what in ("output", "inputs", "grads"):
        mine, spec = pytree.tree_flatten(getattr(left, what))
        yours, other = pytree.tree_flatten(getattr(right, what))
        again = pytree.tree_leaves(getattr(repeat, what))
        if spec != other:
            return f"{what}: {spec} in eager, {other} compiled"
        for index, (a, b, c) in enumerate(zip(mine, yours, again, strict=True)):
            told = leaf_difference(a, b, c, tolerance)
            if told is not None:
                return f"{what}[{index}]: {told}"
    return None


def same_numbers(plain: Result, wrapped: Result, tolerance: float) -> bool:
    """Whether results on plain tensors and on wrappers have the same numbers."""
    mine, yours = (
        [
            wrapped_samples.unwrap(leaf).detach()
            for leaf in pytree.tree_leaves((result.output, result.inputs, result.grads))
            if isinstance(leaf, torch.Tensor)
        ]
        for result in (plain, wrapped)
    )
    return len(mine) == len(yours) and all(map(partial(close, tolerance=tolerance), mine, yours))


def leaf_difference(a: Any, b: Any, again: Any, tolerance: float) -> str | None:
    if type(a) is not type(b):
        return f"{type(a).__name__} in eager, {type(b).__name__} compiled"
    if not isinstance(a, torch.Tensor):
        return None if a == b or a != again or a != a else f"{a!r} in eager, {b!r} compiled"
    for fact in ("dtype", "shape", "layout", "requires_grad", "is_leaf"):
        if getattr(a, fact) != getattr(b, fact):
            return f"{fact} {getattr(a, fact)} in eager, {getattr(b, fact)} compiled"
    if wrapped_samples.placements(a) != wrapped_samples.placements(b):
        return f"{a} in eager, {b} compiled"
    a, b, again = map(wrapped_samples.unwrap, (a, b, again))
    if a.layout is torch.strided and a.numel() and strides(a) != strides(b):
        return f"stride {a.stride()} in eager, {b.stride()} compiled"
    a, b, again = (
        t.detach().to_dense() if t.layout is not torch.strided else t.detach()
        for t in (a, b, again)
    )
    if not close(a, again, tolerance):
        return None  # its numbers are not reproducible
    if close(a, b, tolerance):
        return None
    return f"numbers differ by up to {(a.double() - b.double()).abs().max() if a.dtype.is_floating_point else '?'}"


def strides(tensor: torch.Tensor) -> list[int]:
    """The strides of the dimensions of several elements. That of a single element moves nothing:
    the gradient of a padded row of three is (6, 1) in eager, a part of the padded one's, and may be
    (3, 1)."""
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in sides if size > 1]


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    try:
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError:
        return False
    return True


def measure(name: str, op: OpInfo, setting: str) -> Row:
    """Runs the samples of one operator in one setting."""
    backend, *asked = setting.split("+")
    grad, dynamic = "grad" in asked, "dynamic" in asked or None
    device = "cuda" if "cuda" in asked else "cpu"
    layout = next((word for word in asked if word not in ("grad", "dynamic", "cuda")), "")
    started = time.perf_counter()
    called = op.op

    def call(first: Any, args: Any, kwargs: Any) -> Any:
        return called(first, *args, **kwargs)

    reason = told = None
    raised, tolerance = 0, TOLERANCE.get(backend, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager, repeat, compiled = (samples(op, grad, layout, device) for _ in range(3))
        if backend == TORCH_COMPILE:
            for index, (one, two) in enumerate(zip(eager, compiled, strict=True)):
                if run(call, one, grad).error is None:
                    reason = reason or prefixed(index, why_not_captured_by_torch(call, two, grad))
            return Row(
                name,
                setting,
                len(eager),
                reason is None,
                reason,
                None,
                round(time.perf_counter() - started, 3),
            )
        for index, (one, two, three) in enumerate(zip(eager, repeat, compiled, strict=True)):
            left, again = run(call, one, grad), run(call, two, grad)
            right, seen = run_compiled(call, three, grad, backend, dynamic)
            raised += left.error is not None
            differs = difference(left, right, again, tolerance)
            other = None
            if layout in wrapped_samples.WRAPPERS and left.error is None:
                plain, seen_plain = run_compiled(
                    call, samples(op, grad)[index], grad, backend, dynamic
                )
                other = operations(seen) != operations(seen_plain) and "other operations"
                if (
                    differs
                    and "numbers differ" in differs
                    and same_numbers(plain, right, tolerance)
                ):
                    differs = None  # eager's wrapper has lost the mark of a lazy conjugation
            told = told or prefixed(index, differs)
            if left.error is None:
                reason = reason or prefixed(index, why_not_captured(seen) or other or None)
    if told and "numbers differ" in told and "empty" in name:
        told = None  # their numbers are whatever lies in memory
    return Row(
        name,
        setting,
        len(eager),
        reason is None,
        reason,
        told,
        round(time.perf_counter() - started, 3),
        raised,
    )


def prefixed(sample: int, told: str | None) -> str | None:
    return told and f"sample {sample}: {told}"


def why_not_captured(seen: list[Any]) -> str | None:
    """None when a call became one graph and nothing else."""
    for event in seen:
        if isinstance(event, events.Break):
            return f"{event.reason_id}: {event.sentence}"
        if isinstance(event, events.Skipped):
            return f"left to Python: {event.reason}"
    graphs = [
        event for event in seen if isinstance(event, events.Captured) and event.graph is not None
    ]
    return None if len(graphs) == 1 else f"{len(graphs)} graphs"


def operations(seen: list[Any]) -> list[tuple[str, str]]:
    """The operations of the captured graphs, without the numbers of generators."""
    return [
        (node.op, target_name(node.target).rstrip("0123456789"))
        for event in seen
        if isinstance(event, events.Captured) and event.graph is not None
        for node in event.graph.nodes
    ]


def why_not_captured_by_torch(
    function: Callable[..., Any], sample: SampleInput, grad: bool
) -> str | None:
    """None when torch.compile makes one graph of a call, and nothing else."""
    graphs = []

    def count(gm: Any, example_inputs: Any) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    torch.compiler.reset()
    error = run(torch.compile(function, backend=count, fullgraph=True), sample, grad).error
    if error is not None:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return None if len(graphs) == 1 else f"{len(graphs)} graphs"


def known_open() -> dict[str, list[str]]:
    return json.loads(OPEN.read_text())


def table(rows: list[Row]) -> str:
    """Counts by setting."""
    lines = [
        "| setting | operators | in one graph | differ from eager | seconds |",
        "|--|--|--|--|--|",
    ]
    for setting in (*SETTINGS, *LAID_OUT, *WRAPPED, *PEERS):
        mine = [row for row in rows if row.setting == setting]
        if not mine:
            continue
        captured, differ = (
            sum(row.captured for row in mine),
            sum(row.difference is not None for row in mine),
        )
        lines.append(
            f"| {setting} | {len(mine)} | {captured} | {differ} | {sum(row.seconds for row in mine):.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operators; none: all")
    parser.add_argument(
        "--settings",
        nargs="*",
        default=SETTINGS,
        choices=(*SETTINGS, *LAID_OUT, *WRAPPED, *ON_GPU, *PEERS),
    )
    parser.add_argument("--out", type=Path, help="a file for the rows, one JSON object a line")
    parser.add_argument(
        "--resume", action="store_true", help="keep the rows that the file has already"
    )
    parser.add_argument(
        "--update", action="store_true", help=f"write {OPEN.name} anew (with all operators)"
    )
    chosen = parser.parse_args()
    kept = chosen.out.read_text().splitlines() if chosen.resume and chosen.out.exists() else []
    rows = [Row(**json.loads(line)) for line in kept]
    done = {(row.name, row.setting) for row in rows}
    sink = chosen.out.open("a" if chosen.resume else "w") if chosen.out else None
    for name, op in operators().items():
        if chosen.names and name not in chosen.names and op.name not in chosen.names:
            continue
        for setting in chosen.settings:
            if not applies(op, setting) or (name, setting) in done:
                continue
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # eager's are exact
                row = measure(name, op, setting)
            rows.append(row)
            if sink:
                print(json.dumps(asdict(row)), file=sink, flush=True)
            if row.difference or row.reason:
                print(f"{name} [{setting}]: {row.difference or ''} {row.reason or ''}", flush=True)
    print(table(rows))
    if chosen.update and not chosen.names:
        missed = {
            setting: sorted(row.name for row in rows if row.setting == setting and not row.captured)
            for setting in SETTINGS
        }
        OPEN.write_text(json.dumps(missed, indent=1) + "\n")
    return 1 if any(row.difference for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
