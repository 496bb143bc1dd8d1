"""Translates a captured graph to functional ATen operators by tracing each distinct operator once.

An operator is identified by its function, its arguments, and the sizes, strides and dtypes of its
tensors. All distinct operators are traced in one run, on separate tensors; the graph is then
assembled from copies of their nodes. Sizes must not depend on tensors' values, and written memory
must not be read through another view afterwards: else `by_operator` returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import _config

from ....records import record
from ..copies import INPUT, Copy, module, template, write_copies
from ..fake_values import fake_of
from ..memory import memories, memory_of
from ..node_targets import run_node
from ..size_oblivious import is_size_oblivious
from .captured_nodes import (
    PLAIN,
    NeedsWholeTrace,
    draws_random_numbers,
    example,
    is_item,
    is_understood,
    on_own_memory,
    signature,
    size_of,
    window_of,
)
from .symbolic_sizes import (
    CannotCompute,
    SizeNodes,
    comparable,
    is_contiguous_for_all_sizes,
    is_scalar,
    is_varying_size,
)

if TYPE_CHECKING:
    import sympy

Trace = Callable[[Callable[..., Any], Sequence[Any]], torch.fx.GraphModule]
# the sizes that operators are given, by their expressions
Sizes = Mapping[Any, torch.SymInt]
CONFIG: Any = _config
COPY = torch.ops.aten.copy_.default
WRITE = template(COPY, "target", "value")
GRAD_MODE = torch._C._set_grad_enabled


@record
class Result:
    """The position of a tensor among an operator's results."""

    number: int


@record
class Original:
    """What each copy of a node asks of it. inputs: its input nodes. memory: its `memories`.
    is_random: whether it draws random numbers. is_size: whether it is a size that varies.
    is_number: whether it is a number that is computed from more than numbers."""

    inputs: list[torch.fx.Node]
    memory: list[Any]
    is_random: bool
    is_size: bool
    is_number: bool

    @classmethod
    def of(cls, node: torch.fx.Node) -> Original:
        inputs = node.all_input_nodes
        is_number = is_scalar(node) and not all(map(is_scalar, inputs))
        return cls(
            inputs, memories(node), draws_random_numbers(node), is_varying_size(node), is_number
        )


@dataclass
class Operator:
    """A distinct operator: a node that calls it, its tensors (each once), and what tracing found.
    `results`: its results, with Result for tensors. `written`: for an input's number, its new
    value."""

    node: torch.fx.Node
    tensors: list[FakeTensor]
    results: Any = None
    inputs: list[torch.fx.Node] = field(default_factory=list)
    nodes: list[torch.fx.Node] = field(default_factory=list)
    outputs: list[torch.fx.Node] = field(default_factory=list)
    written: dict[int, torch.fx.Node] = field(default_factory=dict)

    def call(
        self, inputs: Sequence[torch.Tensor], results: list[torch.Tensor], sizes: Sizes
    ) -> None:
        """Calls it on other tensors and appends its results to `results`."""
        by_tensor = {id(tensor): other for tensor, other in zip(self.tensors, inputs, strict=True)}

        def argument_for(node: torch.fx.Node) -> Any:
            size = size_of(node)
            if size is None:
                return by_tensor[id(example(node))]
            known = comparable(size)  # a guard may have fixed it since
            return known if isinstance(known, int) else sizes.get(known.expression, size)

        with as_captured(self.node.target, inputs):
            made = run_node(self.node, argument_for)
        mine: list[torch.Tensor] = []
        self.results = flatten_results(made, mine)
        self.outputs = [self.node] * len(mine)  # set by the trace
        results += mine


def as_captured(target: Any, inputs: Sequence[torch.Tensor]) -> AbstractContextManager[Any]:
    """Lets an operator treat sizes as its capture did (frontend/tracing/sizes/shapes.py): whether
    one that varies is 0 or 1 is not asked by operators to which it makes no difference. To the
    strides of a result it makes none where all inputs are contiguous."""
    if is_size_oblivious(target) and all(map(is_contiguous_for_all_sizes, inputs)):
        return CONFIG.patch(backed_size_oblivious=True)
    return nullcontext()


