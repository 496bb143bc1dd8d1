"""OperationRunner: runs the operations of a capture on fake tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import fake_tensor

from ....backends.graph.collectives import communicates
from ....backends.graph.node_targets import target_name
from ....errors import GraphBreak
from ..sizes.symbolic_inputs import SymbolicInputs
from .fake_execution import lacks_dimension
from .known_numbers import with_known_numbers, with_varying_length
from .mixed_dtypes import has_mixed_dtypes
from .refused_dtypes import apply_node, check_dtypes, dtypes_of_trial
from .refused_writes import gives_integers_history, refuses_operation
from .size_fixing import dispatcher_for
from .torch_log import WithoutTorchLog

SHAPE_DEPENDS = (fake_tensor.DynamicOutputShapeException,)
NO_SYMBOLS = nullcontext()
WITHOUT_LOG = WithoutTorchLog()
VALUE_DEPENDS = (fake_tensor.DataDependentOutputException,)
# By name, as its module takes half a second to load: a question about a number read from a tensor.
SYMBOL_DEPENDS = "GuardOnDataDependentSymNode"


class NeedsSymbols(Exception):  # noqa: N818 - it steers: run the operation again with symbols
    """An operation depends on values, and the capture has no symbols so far."""


class OperationRunner:
    """Turns what torch raises into graph breaks. Loads the capture's symbols once an operation
    needs them."""

    def __init__(self, symbols: SymbolicInputs) -> None:
        self._symbols = symbols

    def run(self, kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Runs an operation on fake tensors; again, with symbols, if it has to depend on values."""
        with self._symbols.clock.phase("fake_tensors", shown=False):
            try:
                return self._run_once(kind, target, args, kwargs)
            except NeedsSymbols:
                self._symbols.load()
                return self._run_once(kind, target, args, kwargs)

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Surrounds `apply`, for operations that have run before on tensors with the same
        metadata: what would break the graph is known not to."""
        with (
            self._symbols.clock.phase("fake_tensors", shown=False),
            self._symbols.fake_mode,
            WITHOUT_LOG,
        ):
            yield

    def _run_once(self, kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Runs an operation on fake tensors. Its errors become breaks; raises NeedsSymbols where
        the result depends on values and no symbols exist yet."""
        exist = self._symbols.exist
        asking = self._symbols.shapes.asking(target) if exist else NO_SYMBOLS
        name = target_name(target)
        given = args, kwargs
        if exist:
            args, kwargs = with_known_numbers(name, args, kwargs, self._symbols.shapes.decide)
        if communicates(target):
            forget_constants(args, kwargs)
        if gives_integers_history(target, args):
            raise GraphBreak("unsupported-mutation", "of integers that get a gradient history")
        try:
            with self._symbols.fake_mode, asking, WITHOUT_LOG:
                check_fakes(target, args, kwargs)
                result = (apply_to_symbols if exist else apply_node)(kind, target, args, kwargs)
                if exist:
                    result = with_varying_length(result, name, *given)
            check_dtypes(name, result, dtypes_of_trial(kind, target, args, kwargs))
            return result
        except (GraphBreak, RecursionError):  # the latter is raised by the interpretation
            raise
        except Exception as error:
            raise self._translate_error(error, name) from error

    def _translate_error(self, error: Exception, name: str) -> GraphBreak | NeedsSymbols:
        """What to raise for an error of the operator `name` on fake tensors."""
        exist, options = self._symbols.exist, self._symbols.options
        if isinstance(error, SHAPE_DEPENDS):
            if not exist and options.capture_dynamic_output_shape_ops is not False:
                return NeedsSymbols()
            return GraphBreak("data-dependent-shape", name)
        if isinstance(error, VALUE_DEPENDS):
            if not exist and options.capture_scalar_outputs is not False:
                return NeedsSymbols()
            return GraphBreak("data-dependent-value", name)
        if type(error).__name__ == SYMBOL_DEPENDS:
            self._symbols.shapes.restart_at_origin(error)
            return GraphBreak("data-dependent-value", name)
        return GraphBreak("fake-tensor", f"{name}: {type(error).__name__}: {error}")


def check_fakes(target: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Breaks at an operation that eager refuses though fake tensors would not."""
    if (
        refuses_operation(target, args)
        or has_mixed_dtypes(target, args, kwargs)
        or lacks_dimension(target, args)
    ):
        raise GraphBreak("exception-leaves", f"RuntimeError of {target_name(target)}")


def apply_to_symbols(kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls `apply` where sizes may be symbols."""
    try:
        with dispatcher_for(target, args):
            return apply_node(kind, target, args, kwargs)
    except RuntimeError:
        # torch's C++ cannot do this with symbols, its Python can
        with enable_python_dispatcher():
            return apply_node(kind, target, args, kwargs)


def forget_constants(args: list[Any], kwargs: dict[str, Any]) -> None:
    """Makes fake tensors forget the values that they were made of: torch runs an operator for real
    where it knows the values of all arguments."""
    for leaf in pytree.arg_tree_leaves(*args, **kwargs):
        if isinstance(leaf, fake_tensor.FakeTensor):
            leaf.constant = None
