"""The systems that are compared: how each makes a fast callable of a module or a function, and what it captured."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

COUNTING = "counting"  # stands for a CountingBackend in a system's arguments


class CountingBackend:
    """A backend that runs graphs as they are and counts them: what a system captured shows here."""

    def __init__(self) -> None:
        self.graphs = self.ops = 0

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        self.ops += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        return gm.forward


class Wrapped:
    """A model that is called in another way. It has no parameters of its own."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def parameters(self) -> Iterator[Any]:
        return iter(())


class Traced(Wrapped):
    """torch.jit.trace at the first call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch  # noqa: PLC0415 - imported when the clock runs

        if not isinstance(self.model, torch.jit.ScriptModule):
            how = {"example_kwarg_inputs": kwargs} if kwargs else {"example_inputs": args}
            self.model = torch.jit.freeze(torch.jit.trace(self.model.eval(), **how, strict=False, check_trace=False))
        return self.model(*args, **kwargs)


class Lazy(Wrapped):
    """torch's lazy tensors with their TorchScript backend: what a call makes is computed when it is copied back."""

    def __init__(self, model: Any) -> None:
        import torch._lazy.ts_backend  # noqa: PLC0415 - not in every build

        global _lazy_ready
        if not _lazy_ready:
            torch._lazy.ts_backend.init()
            _lazy_ready = True
        super().__init__(model.to("lazy"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return move_tensors(self.model(*move_tensors(args, "lazy"), **move_tensors(kwargs, "lazy")), "cpu")


_lazy_ready = False


def move_tensors(tree: Any, device: str) -> Any:
    from torch import Tensor  # noqa: PLC0415 - imported when the clock runs
    from torch.utils._pytree import tree_map_only  # noqa: PLC0415

    tree = tree.to_tuple() if hasattr(tree, "to_tuple") else tree
    return tree_map_only(Tensor, lambda one: one.to(device), tree)


# name: (package, arguments of its compile); "" leaves the module as it is
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "eager": ("", {}),
    "eager-again": ("", {}),  # a second plain copy: its ratio is the noise
    "torch-eager": ("torch", {"backend": COUNTING}),
    "torch-aot": ("torch", {"backend": "aot_eager"}),
    "torch-inductor": ("torch", {}),
    "framejit-eager": ("framejit", {"backend": COUNTING}),
    "framejit-aot": ("framejit", {"backend": "aot_eager"}),
    "framejit-inductor": ("framejit", {"backend": "inductor"}),
    "torch-reduce-overhead": ("torch", {"mode": "reduce-overhead"}),
    "framejit-native": ("framejit", {"backend": "native"}),
    "framejit": ("framejit", {}),
    "torchscript": ("jit", {}),  # torch.jit.trace and freeze; inference only
    "lazy": ("lazy", {}),  # torch's lazy tensors, where this build has them; inference on the CPU only
}
DEFAULT = ("eager", "eager-again", "torch-eager", "framejit-eager")
DEFAULT_TRAINING = ("eager", "eager-again", "torch-aot", "framejit-aot")


def make(system: str, target: Any, **more: Any) -> tuple[Any, CountingBackend]:
    """Compiles `target`; imports the system's package, whose time is part of a first call. `more`: for compile() too."""
    package, arguments = SYSTEMS[system]
    counter = CountingBackend()
    arguments = {name: counter if value == COUNTING else value for name, value in arguments.items()} | more
    if package == "torch":
        import torch  # noqa: PLC0415 - imported when the clock runs

        return torch.compile(target, **arguments), counter
    if package == "framejit":
        import framejit  # noqa: PLC0415 - imported when the clock runs

        return framejit.compile(target, **arguments), counter
    if package:
        return {"jit": Traced, "lazy": Lazy}[package](target), counter
    return target, counter
