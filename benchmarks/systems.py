"""The systems that are compared: how each makes a fast callable of a module or a function, and what it captured."""
from __future__ import annotations

from collections.abc import Callable
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
    "framejit": ("framejit", {}),
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
    return target, counter
