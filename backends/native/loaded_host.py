"""The Python function of a compiled program, made of its text; also in a process that has compiled
nothing, for which it imports no part of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...factory_call import record_factory
from ...generated_source import file_name, keep_source
from ..graph.graph_constant import with_constants
from .toolchain.compile_c import Symbol


def load_host(text: str, objects: dict[str, Any]) -> Callable[..., Any]:
    """The function `call` of generated Python, which tracebacks can show."""
    name = file_name("native")
    exec(compile(text, name, "exec"), objects)
    call: Callable[..., Any] = objects["call"]
    keep_source(name, text, call)
    return call


def load_cpu_host(
    text: str, objects: dict[str, Any], functions: Mapping[str, Symbol], boxed: bool
) -> Callable[..., Any]:
    """The function of a program whose kernels, if any, are C functions."""
    addresses = {name: symbol.address() for name, symbol in functions.items()}
    call = load_host(text, objects | addresses)
    call = record_factory(call, load_cpu_host, text, with_constants(objects), functions, boxed)
    return make_boxed(call) if boxed else call


def make_boxed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Sets aot_autograd's mark for a function that takes its arguments as a list."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def taking_a_list(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes its arguments as a list, which it empties."""

    def call(args: list[Any]) -> Any:
        given = [*args]
        args.clear()
        return run(*given)

    return make_boxed(record_factory(call, taking_a_list, run))


def without_gradients(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with torch.no_grad():
            results = compiled(*args)
            return tuple(
                result.detach()
                if is_window(result, args) or is_view_of_none(result, args)
                else result
                for result in results
            )

    return record_factory(call, without_gradients, compiled)


def is_window(result: Any, args: Sequence[Any]) -> bool:
    """Whether a result is another tensor on the memory of an argument: then it requires a gradient
    if that argument does."""
    return (
        isinstance(result, torch.Tensor)
        and result.requires_grad
        and all(result is not arg for arg in args)
    )


def is_view_of_none(result: Any, args: Sequence[Any]) -> bool:
    """Whether autograd considers a result a view, but of none of the arguments: created without
    gradients, it could not be written."""
    if not isinstance(result, torch.Tensor) or not result._is_view():
        return False
    return all(
        result._base is not arg and result._base is not arg._base
        for arg in args
        if isinstance(arg, torch.Tensor)
    )


def restride(tensor: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """The same values with other strides: an operator did not keep to what its fake result
    promised."""
    if all(
        size <= 1 or own == asked
        for size, own, asked in zip(tensor.shape, tensor.stride(), stride, strict=True)
    ):
        return tensor
    return torch.empty_strided(
        tensor.shape, stride, dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)
