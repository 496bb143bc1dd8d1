"""Builds a Program from a functional ATen graph: a node becomes loops (its lowering), a view of a
buffer, or a call."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._library.fake_class_registry import FakeScriptObject
from torch._subclasses.fake_tensor import FakeTensor

from ...graph.collectives import communicates, is_collective, is_wait
from ...graph.copies import AnyNode, Copies, Copy
from ...graph.memory import memories, results_of
from ..bounds import require
from ..ir.index import ONE, ZERO, Index
from ..ir.patterns import Patterns
from ..ir.program import (
    AliasedOutput,
    Buffer,
    Call,
    InputOutput,
    Kernel,
    Program,
    Store,
    View,
    loops,
    views_in,
)
from ..ir.scalar import Scalar, cast, const, load, reduce, round_to
from .fake_layouts import FLOAT8, is_dense, is_plain, number_now, tensors_in
from .fixed_values import FixedValues
from .fractions import fraction, refuse_fractions
from .half_precision import needed_as_rounded
from .lowering_cache import LoweringCache
from .registry import LOWERINGS, SELDOM, Unsupported
from .sizes import Sizes

if TYPE_CHECKING:
    import sympy

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
COPY = torch.ops.aten.copy_.default
CHECK = "positions within"  # the origin of a step that is no operator
CONVERSIONS = (  # operators whose lowerings read float8
    torch.ops.aten._to_copy.default,
    torch.ops.prims.convert_element_type.default,
)
NOTHING = {"sum": 0, "prod": 1, "any": False}  # placeholders of inputs without values
Body = Callable[[Sequence[Index]], Scalar]


def lower(gm: torch.fx.GraphModule | Copies, devices: Collection[str] = ("cpu", "cuda")) -> Program:
    """The graph as a Program. Nodes need fake results in meta["val"]. devices: device types that
    have kernels; on others all operators are called."""
    builder = Builder(gm, devices)
    for node in gm.graph.nodes:
        builder.add(node)
    builder.bind_sizes()
    return builder.program


class Builder:
    """Makes a Program, node by node."""

    def __init__(self, gm: torch.fx.GraphModule | Copies, kernels_for: Collection[str]) -> None:
        self.gm, self.kernels_for = gm, kernels_for
        self.program = Program({}, [], [], [])
        self.exact = needed_as_rounded(gm.graph.nodes)
        self.repeated = LoweringCache(gm.graph, self.program, Patterns(), self.exact)
        self.sizes = Sizes()
        self.fixed = FixedValues()
        self.within: dict[Any, View] = {}  # positions that a step has checked
        self.operands: dict[Any, View] = {}  # of products: padded with zeros, or in float32
        self.applied: set[AnyNode] = set()  # activations that are part of a product before them
        self.computed: set[torch.fx.Node] = set()  # originals of copied nodes that are not views
        self.aliases: dict[tuple[int, int, Index], Any] = {}
        # View | Index | SymInt | Scalar of sizes alone | number | tuple of these
        self.values: dict[AnyNode, Any] = {}
        self.node: AnyNode  # that is being lowered

    @property
    def fake(self) -> Any:
        """The fake result of the node that is being lowered; a tuple of several."""
        return self.node.meta["val"]

    # --- the graph ---

    def add(self, node: AnyNode) -> None:
        self.fixed.add(node)
        if node.op == "placeholder":
            self.values[node] = self.input(node)
        elif node.op == "output":
            results: Any = node.args[0]
            self.program.outputs = self.outputs(results)
        elif node.op == "get_attr":
            self.values[node] = self.constant(node)
        else:
            self.values[node] = self.call(node)

    def input(self, node: AnyNode) -> Any:
        fake = node.meta["val"]
        self.program.inputs.append(node.name)
        if isinstance(fake, FakeScriptObject):  # the mesh of a distributed tensor
            return InputOutput(node.name)
        if not isinstance(fake, torch.Tensor):
            if not isinstance(fake, (int, torch.SymInt)):
                raise NotImplementedError(f"an input of type {type(fake).__name__}")
            return self.sizes(fake)
        return self.window(self.new_buffer(node.name, fake))

    def bind_sizes(self) -> None:
        """Defines how a call computes each symbol. Raises NotImplementedError for a symbol that is
        no input's size."""
        if not self.sizes.hidden:
            return
        known: dict[sympy.Expr, str] = {}
        for node in self.gm.graph.find_nodes(op="placeholder"):
            for text, number in numbers_of_input(node.name, node.meta["val"]):
                if isinstance(number, torch.SymInt):
                    known.setdefault(number.node.expr, text)
        symbols = {
            symbol
            for expression in self.sizes.hidden.values()
            for symbol in expression.free_symbols
        }
        missing = [str(symbol) for symbol in symbols if symbol not in known]
        if missing:
            raise NotImplementedError(f"no input has the size {', '.join(missing)}")
        self.program.sizes |= {str(symbol): known[symbol] for symbol in sorted(symbols, key=str)}
        printer = importlib.import_module("torch.utils._sympy.printers").PythonPrinter()
        for name, expression in self.sizes.hidden.items():
            if not expression.is_Symbol:
                self.program.sizes[name] = printer.doprint(expression)
        if self.program.imports().intersection(self.program.inputs):
            raise NotImplementedError("an input with the name of a module that computes a size")

    def outputs(self, results: Sequence[Any]) -> list[Any]:
        """The results of the graph, each node as a separate tensor."""
        shown: dict[View, AnyNode] = {}
        outputs: list[Any] = []
        for item in results:
            value = (
                InputOutput(item.name)
                if isinstance(item, AnyNode) and item.op == "placeholder"
                else self.look_up(item)
            )
            refuse_fractions(value, "the graph returns")
            if isinstance(value, View) and shown.setdefault(value, item) is not item:
                value = AliasedOutput(**vars(value))
            outputs.append(value)
        return outputs

    def constant(self, node: AnyNode) -> View:
        """A tensor that belongs to the graph."""
        name = str(node.target)
        value: Any = (
            self.gm.constants[name]
            if isinstance(self.gm, Copies)
            else operator.attrgetter(name)(self.gm)
        )
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            raise NotImplementedError(f"a constant of type {type(value).__name__}")
        buffer = self.new_buffer(node.name, value)
        self.program.constants[buffer.name] = value
        return self.window(buffer)

    def look_up(self, argument: Any) -> Any:
        """An argument with nodes replaced by their translations."""
        if isinstance(argument, AnyNode):
            return self.values[argument]
        if isinstance(argument, (tuple, list)):
            if type(argument) in (tuple, list):
                return type(argument)(map(self.look_up, argument))
            return [*map(self.look_up, argument)]
        if isinstance(argument, dict):
            return {key: self.look_up(value) for key, value in argument.items()}
        if isinstance(argument, slice):
            raise Unsupported("a slice as an argument")
        return argument

    def call(self, node: AnyNode) -> Any:
        """Translates a node that calls something. The first that fits: a part of an earlier result,
        a copy of a node, a write into an input, a number, a view, an operator."""
        if node.target is operator.getitem:
            return self.values[first(node)][original(node).args[1]]  # type: ignore[index]
        if node in self.applied:
            return self.values[first(node)]  # type: ignore[index]
        if isinstance(node, Copy) and node.source in self.computed:
            return self.repeat(node)
        if writes_arguments(node.target):
            return self.write(node)
        value = node.meta.get("val")
        if isinstance(value, torch.SymFloat):
            return fraction(node.target, self.look_up(tuple(node.args)))
        if isinstance(value, (int, *SYMBOLIC)) and not isinstance(value, bool):
            return self.number(node, value)
        viewed = self.view(node)
        if viewed is not None:
            return viewed
        if self.fixed.is_left_to_torch(node) or communicates(node.target):
            return self.external(node, *self.arguments(node))
        if isinstance(node, Copy):
            self.computed.add(node.source)
            return self.repeat(node)
        args, kwargs = self.arguments(node)
        return self.repeated.lower(node, (args, kwargs), lambda: self.compute(node, args, kwargs))

    def write(self, node: AnyNode) -> Any:
        """Notes a write into an input; raises NotImplementedError for other writes."""
        if node.target is not COPY or not self.is_input(node.args[0]):
            raise NotImplementedError(f"{node.target} writes in the middle of the graph")
        arguments: Any = node.args
        target, source = (self.values[argument] for argument in arguments[:2])
        self.program.writes.append((target, source))
        return target

    def repeat(self, node: Copy) -> Any:
        """Translates a node that may have copies: its arguments are examined only for the first."""
        inputs = [self.values[other] for other in node.inputs]
        return self.repeated.lower(node, inputs, lambda: self.compute(node, *self.arguments(node)))

    def arguments(self, node: AnyNode) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.look_up(tuple(node.args)), self.look_up(dict(node.kwargs))

    def compute(self, node: AnyNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Translates a node by its lowering or, without one, to a call."""
        lowering = LOWERINGS.get(node.target)
        if lowering is not None and self.supports(node):
            steps, self.node = len(self.program.steps), node
            try:
                return lowering(self, *args, **kwargs)
            except Unsupported:
                del self.program.steps[steps:]
        return self.external(node, args, kwargs)

    def is_input(self, argument: Any) -> bool:
        return isinstance(argument, AnyNode) and argument.op == "placeholder"

    def supports(self, node: AnyNode) -> bool:
        """Whether all tensors are plain, of a supported dtype, and on one device."""
        results = tensors_in(node.meta["val"])
        operands = [
            fake for other in node.all_input_nodes for fake in tensors_in(other.meta.get("val"))
        ]
        devices = {fake.device for fake in results + operands}
        if len(devices) != 1 or not all(map(is_plain, results + operands)):
            return False
        (device,) = devices
        float8 = any(fake.dtype in FLOAT8 for fake in operands)
        if any(fake.dtype in FLOAT8 for fake in results) or (
            float8 and (node.target not in CONVERSIONS or device.type != "cpu")
        ):
            return False
        return device.type in self.kernels_for

    def view(self, node: AnyNode) -> Any:
        """The result of a node that computes nothing: views of its first argument's buffer."""
        base = first(node)
        if base is None or not isinstance(self.values[base], View):
            return None
        (memory,), memories_ = memories(base), memories(node)
        fake, results = base.meta["val"], node.meta.get("val")
        if (
            memory not in memories_
            or not isinstance(fake, FakeTensor)
            or getattr(node.target, "namespace", "") != "aten"
        ):
            return None
        shared = zip(results_of(node), memories_, strict=True)
        windows = [
            self.alias(result, fake, self.values[base]) if own == memory else None
            for result, own in shared
        ]
        if not windows or None in windows:
            return None
        return windows if isinstance(results, (tuple, list)) else windows[0]

    def alias(self, result: Any, base: FakeTensor, view: View) -> View | None:
        if not isinstance(result, torch.Tensor) or result.dtype != base.dtype:
            return None
        key = id(result), id(base), view.offset  # equal nodes share their fake results
        if key not in self.aliases:
            self.aliases[key] = self.window_on(result, base, view.offset)
        found = self.aliases[key]
        if found is None:
            return None
        size, stride, offset = found
        return View(view.buffer, size, stride, offset, view.dtype, view.device)

    def window_on(
        self, result: torch.Tensor, base: FakeTensor, offset: Index
    ) -> tuple[tuple[Index, ...], tuple[Index, ...], Index] | None:
        """Sizes, strides and offset of a result as a view of a buffer; `offset`: that of the base
        tensor."""
        if not (is_plain(result) and is_plain(base)) or result.is_conj() or result.is_neg():
            return None
        start = self.sizes(result.storage_offset() - base.storage_offset()) + offset
        return self.shape(result.shape), self.shape(result.stride()), start

    def external(self, node: AnyNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the operator."""
        refuse_fractions((args, kwargs), f"{node.target} is given")
        results = node.meta.get("val")
        single = not isinstance(results, (tuple, list))
        names: list[str | None] = []
        values: list[Any] = []
        every: Sequence[Any] = [results] if not isinstance(results, (tuple, list)) else results
        for number, result in enumerate(every):
            if isinstance(result, torch.Tensor):
                buffer = self.new_buffer(
                    f"{node.name}_{number}" if not single else node.name, result
                )
                names.append(buffer.name)
                values.append(self.window(buffer))
            else:
                names.append(None)
                values.append(None if result is None else self.number(node, result))
        schema = getattr(node.target, "_schema", None)
        function: Any = node.target
        if is_wait(original(node)):
            args = (*args, *self.inputs_of_collective(first(node)))
            function = wait_for_collective
        effect = (
            schema is None
            or communicates(node.target)
            or not schema.returns
            or torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]
        )
        self.program.steps.append(
            Call(function, args, kwargs, tuple(names), single, str(node.target), effect)
        )
        return values[0] if single else values

    def inputs_of_collective(self, collective: AnyNode | None) -> list[View]:
        """The buffers that a collective sends: their memory may be reused only after it has
        ended."""
        if collective is None or not is_collective(original(collective)):
            return []
        inputs = (self.values[other] for other in collective.all_input_nodes)
        return [view for value in inputs for view in views_in(value)]

    def number(self, node: AnyNode, result: Any) -> Index:
        """The size that an operator returns, if it is known at compile time."""
        if isinstance(result, bool) or not isinstance(result, (int, torch.SymInt)):
            raise NotImplementedError(f"{node.target} gives a {type(result).__name__}")
        return self.sizes(result)

    # --- for lowerings ---

    def check_positions(
        self, positions: View, shape: Sequence[Index], dim: int, **how: Any
    ) -> View:
        """Positions that are within dimension `dim` of a tensor of this shape. On the CPU a step
        looks at them first and raises as eager does; kernels read its result, so they come after
        it. (On a GPU eager and kernels assert.) how: `wraps` and `reject` of `require`."""
        if positions.dtype not in (torch.int64, torch.int32):
            raise Unsupported("positions of this type")
        if positions.device.type != "cpu":
            return positions
        every = zip(positions.size, positions.stride, strict=True)
        own = replace(  # without repetitions
            positions,
            size=tuple(ONE if stride == ZERO and size != ZERO else size for size, stride in every),
        )
        key = own, tuple(shape), dim, *how.values()
        if key not in self.within:
            name = self.program.unused_name("positions")
            buffer = Buffer(name, own.size, own.stride, own.dtype, own.device)
            self.program.buffers[name] = buffer
            arguments = own, [*shape], dim, *how.values()
            self.program.steps.append(Call(require, arguments, {}, (name,), True, CHECK, True))
            self.within[key] = self.window(buffer)
        return replace(self.within[key], size=positions.size)

    def is_read_by_kernels(self, node: AnyNode) -> bool:
        """Whether a lowering, maybe of a view, uses a node: then a kernel may compute it where it
        is read."""
        return any(
            user.target in LOWERINGS
            and user.target not in SELDOM
            or getattr(user.target, "is_view", False)
            and self.is_read_by_kernels(user)
            for user in node.users
        )

    def shape(self, sizes: Sequence[Any]) -> tuple[Index, ...]:
        return tuple(map(self.sizes, sizes))

    def new_buffer(self, name: str, like: torch.Tensor) -> Buffer:
        """A buffer with a fake tensor's sizes and strides."""
        name = self.program.unused_name(name)
        buffer = Buffer(
            name, self.shape(like.shape), self.shape(like.stride()), like.dtype, like.device
        )
        self.program.buffers[name] = buffer
        return buffer

    def window(self, buffer: Buffer) -> View:
        return View(buffer.name, buffer.size, buffer.stride, ZERO, buffer.dtype, buffer.device)

    def pointwise(self, body: Body, like: torch.Tensor | None = None) -> View:
        """A buffer with a fake tensor's layout (by default the node's), whose element [i, j, ...]
        is body([i, j, ...]), cast to its dtype."""
        dtype = (self.fake if like is None else like).dtype

        def value(outer: Sequence[Index], _: Any) -> Scalar:
            exact = round_to(body(outer), dtype) if self.node in self.exact else body(outer)
            return cast(exact, dtype)

        return self.reduction([], value, None, like)

    def reduction(
        self,
        inner: Sequence[Index],
        body: Callable[[Sequence[Index], Sequence[Index]], Scalar],
        kind: str | None,
        like: torch.Tensor | None = None,
    ) -> View:
        """A buffer as `pointwise` makes it; with `kind`, element [i, ...] reduces body([i, ...],
        [r, ...]) over r, ... below the sizes `inner`."""
        like = self.fake if like is None else like
        if not is_dense(like):
            raise Unsupported("the result has gaps")
        empty = kind is not None and any(size == ZERO for size in inner)
        if empty and kind not in NOTHING:
            raise Unsupported(f"{kind} of nothing")
        buffer = self.new_buffer(self.node.name, like)
        kept = [number for number, size in enumerate(buffer.size) if size != ONE]
        kept.sort(key=lambda number: number_now(like.stride()[number]), reverse=True)
        outer = loops([buffer.size[number] for number in kept], "p")
        subscripts = [ZERO] * len(buffer.size)
        for variable, number in zip(outer, kept, strict=True):
            subscripts[number] = Index({(variable,): 1})
        rows = loops([size for size in inner if size != ONE], "r")
        following = iter(rows)
        along = [ZERO if size == ONE else Index({(next(following),): 1}) for size in inner]
        value = body(subscripts, along)
        if kind is not None and empty:
            rows, value = (), const(NOTHING[kind], value.dtype)
        elif kind is not None and rows:
            value = reduce(kind, value)
        elif kind is not None and kind.startswith("arg"):
            value = const(0, torch.int64)
        store = Store(buffer.name, self.window(buffer).at(subscripts), value)
        self.program.steps.append(Kernel(outer, rows, (store,), (str(self.node.target),)))
        return self.window(buffer)

    def read(self, view: View, subscripts: Sequence[Index], **more: Any) -> Scalar:
        """An element, broadcast: there may be more subscripts than dimensions."""
        own = list(subscripts)[len(subscripts) - len(view.size) :]
        own = [
            ZERO if size == ONE else subscript
            for size, subscript in zip(view.size, own, strict=True)
        ]
        return load(view.buffer, view.at(own), view.dtype, **more)


def numbers_of_input(name: str, fake: Any) -> Iterator[tuple[str, Any]]:
    """The numbers that an input is or has, each with the Python text by which a call reads it."""
    if not isinstance(fake, torch.Tensor):
        yield name, fake
        return
    for position, size in enumerate(fake.size()):
        yield f"{name}.size({position})", size
    for position, stride in enumerate(fake.stride()):
        yield f"{name}.stride({position})", stride
    yield f"{name}.storage_offset()", fake.storage_offset()


def wait_for_collective(result: torch.Tensor, *sent: torch.Tensor) -> torch.Tensor:
    """Waits for the result of a collective. sent: what it reads, kept until then."""
    waited: torch.Tensor = torch.ops._c10d_functional.wait_tensor(result)
    return waited


def original(node: AnyNode) -> torch.fx.Node:
    """The node of a graph, or that of which it is a copy."""
    return node.source if isinstance(node, Copy) else node


def first(node: AnyNode) -> AnyNode | None:
    """A node's first argument, where that is a node."""
    own = original(node)
    if not own.args or not isinstance(own.args[0], torch.fx.Node):
        return None
    return node.inputs[0] if isinstance(node, Copy) else own.args[0]


@lru_cache(4096)
def writes_arguments(target: Any) -> bool:
    """Whether an operator writes into its arguments."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable
