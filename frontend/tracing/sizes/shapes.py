"""Shapes: the symbols of one capture: numbers that vary, and numbers that follow from them.

In: tensors and numbers that are to be symbolic. Out: fake tensors and values with torch's symbols;
the guards on them are in symbol_guards.py. Only captures with a symbol load this module: torch's
symbolic shapes take half a second to import.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import sympy
import torch
import torch._guards
import torch.fx
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    StatelessSymbolicContext,
    compute_unbacked_bindings,
    free_unbacked_symbols,
)
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from ....backends.graph.size_oblivious import is_size_oblivious
from ....errors import GraphBreak
from ....guards.guard import TensorSpec
from ....guards.kinds.shape import compile_relation
from ....guards.source import Source, TensorProperty
from ....options import Options
from ...values.base import Value
from ...values.constant import Constant
from ...values.tensor.calculated_numbers import calculations, determines, follows_from
from ...values.tensor.dynamic_marks import Mark
from ...values.tensor.number_functions import SYMBOLIC
from ...values.tensor.symbolic_number import VALUE_NEEDED, Symbol, SymbolicNumber
from ...values.tensor.tensor import TensorValue
from ..fake_tensors.fake_execution import forbid_reads
from ..fake_tensors.fakes_by_metadata import (
    follows_from_metadata,
    has_usual_strides,
    is_noted,
    symbolic_fake_from_metadata,
)
from .number_nodes import NodeRecorder, NumberGraph, RecordedNumber
from .size_facts import FactsAtRunTime, MarkError, SizeFact, check_mark
from .symbol_guards import PRINTER, SymbolGuards
from .torch_symbols import (
    CONFIG,
    PYTHON_TYPES,
    NamedSource,
    Symbols,
    as_python_number,
    is_symbol,
    layout_of,
)
from .value_origins import ValueOrigin, ValueOrigins
from .variation import replace_root


class Shapes:
    """Torch's ShapeEnv for one capture, and the values that stand for its symbols."""

    def __init__(
        self,
        options: Options,
        mode: FakeTensorMode,
        where: Callable[[], str],
        stays_open: Callable[[Source], bool],
    ) -> None:
        self.env = Symbols(
            specialize_zero_one=False,
            duck_shape=options.dynamic is True,
            allow_scalar_outputs=options.capture_scalar_outputs is not False,
            allow_dynamic_output_shape_ops=options.capture_dynamic_output_shape_ops is not False,
        )
        mode.shape_env = self.env
        self._stays_open = stays_open  # whether no number is to be specialised at a path
        # with symbols, making and reading its entries takes longer than running the operators
        mode.cache_enabled = False
        self.origins = ValueOrigins()
        self.asked = 0  # times that torch has calculated or compared with symbols
        self.homes: dict[sympy.Symbol, SymbolicNumber] = {}  # where a symbol's number is found
        self.relied_on = SymbolGuards(self.env, self.homes, where)
        self.ragged: set[sympy.Symbol] = set()  # sizes of jagged tensors, which are no numbers

    # what varies

    def fake(
        self, mode: FakeTensorMode, real: torch.Tensor, source: Source, dims: dict[int, Mark | None]
    ) -> torch.Tensor:
        """A fake tensor with symbols for the sizes of `dims`. Raises MarkError for a size outside
        its mark."""
        for dim, mark in dims.items():
            check_mark(real, source, dim, mark)
        fake = self._make_fake(mode, real, source, dims)
        for dim, size in enumerate(fake.shape):
            self._note_number(TensorProperty(source, "size", dim), size)
            mark = dims.get(dim)
            if mark is not None and is_symbol(size):
                self.relied_on.mark(size.node.expr, mark)
        self._note_strides(fake, source)
        self._order_strides(fake)
        return fake

    def _make_fake(
        self, mode: FakeTensorMode, real: torch.Tensor, source: Source, dims: Collection[int]
    ) -> torch.Tensor:
        """The fake of an input with symbols for `dims`: by metadata where they determine it, else
        by torch's converter."""
        way = DimDynamic.DUCK if self.env.duck_shape else DimDynamic.DYNAMIC
        if (
            follows_from_metadata(real)
            and (not real.is_leaf or real.grad is None)
            and has_usual_strides(real)
            and not is_noted(mode, real)
        ):
            sizes = [
                self._make_size(size, NamedSource(f"{source.name}.size()[{dim}]"), way)
                if dim in dims
                else size
                for dim, size in enumerate(real.shape)
            ]
            return forbid_reads(symbolic_fake_from_metadata(mode, real, sizes))
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
            dynamic_sizes=[way if dim in dims else DimDynamic.STATIC for dim in range(real.dim())],
            constraint_sizes=[None] * real.dim(),
        )
        return mode.from_tensor(
            real, static_shapes=False, source=NamedSource(source.name), symbolic_context=context
        )

    def _make_size(self, size: int, source: NamedSource, way: DimDynamic) -> Any:
        symbol = self.env.create_symbol(size, source, way)
        return self.env.create_symintnode(symbol, hint=size, source=source)

    def share_symbols_of_view(self, fake: torch.Tensor, source: Source) -> None:
        """Gives a tensor without symbols those of its view, where the view was an input before."""
        if fake._has_symbolic_sizes_strides and fake.layout is torch.strided and not fake.is_nested:
            self.note_layout(fake, source)

    def note_layout(self, fake: torch.Tensor, source: Source) -> None:
        """Notes which symbols the sizes and strides of a tensor are, or follow from."""
        for dim, size in enumerate(fake.shape):
            self._note_number(TensorProperty(source, "size", dim), size)
        self._note_strides(fake, source)

    def note_size(self, number: torch.SymInt, source: Source) -> None:
        """Notes that a size is found at another path, too. Each call compares them."""
        self.relied_on.facts.append(SizeFact(source, number))

    def _note_strides(self, fake: torch.Tensor, source: Source) -> None:
        for dim, stride in enumerate(fake.stride()):
            self._note_number(TensorProperty(source, "stride", dim), stride)
        self._note_number(TensorProperty(source, "storage_offset", 0), fake.storage_offset())

    def _order_strides(self, fake: torch.Tensor) -> None:
        """Decides which of the strides that vary is larger: results have their order, also where an
        operator's questions are unknown (`asking`)."""
        varying = [stride for stride in fake.stride() if is_symbol(stride)]
        for stride, following in itertools.pairwise(varying):
            self.decide(stride >= following)

    def input(self, number: int | float, source: Source) -> SymbolicNumber:
        """The value of a number that the program is given."""
        named = NamedSource(source.name)
        symbol = self.env.create_unspecified_symbol(number, named, DimDynamic.DYNAMIC)
        make: Callable[..., Any] = (
            self.env.create_symintnode if type(number) is int else self.env.create_symfloatnode
        )
        sym = make(symbol, hint=number, source=named)
        value = self.homes[symbol] = SymbolicNumber(self, sym, source)
        self.relied_on.facts.append(SizeFact(source, sym))
        return value

    def _note_number(self, source: Source, number: int | torch.SymInt) -> None:
        if isinstance(number, torch.SymInt) and number.node.is_nested_int():
            self.ragged |= number.node.expr.free_symbols
        elif isinstance(number, torch.SymInt):
            self.relied_on.facts.append(SizeFact(source, number))
            expr = number.node.expr
            if isinstance(expr, sympy.Symbol):
                self.homes.setdefault(expr, SymbolicNumber(self, number, source))

    # values

    def number(
        self,
        result: Any,
        function: Callable[..., Any] | None = None,
        operands: tuple[Value, ...] = (),
        node: torch.fx.Node | None = None,
    ) -> Value:
        """The value of a number that torch calculated, symbolic or not."""
        fixed = as_python_number(result)
        if fixed is not None:
            return Constant(fixed)
        self.asked += 1
        home = self.homes.get(result.node.expr) if function is None and node is None else None
        value = home or SymbolicNumber(self, result, None, function, operands, node)
        if node is not None:
            self._note_home(result.node.expr, value)
        return value

    def _note_home(self, expr: sympy.Basic, value: SymbolicNumber) -> None:
        """Records where the number of a symbol is found in the graph. torch's symbol for a bool
        that is read is one for the int: `u == 1`."""
        if isinstance(expr, sympy.Symbol):
            self.homes.setdefault(expr, value)
        elif isinstance(expr, sympy.Eq) and isinstance(expr.lhs, sympy.Symbol) and expr.rhs == 1:
            sym: Any = self.env.create_symintnode(expr.lhs, hint=None)
            self.homes.setdefault(expr.lhs, SymbolicNumber(self, sym, None, int, (value,)))

    def bind(
        self, node: torch.fx.Node, result: Any, find_origin: Callable[[], ValueOrigin]
    ) -> None:
        """Records the symbols for numbers known only at run time that a node creates, for those who
        run the graph on fake tensors again, and where they come from."""
        pending = {*self.env.pending_fresh_unbacked_symbols}
        if not pending:
            return
        try:
            fresh = compute_unbacked_bindings(self.env, result)  # empties the list of the pending
        except PendingUnbackedSymbolNotFound:  # it read a number that is no size of its result
            if not pending.isdisjoint(symbols_found_nowhere(result)):
                raise find_origin().break_before() from None
            fresh = {}
        node.meta["unbacked_bindings"] = fresh
        self.origins.add(fresh or (), find_origin())

    @staticmethod
    def depends_on_values(what: torch.Tensor | Symbol) -> bool:
        """Whether a size of a tensor, or a number, is known only while the graph runs."""
        return bool(free_unbacked_symbols(what))

    def measure(self, tensor: TensorValue) -> None:
        """Makes a tensor of the graph the source where symbols are found that are its sizes and are
        found nowhere else."""
        for dim, size in enumerate(tensor.fake.shape):
            if is_symbol(size) and size.node.expr not in self.homes:
                self.homes[size.node.expr] = SymbolicNumber(
                    self, size, None, torch.Tensor.size, (tensor, Constant(dim))
                )

    def decide(self, sym: Symbol | bool) -> bool:
        return bool(self._ask(sym, bool))

    def expect(self, sym: Symbol | bool, truth: bool) -> bool:
        relation = sym if isinstance(sym, torch.SymBool | bool) else sym != 0
        if isinstance(relation, bool) or not self.depends_on_values(relation):
            return self.decide(relation)
        self.asked += 1
        wanted: Any = relation if truth else torch.sym_not(relation)
        return truth if wanted.node.expect_true("", 0) else not truth

    def specialise(self, sym: Symbol) -> Any:
        homes = [self.homes.get(symbol) for symbol in sym.node.expr.free_symbols]
        given = [home for home in homes if home is not None and home.source is not None]
        for home in given:
            if home.source is not None and self._stays_open(home.source):
                raise GraphBreak("unsupported-value", f"{home.describe()}, {VALUE_NEEDED}")
        number = self._ask(sym, PYTHON_TYPES[type(sym)])
        for home in given:
            if self.is_fixed(home.sym):
                self._specialise_relatives(home)
        return number

    def _specialise_relatives(self, fixed: SymbolicNumber) -> None:
        """Specialises the numbers that follow from one that is fixed by now, and those from which
        it is calculated if they can be no others: `2 ** steps` and `steps`."""
        assert fixed.source is not None
        paths = [fixed.source, *self._paths_by_equal_numbers(fixed.source)]
        for home in list(self.homes.values()):
            if home.source is None or self.is_fixed(home.sym):
                continue
            now = home.sym.node.hint
            if follows_from(home.source, fixed.source) or any(
                determines(path, home.source, now) for path in paths
            ):
                self._ask(home.sym, PYTHON_TYPES[type(home.sym)])
                self._specialise_relatives(home)

    def _paths_by_equal_numbers(self, source: Source) -> Iterator[Source]:
        """Other paths to a calculated number: from numbers that are known to be equal to one from
        which it is calculated."""
        exprs = {
            home.source: home.sym.node.expr
            for home in self.homes.values()
            if home.source is not None
        }
        for step in calculations(source):
            if step.of in exprs:
                for other, expr in exprs.items():
                    if expr == exprs[step.of] and other != step.of:
                        yield replace_root(source, step.of, other)

    def is_fixed(self, sym: Symbol) -> bool:
        """Whether a number that was to vary is guarded to be one number."""
        return self.relied_on.is_fixed(sym.node.expr)

    def _ask(self, sym: Symbol | bool, function: Callable[[Any], Any]) -> Any:
        self.asked += 1
        if self.ragged and not isinstance(sym, bool) and self._is_ragged(sym):
            raise GraphBreak("data-dependent-value", "the ragged size of a jagged tensor")
        try:
            answer = function(sym)
        except GuardOnDataDependentSymNode as error:
            self.restart_at_origin(error)
            raise GraphBreak(
                "data-dependent-value", f"a number ({sym}) that depends on a tensor's values"
            ) from error
        return answer

    def require_known(self, tensor: torch.Tensor, dims: Sequence[Any]) -> None:
        """Starts over with a break where one of the sizes (of all, without `dims`) depends on
        values."""
        asked = {dim % max(tensor.dim(), 1) for dim in pytree.tree_leaves(dims)}
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and (dim in asked or not asked):
                origin = self.origins.latest(size.node._expr)
                if origin is not None:
                    raise origin.restart()

    def restart_at_origin(self, error: Exception) -> None:
        """Starts over with a break at the operation that gave a number which torch has asked about
        (a GuardOnDataDependentSymNode), if an operation before gave it."""
        origin = self.origins.latest(error.cond)  # type: ignore[attr-defined]
        if origin is not None:
            raise origin.restart() from error

    def _is_ragged(self, sym: Symbol) -> bool:
        """Whether a number follows from the ragged size of a jagged tensor."""
        return not self.ragged.isdisjoint(sym.node.expr.free_symbols)

    def rely_on_sign(self, sym: Symbol) -> None:
        self.relied_on.rely_on_sign(sym)

    @contextmanager
    def asking(self, target: Any) -> Iterator[None]:
        """Surrounds the run of an operator on fake tensors. Its questions about sizes of 0 and 1
        are guarded only where they matter."""
        try:
            with sizes_as_unknown() if is_size_oblivious(target) else nullcontext():
                yield
        except BaseException:  # symbols that it has made belong to no result
            self.env.pending_fresh_unbacked_symbols.clear()
            raise

    def refuse(self, message: str) -> MarkError:
        """The error for a mark that does not hold."""
        return MarkError(message)

    # in the graph, and in generated code

    def node(self, value: SymbolicNumber, graph: NumberGraph) -> torch.fx.Node:
        """The node of the graph that gives a number."""
        if value.node is not None and not value.node._erased:
            return value.node
        if value.source is not None:
            value.node = graph.number_input(value)
        elif value.function is not None:
            operands = tuple(graph.argument(operand)[0] for operand in value.operands)
            value.node = graph.number_call(
                SYMBOLIC.get(value.function, value.function), operands, value.sym
            )
        else:
            recorder = NodeRecorder(graph)
            symbols = {
                symbol: RecordedNumber(recorder, self.node(self.homes[symbol], graph))
                for symbol in self._symbols(value.sym.node.expr)
            }
            value.node = sympy_interp(PythonReferenceAnalysis, symbols, value.sym.node.expr).node
        return value.node

    def calculation(self, value: SymbolicNumber) -> tuple[Callable[..., Any], list[Value]]:
        """A function and its arguments that give a number that follows from sizes."""
        expr = value.sym.node.expr
        symbols = self._symbols(expr)
        return compile_relation(PRINTER.doprint(expr), tuple(map(str, symbols))), [
            self.homes[symbol] for symbol in symbols
        ]

    def _symbols(self, expr: sympy.Basic) -> list[sympy.Symbol]:
        symbols = sorted(expr.free_symbols, key=str)
        for symbol in symbols:
            if symbol not in self.homes:
                raise GraphBreak(
                    "data-dependent-value", f"a number ({symbol}) that depends on a tensor's values"
                )
        return symbols

    def facts_at_run_time(self) -> FactsAtRunTime | None:
        """The facts about data-dependent numbers that torch has assumed; each call checks them."""
        asserted = dict.fromkeys(
            fact.expr for facts in self.env.deferred_runtime_asserts.values() for fact in facts
        )
        facts = [expr for expr in asserted if all(map(self._is_measured, expr.free_symbols))]
        origins = [origin for origin in map(self.origins.latest, facts) if origin is not None]
        if not origins:
            return None
        symbols = sorted({symbol for expr in facts for symbol in expr.free_symbols}, key=str)
        text = " and ".join(f"({PRINTER.doprint(expr)})" for expr in facts)
        return FactsAtRunTime(
            compile_relation(text, tuple(map(str, symbols))),
            tuple(self.homes[symbol] for symbol in symbols),
            max(origins, key=lambda origin: origin.position),
        )

    def _is_measured(self, symbol: sympy.Basic) -> bool:
        """Whether the graph has the number of a symbol; not where a break has removed the
        operation that gave it."""
        home = self.homes.get(symbol)
        if home is None:
            return False
        nodes = [home.node, *(getattr(operand, "node", None) for operand in home.operands)]
        return not any(node is not None and node._erased for node in nodes)

    def spec(self, spec: TensorSpec, fake: torch.Tensor) -> TensorSpec:
        """A tensor's spec, with the numbers that are guarded by now."""
        return TensorSpec(
            spec.type,
            spec.dtype,
            spec.device,
            spec.requires_grad,
            spec.layout,
            tuple(map(as_python_number, fake.shape)),
            tuple(map(as_python_number, fake.stride())),
            spec.keys,
        )


@contextmanager
def sizes_as_unknown() -> Iterator[None]:
    """As CONFIG.patch() does, which defines a class each time."""
    before = CONFIG.backed_size_oblivious
    CONFIG.backed_size_oblivious = True
    try:
        yield
    finally:
        CONFIG.backed_size_oblivious = before


def symbols_found_nowhere(result: Any) -> set[sympy.Symbol]:
    """The symbols in sizes and strides of tensors none of which has it as a size."""
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    numbers = [number for tensor in tensors for number in layout_of(tensor)]
    used = {symbol for number in numbers for symbol in number.node.expr.free_symbols}
    found = {size.node.expr for tensor in tensors for size in tensor.shape if is_symbol(size)}
    return used - found
