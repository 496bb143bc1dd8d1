"""GraphBuilder: the fx graph under construction."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.fx
from torch._C._functorch import is_functorch_wrapped_tensor

from ...backends.graph.gradient_history import note_history
from ...backends.graph.memory import memory_of
from ...backends.graph.mutations import may_write, writes_only_buffers
from ...backends.graph.node_targets import name_of, target_name
from ...backends.graph.random_generators import NO_GENERATOR, DrawFrom
from ...backends.graph.wrappers import inner_tensors
from ...errors import GraphBreak
from ...guards.guard import Kind, TensorSpec
from ...guards.source import AttrSource, Source
from ..values.base import Value
from ..values.constant import LITERAL_TYPES, Constant
from ..values.containers.list import ListValue
from ..values.containers.sequence import TupleValue
from ..values.context import TraceContext
from ..values.modes.mode_manager import MODE_SWITCHES, TorchModes
from ..values.tensor.overriding_wrapper import family_of
from ..values.tensor.read_number import describe_reading
from ..values.tensor.symbolic_number import SymbolicNumber
from ..values.tensor.tensor import TensorValue
from ..values.tensor.tensor_subclass import (
    SubclassInstanceFound,
    TensorObject,
    call_unwrapped,
    dispatch_operation,
)
from ..values.tensor.traced_call import NoEffects
from ..values.tensor.wrapper_subclass import is_captured_wrapper
from .call_checks import CallChecks, FakeCall
from .effect_log import EffectLog
from .fake_tensors.fake_wrappers import is_fake
from .fake_tensors.fakes_by_metadata import (
    ResultRecipe,
    fake_from_metadata,
    is_described_by_guard,
    is_noted,
)
from .fake_tensors.foreach_writes import counted_writes
from .fake_tensors.known_items import TAKE_SIZES, known_item, note_item
from .fake_tensors.operation_runner import OperationRunner
from .fake_tensors.refused_dtypes import apply_node
from .graph_inputs import GeneratorInput, GraphInput, NumberInput, version_of
from .input_fakes import InputFakes
from .interpreter.frame_stack import FrameStack
from .interpreter.work_budget import WorkBudget
from .number_readings import READS
from .sizes.symbolic_inputs import SymbolicInputs
from .sizes.value_origins import ValueOrigin

WORDS = re.compile(r"[^\W_]+")
MOST_BYTES_SAVED = 1 << 15  # of written inputs, in each call of a graph that may start over


class GraphBuilder:
    """Builds a torch.fx.Graph from calls on values, and runs each call on fake tensors."""

    def __init__(
        self,
        tx: TraceContext,
        frames: FrameStack,
        work: WorkBudget,
        symbols: SymbolicInputs,
        modes: TorchModes,
        effects: EffectLog,
    ) -> None:
        self.tx = tx
        self._frames = frames
        self._uncaptured = work.uncaptured
        self._symbols = symbols
        self._modes = modes
        self._effects = effects
        self.graph = torch.fx.Graph()
        self.fake_mode = symbols.fake_mode
        self.inputs: list[GraphInput | NumberInput | GeneratorInput] = []
        self.nodes: list[torch.fx.Node] = []
        self.writes = 0  # calls so far that may write more than the content of buffers
        self._by_object: dict[int, TensorValue] = {}
        self._by_fake: dict[int, TensorValue] = {}
        self.fakes = InputFakes(symbols, tx.guards, self._by_object)
        self._runner = OperationRunner(symbols)
        self.repeating = self._runner.repeating
        self._checks = CallChecks(tx, symbols, self.inputs)
        self._last_input = self.graph._root
        self._names = {"self"}  # a GraphModule's forward has this parameter already

    # inputs

    def input(self, tx: TraceContext, real: torch.Tensor, source: Source) -> TensorValue:
        """The value of a tensor that existed before the frame; one input a tensor, however many
        paths lead to it."""
        known = self._by_object.get(id(real))
        if known is not None:
            if known.source != source:
                tx.guards.add(source, Kind.SAME, known.source)
            return known
        # the history that it has in its level is none that a fake could have
        if is_functorch_wrapped_tensor(real):
            raise GraphBreak(
                "unsupported-value", f"'{source.name}', a tensor of a torch.func transform"
            )
        tx.guards.add(source, Kind.TENSOR, TensorSpec.of(real))
        fake = self.fakes.of(real, source)
        node = self._placeholder(source, fake)
        wrapper = self._note_wrapper(fake)
        family = family_of(type(fake)) if wrapper else TensorValue
        cls = type(fake) if wrapper else type(real)
        value = family(node, fake, source, cls, real)
        if real.is_nested:
            self._symbols.shapes.measure(value)  # no path leads to a ragged size
        return self._add_input(value, source, real)

    def input_like(
        self, like: GraphInput, real: torch.nn.Parameter, source: Source
    ) -> TensorValue | None:
        """The value of a parameter that is no input yet, and fulfils the guard on the parameter
        `like`, which `is_described_by_guard`; the caller adds the same guard for it. None where
        there is more to know of it than what that guard says."""
        if not is_described_by_guard(real) or is_noted(self.fake_mode, real):
            return None
        fake = fake_from_metadata(self.fake_mode, real)
        value = TensorValue(self._placeholder(source, fake), fake, source, type(real), real)
        return self._add_input(value, source, real)

    def _add_input(self, value: TensorValue, source: Source, real: torch.Tensor) -> TensorValue:
        note_history(value.node, value.fake)
        self.inputs.append(GraphInput(value, source, real, version_of(value.fake)))
        self._by_object[id(real)] = value
        self._by_fake[id(value.fake)] = value
        return value

    def input_of(self, real: Any) -> TensorValue | None:
        """The value of a tensor that is an input already."""
        return self._by_object.get(id(real))

    def _identifier(self, name: str) -> str:
        """A short name for an input, of its own."""
        short = "_".join(WORDS.findall(name))[-80:].lstrip("_0123456789") or "input"
        unique, n = short, 0
        while unique in self._names:
            n += 1
            unique = f"{short}_{n}"
        self._names.add(unique)
        return unique

    def _placeholder(self, source: Source, example: Any) -> torch.fx.Node:
        with self.graph.inserting_after(self._last_input):
            node = self._last_input = self.graph.placeholder(self._identifier(source.name))
        # not that of a builtin or of another node, which generated code would assign before this is
        # read
        node.target = node.name
        node.meta["example_value"] = example
        return node

    def number_input(self, value: SymbolicNumber) -> torch.fx.Node:
        """The placeholder of a number that has a source."""
        assert value.source is not None
        self.inputs.append(NumberInput(value, value.source))
        return self._placeholder(value.source, value.sym)

    def number_call(
        self, function: Callable[..., Any], operands: tuple[Any, ...], result: Any
    ) -> torch.fx.Node:
        """Adds a calculation with numbers; operands are nodes and literals, `result` is the symbol
        it gives."""
        node = self.raw_call(function, operands)
        node.meta["example_value"] = result
        return node

    def _note_wrapper(self, fake: torch.Tensor) -> bool:
        """Whether a tensor is a wrapper, whose inner memory is noted."""
        if not is_captured_wrapper(type(fake)):
            return False
        self._checks.wrapper_memory |= {memory_of(inner) for inner in inner_tensors(fake)}
        return True

    def _generator_input(self, value: Value) -> torch.fx.Node:
        """The placeholder of a torch.Generator that existed before the frame."""
        real = self.tx.objects.real_object(value)
        if value.source is None or type(real) is not torch.Generator:
            raise value.unsupported_use("as an argument of a torch function")
        for item in self.inputs:
            if isinstance(item, GeneratorInput) and item.source == value.source:
                return item.node
        device = AttrSource(value.source, "device")
        self.tx.guards.add(value.source, Kind.TYPE, torch.Generator)
        self.tx.guards.add(device, Kind.EQUALS, real.device)
        node = self._placeholder(value.source, real)
        self.inputs.append(GeneratorInput(node, value.source, real))
        return node

    # calls

    def call(self, kind: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Adds `target(*args, **kwargs)` ("call_function") or `args[0].target(...)` ("call_method")
        to the graph."""
        if self._is_generator(kwargs.get("generator")) and not isinstance(target, DrawFrom):
            return self.call("call_function", DrawFrom(kind, target), args, kwargs)
        name = target_name(target)
        try:
            pairs = [self.argument(arg) for arg in args]
            if name in TAKE_SIZES:
                pairs[1:] = map(self._as_size, pairs[1:])
            named = {key: self.argument(arg) for key, arg in kwargs.items()}
        except SubclassInstanceFound:
            return self._call_with_instances(kind, target, args, kwargs)
        fakes = [pair[1] for pair in pairs]
        fake_kwargs = {name: pair[1] for name, pair in named.items()}
        call = FakeCall(target, args, kwargs, fakes, fake_kwargs)
        self._checks.check_call(call)
        varied, sizes = self._checks.varying_floats(call), [fake.shape for fake in call.out]
        with counted_writes(target, fakes):
            result = self._runner.run(kind, target, fakes, fake_kwargs)
        note_item(name, pairs, fake_kwargs, result)
        self._checks.check_floats(call, varied)
        self._checks.check_sizes_of_out(call, sizes)
        if isinstance(result, LITERAL_TYPES) and result is not None:
            self._checks.check_literal(kind, target, result)
            return Constant(result)
        node = self._create_node(
            kind,
            target,
            tuple([pair[0] for pair in pairs]),
            {name: pair[0] for name, pair in named.items()},
        )
        node.meta["lines"] = self._frames.call_lines()
        node.meta["line"] = node.meta["lines"][0] if node.meta["lines"] else ""
        self.nodes.append(node)
        self.writes += may_write(node) and not writes_only_buffers(node)
        self._checks.check_node(node)
        if self._symbols.exist:
            self._symbols.shapes.bind(
                node, result, partial(self._origin_of_values, target, args, result)
            )
        return self._value(node, result)

    def _create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.fx.Node:
        """A new node at the end. Arguments are given afterwards: torch searches those of a new one
        for sizes."""
        node = self.graph.create_node(kind, target)
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        return node

    def repeat_node(
        self,
        first: torch.fx.Node,
        nodes: dict[torch.fx.Node, torch.fx.Node],
        lines: tuple[str, ...] | None,
        recipe: ResultRecipe | None,
    ) -> None:
        """Adds a call that is like another one, which writes nothing but buffers, within
        `repeating()`.
        `nodes`: what stands for the nodes that it takes. The new node is added to it if a recipe
        makes its result; otherwise the caller adds it, together with the nodes of its parts.
        `lines`: those of the frames, innermost first; None for a part of a result. `recipe`: how
        the fake result is made; None where the operator has to run."""
        given = torch.fx.node.map_arg((first.args, first.kwargs), lambda one: nodes.get(one, one))
        result: Any = None
        if recipe is None:
            fakes: Any = torch.fx.node.map_arg(given, lambda one: one.meta["example_value"])
            result = apply_node(first.op, first.target, fakes[0], fakes[1])
        node = self._create_node(first.op, first.target, *given)
        if lines is not None:
            node.meta["lines"] = lines
            node.meta["line"] = lines[0] if lines else ""
        self.nodes.append(node)
        if recipe is None or self.has_collectives:  # all others are for nodes that write
            self._checks.check_node(node)
        if recipe is None:
            self._value(node, result)
            return
        nodes[first] = node
        owner = recipe.owner
        fake = recipe.make(
            self.fake_mode, None if owner is None else nodes[owner].meta["example_value"]
        )
        if fake is not None:
            node.meta["example_value"] = fake
            self._by_fake[id(fake)] = TensorValue(node, fake)

    def function(self, target: Any, /, *args: Value, **kwargs: Value) -> Value:
        """Adds target(*args, **kwargs) to the graph."""
        return self.call("call_function", target, list(args), kwargs)

    def _origin_of_values(self, target: Any, args: list[Value], result: Any) -> ValueOrigin:
        """The origin of the numbers that an operation takes from values. Raises GraphBreak where it
        is left to Python: on request, on other devices than the CPU, inside calls that become one
        node, and where facts about its numbers were wrong before."""
        tx, options, name = self.tx, self.tx.options, target_name(target)
        gives_numbers = not isinstance(result, torch.Tensor) and name in READS
        outside = self._modes.position_outside_levels()
        origin = ValueOrigin(
            self._frames.break_position() if outside is None else outside,
            self._frames.instruction(),
            "data-dependent-value" if gives_numbers else "data-dependent-shape",
            describe_reading(name, args[0]) if gives_numbers else name,
        )
        wanted = (
            options.capture_scalar_outputs
            if gives_numbers
            else options.capture_dynamic_output_shape_ops
        )
        on_cpu = all(
            value.fake.device.type == "cpu"
            for value in map(tx.look, args)
            if isinstance(value, TensorValue)
        )
        if (
            self._uncaptured.has_instruction(origin.instruction)
            or wanted is False
            or (wanted is None and not on_cpu)
            or isinstance(tx.effects, NoEffects)
        ):
            raise origin.break_before()
        return origin

    def expect(self, fact: TensorValue, stop: GraphBreak) -> None:
        """Continues as if a tensor were true: the frame starts over in eager where it is not.
        Raises `stop` where that has happened before, or is not possible."""
        tx = self.tx
        instruction = self._frames.instruction()
        if self._uncaptured.has_instruction(instruction) or isinstance(tx.effects, NoEffects):
            raise stop
        self._effects.expect(
            fact.node,
            self._frames.break_position(),
            None if tx.options.fullgraph else instruction,
            stop,
        )

    @property
    def has_collectives(self) -> bool:
        return self._checks.collective is not None

    @property
    def runs_only_once(self) -> bool:
        """Whether a run of the graph does what cannot be undone, so that no call may start over.
        What it writes into small inputs can be."""
        if self.has_collectives:
            return True
        sizes = [item.bytes_to_save for item in self.inputs if item.is_mutated]
        return None in sizes or sum(size or 0 for size in sizes) > MOST_BYTES_SAVED

    def _is_generator(self, value: Value | None) -> bool:
        return value is not None and self.tx.look(value).python_type() is torch.Generator

    def _call_with_instances(
        self, kind: str, target: Any, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """Adds a call with instances of tensor subclasses among the arguments."""
        if self.tx.modes.subclasses_off:
            return call_unwrapped(
                self.tx,
                lambda tx, *args, **kwargs: self.call(kind, target, list(args), kwargs),
                args,
                kwargs,
            )
        return dispatch_operation(
            self.tx,
            lambda *args, **kwargs: apply_node(kind, target, list(args), kwargs),
            args,
            kwargs,
        )

    def raw_call(self, target: Callable[..., Any], args: tuple[Any, ...]) -> torch.fx.Node:
        """Adds a call that is not run on fakes; arguments are literals and nodes."""
        node = self.graph.create_node("call_function", target, args)
        self.nodes.append(node)
        return node

    def stand_in(
        self,
        target: Callable[..., Any],
        position: int,
        like: torch.Tensor,
        same_layout: bool = False,
    ) -> TensorValue:
        """A tensor like `like` that comes from outside a part of the graph. Its node is made to be
        replaced. same_layout: it also has the strides and the requires_grad of `like`."""
        with self.fake_mode:
            fake = (
                torch.empty_strided(
                    like.shape,
                    like.stride(),
                    dtype=like.dtype,
                    device=like.device,
                    requires_grad=like.requires_grad,
                )
                if same_layout
                else torch.empty_like(like, requires_grad=False)
            )
        node = self.raw_call(target, (position,))
        node.meta["example_value"] = fake
        value = self._by_fake[id(fake)] = TensorValue(node, fake)
        return value

    def value_of(self, node: torch.fx.Node) -> Value:
        """The value of a node that is one tensor or one number."""
        example = node.meta.get("example_value")
        if isinstance(example, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self._symbols.shapes.number(example, node=node)
        value = self._by_fake.get(id(example))
        if value is None:
            raise GraphBreak("unsupported-value", f"{node.name}, which is no tensor, in a subgraph")
        return value

    def _value(self, node: torch.fx.Node, result: Any) -> Value:
        """The value of a node's result, given the result on fake tensors."""
        if isinstance(result, torch.Tensor):
            known = self._by_fake.get(id(result))
            if known is not None:  # an in-place operation: the object is the one it was called on
                return known
            if not is_fake(result):
                raise GraphBreak("subclass", type(result).__name__)
            node.meta["example_value"] = result
            if self._note_wrapper(result):
                cls = type(result)
                value: TensorValue = family_of(cls)(node, result, None, cls)
            else:
                value = TensorValue(node, result)
            self._by_fake[id(result)] = value
            if self._symbols.exist:
                self._symbols.shapes.measure(value)
            return value
        if result is None:
            return Constant(None)
        if isinstance(result, tuple | list):
            return self._parts(node, result)
        if isinstance(result, LITERAL_TYPES):
            return Constant(result)
        if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
            node.meta["example_value"] = result
            return self._symbols.shapes.number(result, node=node)
        raise GraphBreak("unsupported-value", f"a {type(result).__name__} from {name_of(node)}")

    def _parts(self, node: torch.fx.Node, result: Any) -> Value:
        """The value of a node that gives a tuple or list: a node for each item that is no
        literal."""
        items: list[Value] = []
        for index, part in enumerate(result):
            if isinstance(
                part, torch.Tensor | tuple | list | torch.SymInt | torch.SymFloat | torch.SymBool
            ):
                item = self.graph.create_node("call_function", operator.getitem, (node, index))
                self.nodes.append(item)
                items.append(self._value(item, part))
            elif isinstance(part, LITERAL_TYPES):
                items.append(Constant(part))
            else:
                raise GraphBreak(
                    "unsupported-value", f"a {type(part).__name__} from {name_of(node)}"
                )
        cls = type(result)
        return TupleValue(items, None, cls) if issubclass(cls, tuple) else ListValue(items)

    def argument(self, value: Value) -> tuple[Any, Any]:
        """A value as an argument of a node and as one of the fake call."""
        value = self.tx.look(value)
        if isinstance(value, TensorObject):
            raise SubclassInstanceFound
        if value.python_type() is torch.Generator:
            return self._generator_input(value), NO_GENERATOR
        return value.graph_argument(self.tx)

    def known_number(self, tensor: TensorValue) -> Value | None:
        """The number that a tensor without dimensions holds, if it is known before the graph
        runs."""
        number = known_item(tensor.node, tensor.fake)
        if isinstance(number, torch.SymInt):
            return self._symbols.shapes.number(number)
        return None if number is None else Constant(number)

    def _as_size(self, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        """A size, or sizes, as an argument of a node and as one of the fake call: numbers in place
        of tensors that hold known ones."""
        nodes, fakes = pair
        if isinstance(fakes, tuple | list):
            pairs = list(map(self._as_size, zip(nodes, fakes, strict=True)))
            return tuple(one[0] for one in pairs), tuple(one[1] for one in pairs)
        value = self._by_fake.get(id(fakes))
        number = None if value is None else self.known_number(value)
        return pair if number is None else self.argument(number)

    def number_node(self, number: SymbolicNumber) -> torch.fx.Node:
        """The node that gives a number."""
        return self._symbols.shapes.node(number, self)

    def drop_idle(self) -> None:
        """Empties a graph that only switches modes."""
        if all(node.target in MODE_SWITCHES for node in self.nodes):
            self.rollback(0)

    def release_objects(self) -> None:
        """Drops the program's tensors. torch.utils.swap_tensors refuses a tensor with even a weak
        reference."""
        describer = self.fake_mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()
        self.inputs.clear()
        self.fakes.release_objects()
        self._by_object.clear()
        self._by_fake.clear()

    # marks

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self.nodes)

    def rollback(self, mark: int) -> None:
        """Removes the calls added since `mark`; inputs stay, unused ones are dropped when the
        capture ends."""
        removed = self.nodes[mark:]
        for node in reversed(removed):
            value = self._by_fake.get(id(node.meta.get("example_value")))
            if value is not None and value.node is node:
                del self._by_fake[id(value.fake)]
            self.graph.erase_node(node)
        del self.nodes[mark:]
        self._checks.rollback(removed, self.nodes)
