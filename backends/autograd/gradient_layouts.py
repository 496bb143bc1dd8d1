"""Eager's strides for the gradients of a compiled graph.

A backward graph is compiled for incoming gradients with the strides of the results, using torch's
decompositions. Where incoming gradients have other strides, or a tensor is not contiguous, the
captured operators run once under eager's autograd to find the strides of the outgoing gradients: on
the tensors of this call if the graph allocates little, writes nothing and is on the CPU; else on
fake tensors, whose strides differ from real ones for a few operators. Gradients that have eager's
strides already, the usual case, are not copied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
import torch.fx
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ...records import record
from ..graph.collectives import is_on_distributed_tensors
from ..graph.fake_values import bytes_of, fake_tensors_of
from ..graph.mode_switches import ENTER_AUTOCAST
from ..graph.node_targets import is_foreign, is_users, name_of
from ..graph.random_states import random_states_kept
from ..graph.wrappers import is_wrapper
from .batched_backward import any_batched

MOST = 16  # combinations of incoming layouts that are examined for one graph
MOST_STRIDES = 256  # the same, where strides instead of dimension orders are compared
LITTLE = 32 * 2**20  # a graph that allocates at most so many bytes runs on real tensors

ATEN = torch.ops.aten
# Operators whose first result has other strides on fake tensors than on real ones, and the argument
# that determines its real layout (for a batch norm, its memory format).
LAID_OUT_LIKE = {
    ATEN.native_batch_norm_backward.default: 1,
    ATEN.cudnn_batch_norm_backward.default: 0,
    ATEN.hardswish_backward.default: 0,
    ATEN.hardtanh_backward.default: 0,
    ATEN.logit_backward.default: 0,
}


class RealLayouts(TorchDispatchMode):
    """Corrects the strides of fake results."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in LAID_OUT_LIKE:
            return made
        like = args[LAID_OUT_LIKE[func]]
        if isinstance(made, torch.Tensor):
            return torch.empty_like(like, dtype=made.dtype)
        if made[0] is None:
            return made
        form = suggest_memory_format(like)
        return (torch.empty_like(like, dtype=made[0].dtype, memory_format=form), *made[1:])


@record
class DimensionOrder:
    """`order`: dimensions of more than one element, by descending stride. `repeated`: dimensions of
    stride 0. `dense`: whether the others fill their memory without gaps."""

    order: tuple[int, ...]
    repeated: tuple[int, ...]
    dense: bool

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Strides of a dense tensor of `shape` in this order."""
        own = [0] * len(shape)
        step = 1
        for dim in reversed(self.order):
            own[dim] = step
            step *= shape[dim]
        short = set(range(len(shape))).difference(self.order, self.repeated)
        for dim in sorted(short, reverse=True):
            own[dim] = own[dim + 1] * shape[dim + 1] if dim + 1 < len(shape) else 1
        return own


def dimension_order(tensor: torch.Tensor) -> DimensionOrder:
    shape, strides = tensor.shape, tensor.stride()
    longer = [dim for dim, size in enumerate(shape) if size != 1]
    order = sorted((dim for dim in longer if strides[dim]), key=lambda dim: -strides[dim])
    step, dense = 1, True
    for dim in reversed(order):
        dense = dense and strides[dim] == step
        step *= shape[dim]
    return DimensionOrder(tuple(order), tuple(dim for dim in longer if not strides[dim]), dense)


class GradientLayouts:
    """The gradient layouts of one captured graph. wanted: positions of the inputs that get
    gradients. `other`: for each combination of incoming dimension orders, the inputs whose
    gradients have other strides in eager than in the compiled backward graph."""

    def __init__(self, gm: torch.fx.GraphModule, wanted: Sequence[int]) -> None:
        self.forward, self.wanted = gm.forward, tuple(wanted)
        self.other: dict[Any, Mapping[int, DimensionOrder]] = {}
        self.by_strides: dict[Any, Mapping[int, DimensionOrder]] = {}
        # an error while autocast is entered would leave it on
        self.open = not any(
            is_users(node)
            or is_foreign(node)
            or name_of(node) == ENTER_AUTOCAST
            or is_on_distributed_tensors(node)  # a second run would communicate
            for node in gm.graph.nodes
        )
        self.contiguous = False
        self.runs_for_real = (
            is_on_cpu_and_writes_nothing(gm) and sum(map(bytes_of, gm.graph.nodes)) <= LITTLE
        )

    def learn(self, results: Sequence[Any], args: Sequence[Any]) -> None:
        """Records the layouts of the graph's first call."""
        tensors = [*filter(torch.is_tensor, results), *(args[index] for index in self.wanted)]
        self.open = self.open and all(map(is_strided, tensors))
        self.contiguous = self.open and all(tensor.is_contiguous() for tensor in tensors)

    def lay_out_like_eager(
        self,
        came: Mapping[int, torch.Tensor],
        left: tuple[Any, ...],
        inputs: Sequence[int | None],
        args: Sequence[Any],
        own: Mapping[int, int],
    ) -> tuple[Any, ...]:
        """The gradients `left` with eager's strides. came: the incoming gradient of each output of
        the compiled node. inputs: the input of each outgoing gradient. own: for each output of the
        node, the graph's result that it is."""
        if self.contiguous and are_contiguous_or_one_number(came):
            return left
        if not self.open or not all(map(is_strided, came.values())):
            return left
        key = tuple([(number, given.shape, given.stride()) for number, given in came.items()])
        other = self.by_strides.get(key)
        if other is None:
            if not own.keys() >= came.keys() or any_batched(came.values()):
                return left
            by_result = {own[number]: given for number, given in came.items()}
            other = self.find(by_result, left, inputs, args)
            if len(self.by_strides) < MOST_STRIDES:
                self.by_strides[key] = other
        if not other:
            return left
        return tuple(
            with_layout(gradient, other[index])
            if index is not None and index in other
            else gradient
            for index, gradient in zip(inputs, left, strict=True)
        )

    def find(
        self,
        came: Mapping[int, torch.Tensor],
        left: tuple[Any, ...],
        inputs: Sequence[int | None],
        args: Sequence[Any],
    ) -> Mapping[int, DimensionOrder]:
        """Finds the gradients that need other strides. came: the gradient of each result."""
        key = tuple((number, dimension_order(given)) for number, given in came.items())
        if key not in self.other:
            if len(self.other) >= MOST:
                return {}
            wanted = self.in_eager(came, args)
            self.other[key] = {
                index: wanted[index]
                for index, gradient in zip(inputs, left, strict=True)
                if index is not None
                and index in wanted
                and can_be_laid_out(gradient)
                and dimension_order(gradient) != wanted[index]
            }
        return self.other[key]

    def in_eager(
        self, came: Mapping[int, torch.Tensor], args: Sequence[Any]
    ) -> dict[int, DimensionOrder]:
        """The layout of each input's gradient in eager. Gradients with gaps in memory are left
        out."""
        real = [arg.detach() if torch.is_tensor(arg) else arg for arg in args]
        gradients: Sequence[torch.Tensor | None] = ()
        if self.runs_for_real:
            # unless the program has changed a saved value since
            with random_states_kept(real), contextlib.suppress(Exception):
                gradients = self.run(real, came)
        if not gradients:
            try:
                with FakeTensorMode(allow_non_fake_inputs=True) as mode, RealLayouts():
                    given = [mode.from_tensor(arg) if torch.is_tensor(arg) else arg for arg in real]
                    fakes = {number: mode.from_tensor(item) for number, item in came.items()}
                    gradients = self.run(given, fakes)
            except Exception:  # operators that cannot run on fake tensors keep the compiled layout
                return {}
        found = {
            index: dimension_order(gradient)
            for index, gradient in zip(self.wanted, gradients, strict=True)
            if gradient is not None and is_strided(gradient)
        }
        return {index: order for index, order in found.items() if order.dense}

    def run(
        self, given: list[Any], came: Mapping[int, torch.Tensor]
    ) -> Sequence[torch.Tensor | None]:
        """The gradients of the captured operators under eager's autograd."""
        with torch.enable_grad():
            starts = [given[index].requires_grad_() for index in self.wanted]
            for index, start in zip(self.wanted, starts, strict=True):
                given[index] = ATEN.alias.default(start)  # a leaf may not be written to
            made = self.forward(*given)
            ends = [made[number] for number in came]
            return torch.autograd.grad(ends, starts, list(came.values()), allow_unused=True)


