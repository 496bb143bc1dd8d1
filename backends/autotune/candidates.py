"""Which backends are tried on a graph, and which graphs are too small to try any."""

from __future__ import annotations

import torch
import torch.fx

from ...records import record
from ..cudagraphs.recordable import reason_not_recordable
from ..graph.fake_values import fake_of
from ..graph.gradient_history import wants_gradients
from ..graph.supported import device_types, reason_to_refuse
from ..registry import GRAPHED, Backend, check_backend, is_known, lookup
from .plan import TuningPlan

EAGER = "eager"
# candidates in the order of their compile times, since the time budget may end the trials
ALWAYS = ("cudagraphs", "native+cudagraphs", "native")
# the same with gradients, where aot_autograd takes most of the time of each: the best first
TRAINED = ("native+cudagraphs", "cudagraphs", "native")
IN_ANY_CASE = frozenset({"native"})  # tried even when the time is over: it seldom loses to eager
# additional candidates under max-autotune, which take long to compile
AT_MOST = ("inductor", "torchscript")
# candidates that tune their kernels under max-autotune: this takes seconds (torch's inductor:
# minutes)
TUNING = ("native+cudagraphs", "native")
# On a device, so few operations on tensors of so few bytes are done before the next kernel is
# launched: only recording them can win.
LITTLE = (8, 1 << 18)
# a graph is tiny up to so many operations on tensors of so many bytes
TINY = {"cpu": (3, 1 << 14), "cuda": (1, 1 << 20)}


@record
class Choice:
    """The backends to try besides eager, in order, and why others are not tried."""

    backends: tuple[Backend, ...]
    left_out: tuple[tuple[str, str], ...]


def choice(gm: torch.fx.GraphModule, plan: TuningPlan) -> Choice:
    """The backends to try on a graph. Raises ValueError for an unknown candidate."""
    wanted = plan.candidates
    if wanted is None:
        more = AT_MOST if plan.mode.startswith("max-autotune") else ()
        device = "cuda" in device_types(gm)
        usual: tuple[str, ...] = TRAINED if wants_gradients(gm) else ALWAYS
        if (
            device
            and plan.graphs_allowed
            and is_at_most(gm, *LITTLE)
            and not reason_not_recordable(gm)
        ):
            usual = ALWAYS[:1]
        wanted = tuple(
            name
            for name in (*usual, *more)
            if is_known(name.removesuffix(GRAPHED)) and (device or not records(name))
        )
    backends: list[Backend] = []
    left_out: list[tuple[str, str]] = []
    for name in wanted:
        if name == EAGER:
            continue
        check_backend(name)
        reason = reason_to_skip(name, gm, plan)
        if reason:
            left_out.append((name, reason))
        else:
            backends.append(lookup(name))
    return Choice(tuple(backends), tuple(left_out))


def reason_to_skip(name: str, gm: torch.fx.GraphModule, plan: TuningPlan) -> str:
    """Why a backend is not tried on a graph; "" if it is."""
    if records(name):
        if not plan.graphs_allowed:
            return "CUDA graphs are not asked for"
        if "cuda" not in device_types(gm):
            return "nothing of the graph is on a CUDA device"
        reason = reason_not_recordable(gm)
        if reason:
            return reason
    try:
        backend = lookup(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return reason_to_refuse(backend, gm)


def records(name: str) -> bool:
    """Whether a backend records CUDA graphs."""
    return name == "cudagraphs" or name.endswith(GRAPHED)


def without_recording(name: str) -> str:
    """The backend whose code a candidate records; "" for eager's."""
    return name.removesuffix(GRAPHED) if name.endswith(GRAPHED) else ""


def is_tiny(gm: torch.fx.GraphModule) -> bool:
    """Whether compiling a graph cannot pay."""
    kinds = device_types(gm)
    if len(kinds) != 1 or wants_gradients(gm):
        return False
    return is_at_most(gm, *TINY.get(next(iter(kinds)), (0, 0)))


def is_at_most(gm: torch.fx.GraphModule, calls: int, size: int) -> bool:
    """Whether a graph has at most so many operations, on tensors of at most so many bytes."""
    found = sum(node.op.startswith("call_") for node in gm.graph.nodes)
    return found <= calls and all(static_bytes(node) <= size for node in gm.graph.nodes)


def static_bytes(node: torch.fx.Node) -> int:
    """The size of a node's result at capture."""
    fake = fake_of(node)
    if not isinstance(fake, torch.Tensor):
        return 0
    if all(isinstance(size, int) for size in fake.shape):
        return int(fake.numel()) * fake.element_size()
    return 0
