"""Launches the kernels of attention. They are compiled when they are first needed, for the
properties of the tensors (TensorLayout) that occur.

In: the tensors of a call. Out: results, and gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ....records import record
from ..printers.products import precision
from ..toolchain.load_triton import Job, KernelLoader
from .attention_call import AttentionCall
from .kernels import TENSORS, TensorLayout, print_job, tables_of, tensor_names
from .sides import BACKWARD_KEYS, BACKWARD_QUERIES, FORWARD, TileSides, choose_sides

UNITS = (16, 8, 1)
MOST = 1 << 31  # of 32-bit numbers

Tensors = Mapping[str, torch.Tensor]
CompiledKernel = Callable[..., None]  # programs, stream, arguments
Load = Callable[[Sequence[Job], torch.device], Sequence[CompiledKernel]]


def load_kernels(jobs: Sequence[Job], device: torch.device) -> list[CompiledKernel]:
    """The jobs' kernels, compiled in parallel."""
    kernels = KernelLoader(jobs, device.index or 0).kernels()
    return [kernels[job] for job in jobs]


@record
class AttentionLaunch:
    """A kernel, of how many programs, the names of the tensors that it gets, and its numbers."""

    kernel: CompiledKernel
    programs: int
    tensors: tuple[str, ...]
    numbers: tuple[int, ...]


class AttentionKernels:
    """Launches the kernels of a call of flex_attention. load: compiles them."""

    def __init__(self, attention: AttentionCall, load: Load = load_kernels) -> None:
        self.attention, self.load = attention, load
        self.launches: dict[
            Any, list[AttentionLaunch]
        ] = {}  # by kernels, and sizes and strides of tensors

    def __reduce__(self) -> Any:
        """In another process, kernels are loaded anew."""
        return type(self), (self.attention,)

    def forward(self, given: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The result, the logarithms of the sums of each row's exponentials, and its largest score,
        both as powers of two, in float32."""
        query = given["query"]
        result = empty_like(query, (*query.shape[:3], self.attention.depth))
        sums, tops = (query.new_empty(query.shape[:3], dtype=torch.float32) for _ in range(2))
        self.run((FORWARD,), {**given, "result": result, "sums": sums, "tops": tops})
        return result, sums, tops

    def backward(
        self,
        given: Tensors,
        gradient: torch.Tensor,
        sums_gradient: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The gradients of query, key and value. given: with `result` and `sums`, of which these
        are the gradients."""
        query, key, value = (
            empty_like(given[name], given[name].shape) for name in ("query", "key", "value")
        )
        tensors = {
            **given,
            "gradient": gradient if is_in_reach(gradient) else gradient.contiguous(),
            "sums_gradient": sums_gradient.contiguous(),
            "commons": torch.empty_like(given["sums"]),
            "query_gradient": query,
            "key_gradient": key,
            "value_gradient": value,
        }
        self.run((BACKWARD_QUERIES, BACKWARD_KEYS), tensors)
        return query, key, value

    def run(self, kernels: tuple[str, ...], tensors: Tensors) -> None:
        """Launches kernels one after the other."""
        strided = [tensors[name] for kernel in kernels for name in TENSORS[kernel]]
        described = [(tensor.shape, tensor.stride()) for tensor in strided]
        key = kernels, precision(self.attention.dtype), *described
        if key not in self.launches:
            self.launches[key] = self.prepare(kernels, tensors)
        device = tensors["query"].device
        stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
        for one in self.launches[key]:
            arguments = [tensors[name] for name in one.tensors]
            one.kernel(one.programs, stream, *arguments, *one.numbers)

    def prepare(self, kernels: Sequence[str], tensors: Tensors) -> list[AttentionLaunch]:
        """The kernels, compiled for tensors of these sizes and strides."""
        layout = self.layout_of(kernels, tensors)
        sides = [choose_sides(kernel, self.attention) for kernel in kernels]
        jobs = [
            print_job(kernel, self.attention, layout, one)
            for kernel, one in zip(kernels, sides, strict=True)
        ]
        launches = []
        loaded = self.load(jobs, tensors["query"].device)
        for kernel, one, compiled in zip(kernels, sides, loaded, strict=True):
            strides = strides_of([tensors[name] for name in TENSORS[kernel]])
            count, sizes = self.sizes_of(kernel, tensors, one)
            numbers = (*sizes, *(stride // layout.unit for stride in strides))
            launches.append(
                AttentionLaunch(compiled, count, tensor_names(kernel, self.attention), numbers)
            )
        return launches

    def layout_of(self, kernels: Sequence[str], tensors: Tensors) -> TensorLayout:
        attention = self.attention
        sides = [choose_sides(kernel, attention) for kernel in kernels]
        queries, keys = tensors["query"].shape[2], tensors["key"].shape[2]
        names = {name for kernel in kernels for name in TENSORS[kernel]}
        strides = strides_of([tensors[name] for name in names])
        return TensorLayout(
            next(unit for unit in UNITS if all(stride % unit == 0 for stride in strides)),
            all(fills(queries, attention.query_side, one.rows) for one in sides),
            all(fills(keys, attention.key_side, one.columns) for one in sides),
            attention.query_side >= queries,
            attention.key_side >= keys,
            precision(attention.dtype),
        )

    def sizes_of(
        self, kernel: str, tensors: Tensors, sides: TileSides
    ) -> tuple[int, tuple[int, ...]]:
        """How many programs a kernel takes, and its arguments SIZES."""
        _, blocks, *_ = tables_of(kernel, self.attention)
        images, heads, queries, _ = tensors["query"].shape
        key_heads, keys = tensors["key"].shape[1:3]
        rows, columns = math.ceil(queries / sides.rows), math.ceil(keys / sides.columns)
        if kernel == BACKWARD_KEYS:
            count, steps = images * key_heads * columns, rows
        else:
            count, steps = images * heads * rows, columns
        return count, (heads, key_heads, queries, keys, steps, *tensors[blocks].shape)


def is_in_reach(tensor: torch.Tensor) -> bool:
    """Whether kernels can read a tensor: the elements of a row lie next to each other, 32 bits
    count those of a head, and there are some."""
    *_, row, last = tensor.stride()
    within = tensor.shape[2] * row < MOST and max(tensor.stride()) < MOST
    return last == 1 and tensor.numel() > 0 and within


def strides_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """The strides of images, heads and rows."""
    return [stride for tensor in tensors for stride in tensor.stride()[:3]]


def fills(length: int, side: int, tile: int) -> bool:
    """Whether tiles in blocks of this side end where the tensor ends."""
    return length % tile == 0 and (side >= length or length % side == 0)


def empty_like(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor with the order of another one's dimensions, but for the last one, which is
    contiguous, as torch's operator returns it."""
    old, last = tensor.stride(), len(shape) - 1
    inner_first = sorted(range(last), key=lambda dim: (old[dim], -dim))
    strides, step = [1] * len(shape), shape[last]
    for dim in inner_first:
        strides[dim], step = step, step * shape[dim]
    return tensor.new_empty_strided(shape, strides)
