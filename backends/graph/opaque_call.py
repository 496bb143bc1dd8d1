"""OpaqueCall: a function that a graph calls as it is, and of whose results only the properties are
known."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from ...errors import warn_once
from ...records import record
from .higher_order_call import WithHistory
from .memory import memory_of

Like = Callable[..., Any] | torch.Tensor | Sequence[torch.Tensor]

_numbers = itertools.count()


class OpaqueCall:
    """What framejit.opaque returns. like: a function that gives tensors like the results for fake
    tensors like the arguments, or examples of the results. differentiable: whether the function's
    own autograd is used; else its results have no gradients."""

    __qualname__: str

    def __init__(self, function: Callable[..., Any], like: Like, differentiable: bool) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = f"{getattr(function, '__name__', 'opaque')}_{next(_numbers)}"
        self.function, self.like, self.differentiable = function, like, differentiable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, FakeTensor) for leaf in pytree.arg_tree_leaves(*args, **kwargs)):
            return self.describe_results(*args, **kwargs)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.differentiable):
            return self.function(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__qualname__  # copied and pickled as functions are

    def describe_results(self, *args: Any, **kwargs: Any) -> Any:
        """Fake results for fake arguments."""
        with torch.no_grad():
            made = (
                self.like(*args, **kwargs)
                if callable(self.like)
                else pytree.tree_map(empty_one_like, self.like)
            )
            results = pytree.tree_map(torch.Tensor.detach, made)
        given = [leaf for leaf in pytree.arg_tree_leaves(*args, **kwargs) if torch.is_tensor(leaf)]
        if not self.differentiable or not torch.is_grad_enabled():
            return results
        leaves, structure = pytree.tree_flatten(results)
        return pytree.tree_unflatten(WithHistory.apply(len(leaves), *leaves, *given), structure)


def empty_one_like(example: torch.Tensor) -> torch.Tensor:
    """A tensor with an example's properties, made without the example itself."""
    return torch.empty_strided(
        example.shape, example.stride(), dtype=example.dtype, device=example.device
    )


class OpaqueNode:
    """The target of a node that calls an OpaqueCall. Raises RuntimeError for results that are not
    as they were promised during capture: the graph relies on that."""

    def __init__(self, opaque: OpaqueCall) -> None:
        self.__name__ = f"{opaque.__name__}_{next(_numbers)}"
        self.opaque = opaque
        self.promised: list[Properties] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = self.opaque(*args, **kwargs)
        leaves = pytree.tree_leaves(results)
        if any(isinstance(leaf, FakeTensor) for leaf in leaves):
            self.promised = [properties_of(leaf) for leaf in leaves]
            return results
        self.check(leaves, [*filter(torch.is_tensor, pytree.arg_tree_leaves(*args, **kwargs))])
        return results

    def check(self, results: Sequence[Any], given: Sequence[torch.Tensor]) -> None:
        if not all(map(torch.is_tensor, results)) or len(results) != len(self.promised):
            self.refuse(f"{len(results)} results that are not those", "other ones")
        taken = {memory_of(tensor) for tensor in given if tensor.layout == torch.strided}
        for result, promised in zip(results, self.promised, strict=True):
            found = properties_of(result)
            if not promised.allows(found):
                self.refuse(str(found), str(promised))
            if result.layout == torch.strided and memory_of(result) in taken:
                self.refuse("a tensor on an argument's memory", "a new one")

    def refuse(self, found: str, promised: str) -> None:
        text = f"{self.opaque.__qualname__} returned {found}; `like` promises {promised}"
        warn_once(f"framejit.opaque: {text}: the code around it runs in eager")
        raise RuntimeError(text)


@record
class Properties:
    """What a graph relies on in a tensor. Sizes and strides that vary are None."""

    dtype: torch.dtype
    device: torch.device
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    requires_grad: bool

    def allows(self, other: Properties) -> bool:
        """Whether a tensor with these properties is as promised here."""
        sizes = zip(self.shape, other.shape, strict=False)
        if len(self.shape) != len(other.shape) or any(a not in (None, b) for a, b in sizes):
            return False
        strides = zip(self.strides, other.strides, other.shape, strict=True)
        return (
            (self.dtype, self.device, self.requires_grad)
            == (other.dtype, other.device, other.requires_grad)
        ) and all(a in (None, b) or size == 1 for a, b, size in strides)

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        grad = ", with gradients" if self.requires_grad else ""
        name = str(self.dtype).removeprefix("torch.")
        return f"{name}[{sizes}] with strides {self.strides} on {self.device}{grad}"


def properties_of(tensor: torch.Tensor) -> Properties:
    return Properties(
        tensor.dtype,
        tensor.device,
        tuple(map(static_number, tensor.shape)),
        tuple(map(static_number, tensor.stride())),
        tensor.requires_grad,
    )


def static_number(number: int | torch.SymInt) -> int | None:
    return number if isinstance(number, int) else None