def by_operator(gm: torch.fx.GraphModule, trace: Trace) -> torch.fx.GraphModule | None:
    """The functional graph. `trace` traces a function on inputs, such that writes to inputs are
    `copy_` nodes at the end."""
    try:
        found = Operators(gm.graph)
        traced = trace(found.run, found.examples())
        found.take_apart(traced.graph)
        return AssembledGraph(gm.graph, found).module(traced)
    except NeedsWholeTrace:
        return None


class Operators:
    """The distinct operators of a graph. `of`: for each node, its operator and its tensors.
    `sizes`: varying sizes among their arguments."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.of: dict[torch.fx.Node, tuple[Operator, list[FakeTensor]]] = {}
        self.sizes: dict[sympy.Expr, torch.SymInt] = {}
        different: dict[Any, Operator] = {}
        # the version at the end of the graph, once all nodes were seen
        self.grad = torch.is_grad_enabled()
        for node in graph.nodes:
            if node.op not in (
                "placeholder",
                "call_function",
                "call_method",
                "output",
            ) or not is_understood(fake_of(node)):
                raise NeedsWholeTrace
            if (size := size_of(node)) is not None:
                self.sizes.setdefault(size.node.expr, size)
            elif node.target is GRAD_MODE:
                self.grad = node.args[0] is True
            elif node.op.startswith("call") and not is_item(node):
                tensors: dict[int, tuple[int, FakeTensor]] = {}
                key = node.op, node.target, signature((node.args, node.kwargs), tensors)
                if not tensors and example(node) is None:
                    raise NeedsWholeTrace  # it has a side effect, such as switching a mode
                own = [tensor for _, tensor in tensors.values()]
                self.of[node] = (
                    different.setdefault((key, self.extra_key(own)), self.operator(node, own)),
                    own,
                )
        self.different = list(different.values())

    def extra_key(self, tensors: Sequence[FakeTensor]) -> Any:
        """What two calls must also have in common, besides function, arguments and layouts."""
        return None

    def operator(self, node: torch.fx.Node, tensors: list[FakeTensor]) -> Operator:
        return Operator(node, tensors)

    def examples(self) -> list[Any]:
        """A tensor for each input of each operator, no two on the same memory; then the sizes."""
        tensors = (on_own_memory(tensor) for found in self.different for tensor in found.tensors)
        return [*tensors, *self.sizes.values()]

    def run(self, *inputs: Any) -> list[torch.Tensor]:
        """Calls every operator."""
        given = iter(inputs)
        sizes = self.last_inputs_as_sizes(inputs)
        results: list[torch.Tensor] = []
        for found in self.different:
            found.call([next(given) for _ in found.tensors], results, sizes)
        return results

    def last_inputs_as_sizes(self, inputs: Sequence[Any]) -> Sizes:
        """The sizes, which come after the tensors among a trace's inputs."""
        return dict(zip(self.sizes, inputs[len(inputs) - len(self.sizes) :], strict=True))

    def take_apart(self, graph: torch.fx.Graph) -> None:
        """Gives each operator its nodes of the traced graph."""
        places = {node: place for place, node in enumerate(graph.nodes)}
        placeholders, results = (
            iter(graph.find_nodes(op="placeholder")),
            iter(graph.output_node().args[0]),  # type: ignore[arg-type]
        )
        copies = [
            node
            for node in graph.find_nodes(op="call_function", target=COPY)
            if node.args[0].op == "placeholder"
        ]
        new_values = {node.args[0]: node.args[1] for node in copies}
        owned = {*copies}
        for found in self.different:
            found.inputs = [next(placeholders) for _ in found.tensors]
            found.outputs = [next(results) for _ in found.outputs]
            found.written = {
                number: new_values[node]
                for number, node in enumerate(found.inputs)
                if node in new_values
            }
            roots = [*found.outputs, *found.written.values()]
            if not roots or not all(isinstance(node, torch.fx.Node) for node in roots):
                raise NeedsWholeTrace
            needed = ancestors_of(roots)
            owned |= needed
            found.nodes = sorted(needed - set(found.inputs), key=places.__getitem__)
        if any(node.op.startswith("call") and node.is_impure() for node in places.keys() - owned):
            raise NeedsWholeTrace


