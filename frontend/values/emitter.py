"""Emitter: how a value writes code that makes its object. codegen/reconstruct.py is the one
implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch.fx

    from ..pycode.code_builder import CodeBuilder
    from .base import Value


class Emitter(Protocol):
    """Emits code for `reconstruct` and `emit_changes` of values. "Pushes" means: emits code that
    pushes."""

    builder: CodeBuilder  # single instructions
    globals: dict[str, Any]  # the global variables of the code being generated

    def push(self, value: Value) -> None:
        """Pushes the object of a value; the same object each time."""

    def push_all(self, values: Iterable[Value]) -> None:
        """Pushes several objects, the last one on top."""

    def push_literal(self, obj: Any) -> None:
        """Pushes an object that the code holds among its constants."""

    def push_output(self, value: Value, node: torch.fx.Node) -> None:
        """Pushes the output of the graph that a node computes."""

    def push_list(self, items: list[Value]) -> None:
        """Pushes a new list."""

    def push_tuple(self, items: list[Value]) -> None:
        """Pushes a new tuple."""

    def push_dict(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        """Pushes a new dictionary."""

    def push_keywords(self, items: dict[str, Value]) -> None:
        """Pushes a new dictionary whose keys are names."""

    def keep(self, value: Value) -> None:
        """Declares that the object on top of the stack is that of `value`, and leaves it there.
        Objects that it holds may refer to it from now on."""

    def give_attributes(self, value: Value, attributes: dict[str, Value]) -> None:
        """Declares the same, and stores attributes in that object."""

    def const(self, obj: Any) -> Callable[[], None]:
        """An argument: an object that the code holds among its constants."""

    def call(
        self,
        callee: Any,
        arguments: Iterable[Value | Callable[[], None]],
        names: tuple[str, ...] = (),
    ) -> None:
        """Pushes callee(*arguments), the last of them by these names. An argument is a value, or a
        function that pushes one object."""

    def run(self, callee: Any, arguments: Iterable[Value | Callable[[], None]]) -> None:
        """Emits a call whose result is dropped."""

    def run_on_top(self, callee: Any, *arguments: Any) -> None:
        """Emits callee(object on top of the stack, *constants), which leaves that object there."""

    def store_on_top(self, name: str, value: Value) -> None:
        """Stores an attribute in the object on top of the stack, which stays there."""
