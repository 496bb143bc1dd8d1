"""`aot_eager`: forward and backward as functional ATen graphs through aot_autograd, run by torch's own kernels; and the way
there for each backend that wants ATen graphs."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

from .eager_gradients import ahead_of_time
from .registry import Backend, register_backend


@dataclass(frozen=True)
class Part:
    """A functional ATen graph and which part of the work it is. `results`: how many outputs of a forward graph are the
    program's, what comes behind them is kept for the backward graph; None where there is none."""

    gm: torch.fx.GraphModule
    examples: list[Any]
    backward: bool
    results: int | None = None


Compile = Callable[[Part], Callable[..., Any]]
TENSORIFY = "TENSORIFY_PYTHON_SCALARS"  # torch's own switch; it is read whenever a graph is traced


def by_parts(
    gm: torch.fx.GraphModule, example_inputs: list[Any], compile_part: Compile, *, random_like_eager: bool, keep_writes: bool = False,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A captured graph through aot_autograd, its forward and its backward graph compiled by `compile_part`. What that returns takes
    the graph's inputs one by one; for the backward graph, with the mark `_boxed_call`, as a list that it empties.
    random_like_eager: the parts draw the numbers that gm itself would draw.
    keep_writes: writing into inputs is the parts' last work, instead of being done after them."""
    results: list[int] = []

    def partition(joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **more: Any) -> Any:
        results.append(num_fwd_outputs)
        for split in (min_cut_rematerialization_partition, default_partition):
            try:
                return split(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)
            except AssertionError:  # a float that varies, say, which backward needs and forward cannot keep
                continue
        raise NotImplementedError("this graph cannot be split into a forward and a backward part")

    def forward(part: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        return make_boxed_func(compile_part(Part(part, examples, False, results[-1] if results else None)))

    def backward(part: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled = compile_part(Part(part, examples, True))
        return compiled if getattr(compiled, "_boxed_call", False) else make_boxed_func(compiled)

    def build() -> Callable[..., Any]:
        with numbers_kept:
            return aot_module_simplified(
                gm, example_inputs, fw_compiler=forward, bw_compiler=backward, partition_fn=partition,
                keep_inference_input_mutations=keep_writes, decompositions=dict(decompositions or {}),
            )  # fmt: skip

    return ahead_of_time(gm, build, random_like_eager=random_like_eager)


class NumbersKept:
    """While any thread is inside, floats that vary stay arguments of operators. Left to itself, aot_autograd puts some into tensors,
    which rounds otherwise than eager, and relies on the value of the others, so that a learning rate on a schedule would be compiled
    anew at every step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: str | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = os.environ.get(TENSORIFY)
                os.environ[TENSORIFY] = "0"
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                os.environ.pop(TENSORIFY)
                os.environ.update({} if self._before is None else {TENSORIFY: self._before})


numbers_kept = NumbersKept()


def by_way_of_aten(backend: Backend) -> Callable[..., Any]:
    """A function of captured graphs for a backend of ATen graphs."""

    def compile_whole(gm: torch.fx.GraphModule, example_inputs: list[Any], **extra: Any) -> Callable[..., Any]:
        def compile_part(part: Part) -> Callable[..., Any]:
            return backend.function(part.gm, part.examples, **extra)

        return by_parts(gm, example_inputs, compile_part, random_like_eager=False)

    return compile_whole


@register_backend("aot_eager")
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """aot_autograd with a compiler that compiles nothing."""
    return by_parts(gm, example_inputs, lambda part: part.gm.forward, random_like_eager=True)
