"""SharedHandles: one handle for modules that are built alike, such as the blocks of a transformer
that are compiled one by one. What is compiled for one of them serves all, as guards read the
module from the call's arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ...events import Note
from ...options import Options
from ...records import record
from ._hook import Handle
from .cache import Cache

Structure = tuple[Any, ...]
Make = Callable[[Any, Options], Handle]

SHARED = "serves several modules of one structure"
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)


@record
class SharedHandle:
    """A handle, by its cache, the options that it was made with, and the modules that it serves.
    References to all of them are weak."""

    options: Options
    cache: weakref.ref[Cache]
    modules: list[weakref.ref[torch.nn.Module]]

    @property
    def in_use(self) -> bool:
        return any(module() is not None for module in self.modules)

    def serve(self, module: torch.nn.Module) -> Handle | None:
        """The handle, which serves this module too; None once it is gone, or for a module that is
        compiled again."""
        cache = self.cache()
        if cache is None or any(other() is module for other in self.modules):
            return None
        self.modules.append(weakref.ref(module))
        unit = cache.root.data
        cache.send(Note(unit.name, unit.where, SHARED))
        return cache.handle


class SharedHandles:
    """The handles of compiled modules by function and structure."""

    def __init__(self) -> None:
        self._handles: dict[tuple[Any, Structure], list[SharedHandle]] = {}

    def handle(
        self, module: torch.nn.Module, function: Any, options: Options, make: Make
    ) -> Handle:
        """The handle of a function for a module: that of a living module of the same structure,
        compiled with the same options, or one made now."""
        if not may_share(module, options):
            return make(function, options)
        self._drop_unused()
        known = self._handles.setdefault((function, structure_of(module)), [])
        for shared in known:
            handle = shared.serve(module) if shared.options == options else None
            if handle is not None:
                return handle
        handle = make(function, options)
        cache = weakref.ref(handle.framejit.cache)
        known.append(SharedHandle(options, cache, [weakref.ref(module)]))
        return handle

    def _drop_unused(self) -> None:
        """Forgets handles whose modules are gone."""
        for key, known in list(self._handles.items()):
            known[:] = [shared for shared in known if shared.in_use]
            if not known:
                self._handles.pop(key, None)


def may_share(module: torch.nn.Module, options: Options) -> bool:
    """Whether a handle may serve several modules: not where calls are verified or measured one by
    one, and not on a GPU, where a recorded graph reads the parameters of one module in place."""
    return not (options.verify or options.sinks or options.probe) and not any(
        tensor.device.type != "cpu" or is_lazy(tensor) for tensor in tensors_of(module)
    )


def tensors_of(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def structure_of(module: torch.nn.Module) -> Structure:
    """What modules that are built alike have in common: the classes and names of their parts, the
    metadata of their tensors, and attributes that are numbers or strings. Attributes of other types
    are left to the guards."""
    return tuple(
        (
            name,
            type(part),
            tuple((key, tensor_facts(tensor)) for key, tensor in own_tensors(part)),
            tuple((key, value) for key, value in vars(part).items() if type(value) in PLAIN),
        )
        for name, part in module.named_modules()
    )


def own_tensors(part: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from part.named_parameters(recurse=False)
    yield from part.named_buffers(recurse=False)


def tensor_facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (type(tensor), tensor.dtype, tensor.layout, tuple(tensor.shape), tensor.requires_grad)


shared_handles = SharedHandles()
