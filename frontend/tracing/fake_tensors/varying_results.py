"""Results of operators on fake tensors whose sizes vary, cached for one capture.

The first run of an operator may add guards to the capture's ShapeEnv. They stay, so equal operators
need not run again. Only new tensors are cached: views and writes always run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import _config
from torch.utils import _pytree as pytree

from ....backends.graph.memory import memory_of
from ....backends.graph.passes.symbolic_sizes import comparable, has_known_hints
from .fake_results import LITERALS, NewTensor, Nothing, Several, is_cacheable

ROUNDED = (float, complex)
CONFIG: Any = _config
RESULTS = "varying_results"  # the attribute of a mode that has its results


def results_of_varying_sizes(
    mode: FakeTensorMode,
    func: OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    run: Callable[[], Any],
) -> Any:
    """The results of an operator, from the capture's cache if it can be cached, else of `run`."""
    if not is_cacheable(func) or func.is_view or func._schema.is_mutable:
        return run()
    operands_key = OperandKey(mode)
    if not operands_key.add((*args, *kwargs.values())) or not operands_key.varies:
        return run()
    known: dict[Any, Any] = vars(mode).setdefault(RESULTS, {})
    key = (
        func,
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        CONFIG.backed_size_oblivious,  # such a run adds fewer guards
        *kwargs,
        *operands_key.parts,
    )
    if (found := known.get(key)) is not None:
        return found.make(mode, args)
    results = run()
    if key not in known:
        known[key] = recipe_of(mode, args, kwargs, results)
    return results


class OperandKey:
    """What the results of an operator depend on, besides the operator. `varies`: a size does."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode, self.varies = mode, False
        self.parts: list[Any] = []

    def add(self, operands: Iterable[Any]) -> bool:
        """Adds operands; returns whether all can be described."""
        return all(map(self.add_one, operands))

    def add_one(self, operand: Any) -> bool:
        """Adds the part of a key that describes an operand; False if it cannot be described."""
        cls = type(operand)
        if cls is FakeTensor:
            if not is_describable(self.mode, operand):
                return False
            self.varies |= operand._has_symbolic_sizes_strides
            self.parts.append(metadata_of(operand))
        elif cls is torch.SymInt:
            if not has_known_hints(operand):
                return False
            self.varies = True
            self.parts.append((cls, comparable(operand)))
        elif cls in LITERALS:
            # 0.0 == -0.0, and 1 == 1.0 == True
            self.parts.append((cls, repr(operand) if cls in ROUNDED else operand))
        elif isinstance(operand, list | tuple):
            self.parts.append((cls, len(operand)))
            return self.add(operand)
        else:
            return False
        return True


def is_describable(mode: FakeTensorMode, tensor: FakeTensor) -> bool:
    """Whether sizes and strides describe a tensor of this mode completely."""
    return (
        tensor.fake_mode is mode
        and tensor.constant is None
        and tensor.layout is torch.strided
        and has_known_hints(tensor)
    )


def metadata_of(tensor: FakeTensor) -> tuple[Any, ...]:
    return (
        tuple(map(comparable, tensor.shape)),
        tuple(map(comparable, tensor.stride())),
        comparable(tensor.storage_offset()),
        tensor.dtype,
        tensor.fake_device,
        torch._C._dispatch_keys(tensor).raw_repr(),
    )


def recipe_of(
    mode: FakeTensorMode, args: Sequence[Any], kwargs: dict[str, Any], results: Any
) -> NewTensor | Several | None:
    """How to make these results again; None if they are not new tensors."""
    memory = {
        memory_of(operand)
        for operand in pytree.arg_tree_leaves(*args, **kwargs)
        if isinstance(operand, FakeTensor)
    }
    if not isinstance(results, list | tuple):
        return single_of(mode, results, memory)
    items = tuple(Nothing() if item is None else single_of(mode, item, memory) for item in results)
    cls = tuple if isinstance(results, tuple) else list
    return None if None in items else Several(cls, items)


def single_of(mode: FakeTensorMode, result: Any, memory: set[int]) -> NewTensor | None:
    """How to make one result again. memory: of the operands and of the results before this one."""
    if type(result) is not FakeTensor or not is_describable(mode, result) or result.requires_grad:
        return None
    offset = result.storage_offset()
    own = memory_of(result)
    if type(offset) is not int or offset or own in memory:
        return None
    memory.add(own)
    found = NewTensor(tuple(result.shape), result.stride(), result.dtype, result.fake_device)
    return found if metadata_of(found.make(mode, ())) == metadata_of(result) else None
