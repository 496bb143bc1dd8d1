"""torch's symbols as captures use them: how they are named, made, printed and read."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any, TypeGuard

import sympy
import torch
import torch._guards
from torch._logging import trace_structured
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.printers import PythonPrinter

from ....skipped_imports import ModuleView, with_views


class GuardPrinter(PythonPrinter):
    """Prints symbolic expressions as Python over the names that guards/kinds/shape.py defines, with
    exact floats."""

    def _print_Float(self, expr: Any) -> str:
        return repr(float(expr))

    def _print_ToFloat(self, expr: Any) -> str:
        return f"ToFloat({self._print(expr.args[0])})"


class NamedSource(torch._guards.Source):
    """A source of framejit's in the form that torch's symbols need: a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSource) and self.text == other.text


def _as_torch_has_it(name: str, answer: Callable[[NamedSource], Any]) -> None:
    """Defines a method that is a property in some versions of torch's Source."""
    is_method = isinstance(vars(torch._guards.Source)[name], types.FunctionType)
    setattr(NamedSource, name, answer if is_method else property(answer))


_as_torch_has_it("name", lambda self: self.text)
_as_torch_has_it("guard_source", lambda self: torch._guards.GuardSource.LOCAL)


CONFIG: Any = _config
# Whether torch's structured log is written is decided at its first record. One about a symbol would
# have a description of Python's stack, which imports inductor.
trace_structured("framejit", suppress_context=True)
NOWHERE = torch._guards.SLoc("during a capture", None)


VALIDATOR = "torch.fx.experimental.validator"  # which imports TorchDynamo
VALIDATION = {
    VALIDATOR: ModuleView(
        functools.partial(importlib.import_module, VALIDATOR),
        translation_validation_enabled=lambda: CONFIG.translation_validation,
    )
}


class Symbols(ShapeEnv):
    """A ShapeEnv whose storage offsets may be zero: torch makes the symbols of tensors greater than
    zero. It does not look for the user's line in Python's stack, which is not there during a
    capture: the search imports torch.export and with it inductor and networkx."""

    __init__ = with_views(ShapeEnv.__init__, VALIDATION, VALIDATOR)
    _init = with_views(ShapeEnv._init, VALIDATION, VALIDATOR)

    def _get_stack_summary(
        self, is_debug: bool = False, framework_loc: str | None = None
    ) -> tuple[torch._guards.SLoc, str]:
        return NOWHERE, ""

    def _log_create_unbacked_symbol(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: what torch would write names places in Python's stack, too."""

    def create_symbol(
        self, val: Any, source: torch._guards.Source, *args: Any, **kwargs: Any
    ) -> Any:
        if val == 0 and getattr(getattr(source, "prop", None), "name", "") == "STORAGE_OFFSET":
            return sympy.S.Zero
        return super().create_symbol(val, source, *args, **kwargs)


PYTHON_TYPES: dict[type, Callable[[Any], Any]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}


def as_python_number(number: Any) -> Any:
    """A number that torch calculated as a Python number, None if it is symbolic."""
    if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        return number
    expr = number.node.expr
    fixed = expr.is_number or expr in (sympy.true, sympy.false)
    return PYTHON_TYPES[type(number)](expr) if fixed else None


def is_symbol(size: Any) -> TypeGuard[torch.SymInt]:
    """Whether a size is one symbol by itself."""
    return isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol)


def layout_of(result: Any) -> list[torch.SymInt]:
    """The symbolic sizes and strides of a tensor; not its storage offset, which code that goes on
    with the tensor never has to calculate."""
    if not isinstance(result, torch.Tensor) or result.layout is not torch.strided:
        return []
    numbers = (*result.shape, *result.stride())
    return [number for number in numbers if isinstance(number, torch.SymInt)]