class AssembledGraph:
    """The graph of copies. `values`: for each captured node, the copies that it became: one, or
    nested lists."""

    def __init__(self, captured: torch.fx.Graph, operators: Operators) -> None:
        self.nodes: list[Copy] = []
        self.originals: dict[torch.fx.Node, Original] = {}
        self.captured = captured
        self.values: dict[torch.fx.Node, Any] = {}
        self.last: dict[torch.fx.Node, int] = {}  # position of the last use
        self.made: dict[torch.fx.Node, int] = {}  # position where the value is computed
        # for each memory, the nodes that are views of it
        self.shown: dict[int, list[torch.fx.Node]] = {}
        self.made_of: dict[Any, Copy] = {}  # copies, by their original and their inputs
        self.inputs = {
            node: self.placeholder({"val": node.meta["example_value"]})
            for node in captured.find_nodes(op="placeholder")
        }
        self.values |= self.inputs
        self.sizes = SizeNodes(self.inputs.values(), self.add)
        for place, node in enumerate(captured.nodes):
            self.last |= dict.fromkeys(node.all_input_nodes, place)
            self.made[node] = self.made[node.args[0]] if is_item(node) else place
            if (tensor := example(node)) is not None:
                self.shown.setdefault(memory_of(tensor), []).append(node)
        self.returned = self.makers(captured.output_node().all_input_nodes)
        for node in captured.nodes:
            if size_of(node) is not None:
                continue  # computed where it is used
            if is_item(node):
                self.values[node] = self.values[node.args[0]][node.args[1]]
            elif node in operators.of:
                self.copy(node, *operators.of[node])
            if example(node) is not None and window_of(example(node)) != window_of(
                self.values[node].meta["val"]
            ):
                raise NeedsWholeTrace

    def module(self, constants: Any) -> torch.fx.GraphModule:
        """The whole graph: it writes the new values of inputs, then returns the results."""
        graph = torch.fx.Graph()
        for node in self.captured.output_node().all_input_nodes:
            if (size := size_of(node)) is not None:
                self.values[node] = self.find_size(size.node.expr)
        made = write_copies(graph, self.nodes)
        for node, own in self.inputs.items():
            if self.values[node] is not own:
                graph.call_function(COPY, (made[own], made[self.values[node]])).meta = {
                    "val": own.meta["val"]
                }
        graph.output(
            torch.fx.node.map_arg(
                self.captured.output_node().args[0],
                lambda node: nest_results(self.values[node], made),
            )
        )
        return module(constants, graph, "Functional")

    def placeholder(self, meta: dict[str, Any]) -> Copy:
        return self.add(INPUT, (), meta, f"arg{len(self.nodes)}_1")

    def add(
        self, source: torch.fx.Node, inputs: Sequence[Copy], meta: dict[str, Any], name: str = ""
    ) -> Copy:
        made = Copy(source, inputs, meta, name)
        self.nodes.append(made)
        return made

    def makers(self, nodes: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
        """The nodes that allocate, write or view these memories."""
        shown = (
            other
            for node in nodes
            if example(node) is not None
            for other in self.shown[memory_of(example(node))]
        )
        return {other.args[0] if is_item(other) else other for other in shown}  # type: ignore[misc]

    def copy(
        self, node: torch.fx.Node, found: Operator, tensors: Sequence[FakeTensor]
    ) -> dict[torch.fx.Node, Copy]:
        """Adds an operator's nodes for one of its calls. Returns the copies of its results."""
        by_tensor = {
            id(example(other)): self.values[other]
            for other in node.all_input_nodes
            if size_of(other) is None
        }
        copies = dict(zip(found.inputs, (by_tensor[id(tensor)] for tensor in tensors), strict=True))
        apart = (
            {own for output in found.outputs for own in self.original(output).memory}
            if node in self.returned
            else set()
        )
        self.graft(found.nodes, copies, apart)
        self.values[node] = place_results(
            found.results, [copies[output] for output in found.outputs]
        )
        for number, value in found.written.items():
            self.rebind(node, tensors, tensors[number], copies[value])
        return copies

    def graft(
        self,
        nodes: Iterable[torch.fx.Node],
        copies: dict[torch.fx.Node, Copy],
        apart: Container[Any] = (),
    ) -> None:
        """Adds copies of nodes; a node whose copy with the same inputs exists is not copied again.
        Copies of their inputs are in `copies`, which also gets the new ones. apart: memory of the
        graph's results, which must not be merged."""
        memory = {
            own: other
            for old, new in copies.items()
            for own, other in zip(self.original(old).memory, memories(new), strict=True)
        }
        for old in nodes:
            original = self.original(old)
            if original.is_size:
                copies[old] = self.find_size(old.meta["val"].node.expr)
                continue
            if original.is_number:
                raise NeedsWholeTrace
            inputs = [copies[other] for other in original.inputs]
            same = old, *inputs
            if original.is_random or any(own in apart for own in original.memory):
                new = self.add_copy(old, inputs, memory)
            elif (known := self.made_of.get(same)) is None:
                new = self.made_of[same] = self.add_copy(old, inputs, memory)
            else:
                new = known
                memory |= zip(original.memory, memories(new), strict=True)
            copies[old] = new

    def find_size(self, expression: sympy.Expr) -> Copy:
        """The node that computes a size."""
        try:
            return self.sizes.find(expression)
        except CannotCompute:
            raise NeedsWholeTrace from None

    def original(self, old: torch.fx.Node) -> Original:
        """The facts of a node, cached: many copies of it are made."""
        known = self.originals.get(old)
        if known is None:
            known = self.originals[old] = Original.of(old)
        return known

    def add_copy(self, old: torch.fx.Node, inputs: Sequence[Copy], memory: dict[Any, Any]) -> Copy:
        own = [memory.setdefault(own, object()) for own in self.original(old).memory]
        return self.add(old, inputs, {"val": old.meta.get("val"), "memory": own})

    def rebind(
        self, node: torch.fx.Node, tensors: Sequence[FakeTensor], target: FakeTensor, value: Copy
    ) -> None:
        """Views of memory that a node writes now view the new value."""
        place, memory = self.made[node], memory_of(target)
        if any(memory_of(tensor) == memory for tensor in tensors if tensor is not target):
            raise NeedsWholeTrace
        # its next user was traced with the offset and the strides of the target
        moved = window_of(value.meta["val"]) != window_of(target)
        for other in self.shown[memory]:
            before = self.made[other] < place
            if before and moved and self.last.get(other, -1) > place:
                raise NeedsWholeTrace
            if before and other in self.values and window_of(example(other)) == window_of(target):
                self.values[other] = value
            elif before and (other.op == "placeholder" or self.last.get(other, -1) > place):
                raise NeedsWholeTrace


# --- results ---


def flatten_results(made: Any, tensors: list[torch.Tensor]) -> Any:
    """An operator's results, with its tensors taken out."""
    if isinstance(made, torch.Tensor):
        tensors.append(made)
        return Result(len(tensors) - 1)
    if isinstance(made, (tuple, list)):
        return [flatten_results(item, tensors) for item in made]
    if made is None or isinstance(made, PLAIN):
        return made
    raise NeedsWholeTrace


def place_results(results: Any, nodes: Sequence[Copy]) -> Any:
    if isinstance(results, Result):
        return nodes[results.number]
    return (
        [place_results(item, nodes) for item in results] if isinstance(results, list) else results
    )


def nest_results(value: Any, made: Mapping[Copy, torch.fx.Node]) -> Any:
    if isinstance(value, list):
        return [nest_results(item, made) for item in value]
    return made[value] if isinstance(value, Copy) else value


def ancestors_of(roots: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    """The nodes from which others are computed, themselves included. Sizes among them are computed
    in another way in the assembled graph."""
    found: set[torch.fx.Node] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [] if is_varying_size(node) else node.all_input_nodes
    return found