def is_on_cpu_and_writes_nothing(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph can run again without visible effects: all its tensors are on the CPU, and it
    writes to no input."""
    written = any(node.meta.get("mutated") for node in gm.graph.find_nodes(op="placeholder"))
    tensors = chain.from_iterable(map(fake_tensors_of, gm.graph.nodes))
    return not written and all(fake.device.type == "cpu" for fake in tensors)


def are_contiguous_or_one_number(came: Mapping[int, torch.Tensor]) -> bool:
    """Whether each gradient is contiguous, or one number that is repeated, as that of sum() is."""
    for given in came.values():
        if given.layout != torch.strided:
            return False
        if not given.is_contiguous() and any(given.stride()):
            return False
    return True


def is_strided(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided


def can_be_laid_out(gradient: Any) -> bool:
    return (type(gradient) is torch.Tensor or is_wrapper(type(gradient))) and is_strided(gradient)


def with_layout(gradient: Any, wanted: DimensionOrder) -> Any:
    """The gradient with another layout."""
    if not can_be_laid_out(gradient):
        return gradient
    shape = gradient.shape
    if any(dim >= len(shape) for dim in (*wanted.order, *wanted.repeated)):
        return gradient  # the leaf has got other dimensions since
    if is_wrapper(type(gradient)):
        return wrapper_laid_out(gradient, wanted)
    for dim in wanted.repeated:  # its elements are equal along this dimension
        gradient = gradient.narrow(dim, 0, min(1, shape[dim]))
    strides = wanted.strides(gradient.shape)
    made = torch.empty_strided(
        gradient.shape, strides, dtype=gradient.dtype, device=gradient.device
    )
    return made.copy_(gradient).expand(shape)


def wrapper_laid_out(gradient: Any, wanted: DimensionOrder) -> Any:
    """The same by operators of a wrapper's class; the gradient as it is where it has not got
    them."""
    shape = gradient.shape
    order = list(wanted.order)
    for dim in sorted(set(range(len(shape))).difference(order), reverse=True):
        order.insert(order.index(dim + 1) if dim + 1 in order else len(order), dim)
    back = [order.index(dim) for dim in range(len(shape))]
    made = gradient
    with contextlib.suppress(Exception):
        for dim in wanted.repeated:  # its elements are equal along this dimension
            made = made.narrow(dim, 0, min(1, shape[dim]))
        dense = made.permute(order).clone(memory_format=torch.contiguous_format)
        return dense.permute(back).expand(shape)
    return gradient
