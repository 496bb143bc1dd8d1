"""Restores what eager's autograd does and a single autograd node for a whole graph does not: an
input that no output with a gradient depends on keeps None, and a backward pass can itself be
differentiated.

In: a captured graph and what an ahead-of-time compiler made of it, which runs as one node named
CompiledFunctionBackward. Out: a callable that leaves the same gradients as eager.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from ..graph.extracted_calls import Checkpointed
from ..graph.grad_mode import is_on_at_both_ends, switching, without_switches_at_the_ends
from ..graph.hidden_writes import hides_writes
from ..graph.mutations import is_norm, may_write, written_by
from ..graph.node_targets import name_of
from ..graph.passes.memory import memory_at
from ..graph.runtime_errors import ENTER_INFERENCE_MODE, draws_random_numbers
from .data_results import data_results, shows_data_of_inputs, with_own_versions
from .gradient_layouts import GradientLayouts
from .split_graph import AUTOGRAD, CannotSplit, Subgraph, SubgraphSequence, split_graph

# aot_autograd traces in anomaly mode, which warns of an error before it is raised.
ANOMALY = r"Error detected in |\s*Previous calculation was induced by "
Build = Callable[
    [torch.fx.GraphModule, list[Any]], Callable[..., Any]
]  # compiles a graph, as one node of autograd's
NODE = "CompiledFunctionBackward"


MOST_FLOATS = 32  # that one graph has to find out about one by one
# What a compiler may raise for a backward pass that depends on values, or that has no functional
# form. torch.fx writes no valid Python for operators with an overload called "from" (random_).
UNTRACEABLE = (
    DynamicOutputShapeException,
    DataDependentOutputException,
    NotImplementedError,
    SyntaxError,
)
# Parts of error messages with which autograd or aot_autograd refuses a graph. Such a graph runs as
# captured.
REFUSALS = (
    "modified by an inplace operation",  # a tensor that the backward pass needs was overwritten
    # two inputs on one memory, one of them written, with sizes that vary
    "is not tracked with proxy",
    # the same, where one of them has no gradient
    "does not yet handle non-differentiable view input mutations",
    "dispatch_on_subclass called with NO overloaded args",  # resize_as_ with sizes that vary
    # a backward pass that wants sizes as numbers, where they vary
    "expected to contain only concrete integers",
    # a write into a tensor of which several elements share memory
    "a tensor being mutated that has internal overlap",
)


def ahead_of_time(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, *, random_like_eager: bool
) -> Callable[..., Any]:
    """What `build` compiles of a graph, or of its pieces, with eager's gradients; the graph as it
    is where nobody can say beforehand what eager's autograd would do. random_like_eager: the
    compiled graph draws the numbers that gm itself would draw."""
    if wants_gradients(gm) and shows_data_of_inputs(gm):
        return gm.forward
    compiled = _ahead_of_time(gm, example_inputs, build, random_like_eager)
    places = data_results(gm)
    return with_own_versions(compiled, places) if places and compiled != gm.forward else compiled


def _ahead_of_time(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, random_like_eager: bool
) -> Callable[..., Any]:
    """Does what ahead_of_time does, but for the version counters of results."""
    if wants_gradients(gm) and not is_on_at_both_ends(gm):
        found_inside = without_switches_at_the_ends(gm)
        if found_inside is None:
            return gm.forward
        inside, behind = found_inside
        with torch.enable_grad():
            return switching(
                _ahead_of_time(inside, example_inputs, build, random_like_eager),
                behind,
            )
    lost = any(
        lost_its_history(node) or is_view_of_a_function(node)
        for node in gm.graph.output_node().all_input_nodes
    )
    lost = lost or any(map(lost_its_history, gm.graph.find_nodes(op="placeholder")))
    if (
        lost
        or hides_writes(gm)
        or checks_in_backward(gm)
        or changes_leaves(gm)
        or spreads_out(gm)
        or any(map(is_its_own, gm.graph.nodes))
    ):
        return gm.forward
    try:
        found = split_graph(gm)
    except CannotSplit:
        if any(name_of(node) in AUTOGRAD for node in gm.graph.nodes):
            return gm.forward
        found = None
    if found is None:
        return one_node(gm, example_inputs, build, random_like_eager)
    pieces, results = found

    def compile_piece(piece: Subgraph) -> Callable[..., Any]:
        return (
            piece.gm.forward
            if piece.is_small
            else one_node(piece.gm, piece.examples(example_inputs), build, random_like_eager)
        )

    return SubgraphSequence(pieces, [compile_piece(piece) for piece in pieces], results)


# Operators whose backward pass in torch reads sizes as numbers: a trace of it holds for these
# alone.
SIZES_IN_BACKWARD = frozenset(
    """cumprod cumprod_ vander linalg_vander sgn sgn_ linalg_householder_product orgqr ormqr
    fractional_max_pool2d
    fractional_max_pool2d_with_indices""".split()
)
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def is_its_own(node: torch.fx.Node) -> bool:
    """Whether torch's operators do of a node what a compiled graph would not."""
    return (
        runs_as_captured(node)
        or pins_sizes(node)
        or (isinstance(node.target, Checkpointed) and node.target.writes)
    )


def runs_as_captured(node: torch.fx.Node) -> bool:
    """Whether torch's operators do of a node what no compiled graph would: what is made in
    inference mode stays marked as such."""
    return (
        name_of(node) == ENTER_INFERENCE_MODE
        or decomposes_badly(node)
        or is_traced_with_other_layouts(node)
        or keeps_wider_statistics(node)
        or refuses_integers(node)
        or depends_on_layout(node)
        or writes_a_list_with_gradients(node)
    )


def writes_a_list_with_gradients(node: torch.fx.Node) -> bool:
    """Whether a `_foreach_*_` operator writes tensors that have a history. Functional tensors do
    not count these writes, so views of what was written would keep their history from before. And
    of two writes into one tensor, eager may record only one."""
    if node.op != "call_function" or not name_of(node).startswith("_foreach_"):
        return False
    return any(needs_gradient(leaf) for leaf in written_by(node))


# Operators of whose backward pass torch has a second formula for fake tensors, the gradients of
# which have other strides.
TWO_FORMULAS = frozenset({"linalg_householder_product", "orgqr", "ormqr"})


def is_traced_with_other_layouts(node: torch.fx.Node) -> bool:
    """Whether a trace of a node's backward pass lays out gradients otherwise than eager."""
    return name_of(node) in TWO_FORMULAS and any(map(needs_gradient, node.all_input_nodes))


# Operators that fill a tensor with random numbers. Of one that is not contiguous, the order in
# which they do, and the strides of a new one, are others in functional graphs and on fake tensors.
FILLS = frozenset(
    """bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_ dropout_
    alpha_dropout alpha_dropout_
    feature_alpha_dropout feature_alpha_dropout_ rrelu rrelu_ normal poisson _sample_dirichlet
    _standard_gamma""".split()
)


# Operators whose functional forms lay out results otherwise, or accept what they refuse.
OTHER_STRIDES = frozenset(
    """channel_shuffle native_channel_shuffle native_dropout_backward native_group_norm max_unpool2d
    resize_ resize_as_""".split()
)


def depends_on_layout(node: torch.fx.Node) -> bool:
    """Whether the random numbers of a node, or the strides of its result, depend on the strides of
    its tensors, which are not contiguous, otherwise than a trace says."""
    if name_of(node).partition(".")[0] not in FILLS | OTHER_STRIDES:
        return False
    fakes = map(_fake, node.all_input_nodes)
    return any(isinstance(fake, torch.Tensor) and not fake.is_contiguous() for fake in fakes)


def keeps_wider_statistics(node: torch.fx.Node) -> bool:
    """Whether a normalisation on the CPU keeps its statistics for the backward pass in the
    parameters' dtype, which is wider than the input's: FakeTensor promises them in the input's, and
    a compiled backward pass would read them as such."""
    if not is_norm(node) or not needs_gradient(node):
        return False
    given = [fake for fake in map(_fake, node.all_input_nodes) if isinstance(fake, torch.Tensor)]
    return given[0].device.type == "cpu" and any(
        other.dtype != given[0].dtype for other in given[1:]
    )


def refuses_integers(node: torch.fx.Node) -> bool:
    """Whether torch's operator has no kernel for its integers, and raises, where its decomposition
    works."""
    if name_of(node) not in ("lerp", "lerp_") or not node.all_input_nodes:
        return False
    fake = _fake(node.all_input_nodes[0])
    return isinstance(fake, torch.Tensor) and not fake.is_floating_point() and not fake.is_complex()


def pins_sizes(node: torch.fx.Node) -> bool:
    """Whether a trace of a node's backward pass would rely on a size that varies."""
    if name_of(node) not in SIZES_IN_BACKWARD or not any(map(needs_gradient, node.all_input_nodes)):
        return False
    return any(
        isinstance(size, torch.SymInt)
        for other in node.all_input_nodes
        for size in getattr(_fake(other), "shape", ())
    )


def decomposes_badly(node: torch.fx.Node) -> bool:
    """Whether torch's own decomposition of a recurrent network on the CPU does something else:
    dropout draws other numbers, and the backward pass of an LSTM lacks its workspace."""
    if (
        node.op != "call_function"
        or name_of(node) not in RECURRENT
        or _fake(node.args[0]).device.type != "cpu"
    ):
        return False
    first = next(
        (index for index, arg in enumerate(node.args) if isinstance(arg, bool)), 0
    )  # has_biases, num_layers, dropout, train
    drops = node.args[first + 2 : first + 4]
    return all(drops) or (name_of(node) == "lstm" and any(map(needs_gradient, node.users)))


def one_node(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, random_like_eager: bool
) -> Callable[..., Any]:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ANOMALY)
            compiled = build_again(lambda: build(gm, example_inputs))
    except UNTRACEABLE:
        return gm.forward
    except Exception as error:
        if any(said in str(error) for said in REFUSALS) or any(
            node.target is torch.autograd.grad for node in gm.graph.nodes
        ):
            return (
                gm.forward
            )  # a backward pass may lack what it needs, or that was freed; then it raises, later
        raise
    return like_eager(gm, compiled, random_like_eager)


def build_again(build: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """What `build` compiles. aot_autograd gives up where it finds a float that varied and is relied
    on after all, and gets by the next time, since it has written the float down."""
    for _ in range(MOST_FLOATS):
        try:
            return build()
        except Exception as error:
            if type(error).__name__ != "TensorifyScalarRestartAnalysis":
                raise
    return build()


def like_eager(
    gm: torch.fx.GraphModule, compiled: Callable[..., Any], random_like_eager: bool
) -> Callable[..., Any]:
    """Wraps `compiled` where gradients are taken."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    results: Any = gm.graph.output_node().args[0]
    outputs = list(results)
    wanted = [index for index, node in enumerate(placeholders) if comes_with_gradient(node)]
    memory = {memory_at(placeholders[index]) for index in wanted} - {None}
    made = [
        (number, node)
        for number, node in enumerate(outputs)
        if isinstance(node, torch.fx.Node) and node.op != "placeholder"
    ]
    gains = any(map(gains_history, placeholders))
    without = [
        number
        for number, node in made
        if not needs_gradient(node) and (gains or memory_at(node) in memory)
    ]
    if without:
        compiled = detaching(compiled, without)
    if not wanted or not wants_gradients(gm):
        return compiled
    starts = GradientStarts({index: placeholders[index] for index in wanted})
    reached = [
        starts.inputs_reached_from(_fake(node)) if needs_gradient(node) else None
        for node in (*outputs, *placeholders)
    ]
    random = draws_random_numbers(list(gm.graph.nodes))
    again = None if random and not random_like_eager else _replay(gm, placeholders)
    layouts = GradientLayouts(gm, wanted)
    return CompiledNode(compiled, reached, len(outputs), wanted, again, random, layouts)


def lost_its_history(node: torch.fx.Node) -> bool:
    """Whether autograd refuses to say how a tensor came about: a view of which its operator gave
    several, on memory written to since."""
    if not needs_gradient(node):
        return False
    try:
        _fake(node).grad_fn  # noqa: B018
    except RuntimeError:
        return True
    return False


def is_view_of_a_function(node: torch.fx.Node) -> bool:
    """Whether a tensor is an input, or a view of one, that a custom autograd.Function returned:
    autograd lets nobody write to it."""
    fake = _fake(node)
    view = needs_gradient(node) and fake._is_view()
    return view and _get_creation_meta(fake) == CreationMeta.IN_CUSTOM_FUNCTION


def changes_leaves(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph makes leaves that require gradients, and hands one out: to a compiler nothing
    made inside is a leaf. A view that no history was kept of is one, too."""
    leaves = [
        node
        for node in gm.graph.output_node().all_input_nodes
        if needs_gradient(node) and _fake(node).is_leaf
    ]
    made = any(node.op != "placeholder" for node in leaves)
    marks = gm.graph.find_nodes(op="call_method", target="requires_grad_")
    return made or bool(marks and (leaves or starts_inside(gm)))


def starts_inside(gm: torch.fx.GraphModule) -> bool:
    """Whether a result has a gradient though no input leads to it: a leaf was made inside the
    graph."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    starts = GradientStarts(
        {index: node for index, node in enumerate(placeholders) if comes_with_gradient(node)}
    )
    made = (
        node
        for node in gm.graph.output_node().all_input_nodes
        if node.op != "placeholder" and needs_gradient(node)
    )
    return not all(starts.inputs_reached_from(_fake(node)) for node in made)


def spreads_out(gm: torch.fx.GraphModule) -> bool:
    """Whether a result with a gradient has elements that share memory: aot_autograd would write its
    gradient into such memory."""
    results = (
        _fake(node) for node in gm.graph.output_node().all_input_nodes if needs_gradient(node)
    )
    strided = (fake for fake in results if fake.layout == torch.strided)
    return any(
        stride == 0 and size != 1
        for fake in strided
        for size, stride in zip(fake.shape, fake.stride(), strict=True)
    )


def checks_in_backward(gm: torch.fx.GraphModule) -> bool:
    """Whether eager's backward pass may raise because of numbers: complex eigenvectors and singular
    vectors are unique only up to a phase, and eager refuses losses that depend on it. A traced
    backward pass would not."""
    vectors = (
        node for node in gm.graph.nodes if any(word in name_of(node) for word in ("eig", "svd"))
    )
    around = (other for node in vectors for other in (*node.all_input_nodes, *node.users))
    return any(needs_gradient(node) and _fake(node).is_complex() for node in around)


def _fake(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None


def detaching(compiled: Callable[..., Any], numbers: Sequence[int]) -> Callable[..., Any]:
    """A compiled graph, some of its results without a history: a view made while none was kept,
    which aot_autograd makes anew, or a result of an input that gained a history afterwards."""

    def call(*args: Any) -> Any:
        results = list(compiled(*args))
        for number in numbers:
            if getattr(results[number], "requires_grad", False):
                results[number] = results[number].detach()
        return tuple(results)

    return call


def needs_gradient(node: Any) -> bool:
    """Whether a node is a tensor that requires a gradient."""
    fake = _fake(node)
    return isinstance(fake, torch.Tensor) and fake.requires_grad


def wants_gradients(gm: torch.fx.GraphModule) -> bool:
    """Whether gradients flow back through a captured graph: from a result, or from an input whose
    new content has a history."""
    written = map(gains_history, gm.graph.find_nodes(op="placeholder"))
    return any(map(needs_gradient, gm.graph.output_node().all_input_nodes)) or any(written)


def note_history(node: torch.fx.Node, fake: torch.Tensor) -> None:
    """Writes into an input's meta what autograd knows of it before the graph runs; writing into a
    view gives its base a history."""
    node.meta["grad_fn"] = fake.grad_fn
    node.meta["base_grad_fn"] = (
        fake._base.grad_fn
        if fake.requires_grad and fake._is_view() and fake._base is not None
        else None
    )


def gains_history(node: torch.fx.Node) -> bool:
    """Whether autograd has seen the graph write into an input."""
    return needs_gradient(node) and (
        lost_its_history(node) or _fake(node).grad_fn is not node.meta.get("grad_fn")
    )


def comes_with_gradient(node: torch.fx.Node) -> bool:
    """Whether an input requires a gradient before the graph runs: a leaf that does so may not be
    written to where autograd looks."""
    return needs_gradient(node) and (
        node.meta.get("grad_fn") is not None or not gains_history(node)
    )


class GradientStarts:
    """Where gradients by inputs leave a graph: at a leaf, or at the autograd node that made the
    input; writing into the input has not moved that. placeholders: by position of the input."""

    def __init__(self, placeholders: Mapping[int, torch.fx.Node]) -> None:
        self.leaves = {
            id(_fake(node)): index
            for index, node in placeholders.items()
            if not node.meta.get("grad_fn")
        }
        self.made: dict[Any, set[int]] = {}  # one node may have made several inputs
        for index, node in placeholders.items():
            if node.meta.get("grad_fn"):
                for made in {node.meta["grad_fn"], node.meta.get("base_grad_fn")} - {None}:
                    self.made.setdefault(made, set()).add(index)

    def inputs_reached_from(self, fake: torch.Tensor) -> frozenset[int]:
        """Positions of the inputs that a backward pass from a tensor reaches."""
        if fake.grad_fn is None:
            return frozenset({self.leaves[id(fake)]} if id(fake) in self.leaves else ())
        seen: set[Any] = set()
        found: set[int] = set()
        todo = [fake.grad_fn]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self.made:  # what lies behind it is none of this graph's
                found |= self.made[node]
                continue
            if (leaf := id(getattr(node, "variable", None))) in self.leaves:
                found.add(self.leaves[leaf])
            todo += [following for following, _ in node.next_functions if following is not None]
        return frozenset(found)


def _replay(
    gm: torch.fx.GraphModule, placeholders: Sequence[torch.fx.Node]
) -> tuple[Callable[..., Any], frozenset[int]] | None:
    """How to run the graph a second time: its function, and positions of inputs that it gets copies
    of: running statistics and counters, which training only writes. None where the graph overwrites
    something that it may also read."""
    copied = {
        node
        for node in placeholders
        if node.users and all(may_write(user) and not user.users for user in node.users)
    }
    for node in gm.graph.nodes:
        if is_norm(node):  # it writes running statistics, and reads none of them while training
            copied |= {
                other
                for other in node.all_input_nodes[1:]
                if isinstance(_fake(other), torch.Tensor) and not needs_gradient(other)
            }
    if any(
        node not in copied for node in placeholders if node.meta.get("mutated")
    ) or not copied <= set(placeholders):
        return None
    return gm.forward, frozenset(placeholders.index(node) for node in copied)


@dataclass
class NodeWiring:
    """Where a compiled graph's node sits, learnt from its first call. `end`: the output that leads
    to it, in `steps` steps. `rows`: by output of the node, the inputs reached from it. `inputs`: by
    next function, the input (None: unknown). `own`: by output of the node, the graph's output that
    it is. `rebuilt`: whether others are made of it outside."""

    end: int
    steps: int
    rows: dict[int, frozenset[int]]
    inputs: tuple[int | None, ...]
    own: dict[int, int]
    rebuilt: bool


class CompiledNode:
    """Calls a compiled graph and watches its node in the backward pass."""

    def __init__(
        self, compiled: Callable[..., Any], reached: Sequence[frozenset[int] | None], outputs: int,
        wanted: Sequence[int],
        again: tuple[Callable[..., Any], frozenset[int]] | None, random: bool,
        layouts: GradientLayouts,
    ) -> None:  # fmt: skip
        self.compiled, self.reached, self.outputs, self.wanted = compiled, reached, outputs, wanted
        self.again, self.random, self.layouts = again, random, layouts
        self.wiring: NodeWiring | None = None

    def __call__(self, *args: Any) -> Any:
        edges = (
            [get_gradient_edge(args[index]) for index in self.wanted] if self.wiring is None else []
        )
        older = {node for arg in args for node in histories(arg)} if self.wiring is None else set()
        state = torch.get_rng_state() if self.random and self.again is not None else None
        results = self.compiled(*args)
        if self.wiring is None:
            self.wiring = self.learn(results, args, edges, older)
        wiring = self.wiring
        if wiring.end >= 0:
            node = (*results, *args)[wiring.end].grad_fn
            for _ in range(wiring.steps):
                node = node.next_functions[-1][0] if node is not None else None
            if type(node).__name__ != NODE:  # this call kept no history
                return results
            node.register_hook(Backward(self, wiring, args, state))
        return results

    def learn(
        self,
        results: Sequence[Any],
        args: Sequence[Any],
        edges: Sequence[GradientEdge],
        older: Collection[Node],
    ) -> NodeWiring:
        """older: nodes that there were before the call; another compiled graph's may be among those
        behind them."""
        end, steps, found = -1, 0, None
        rows: dict[int, frozenset[int]] = {}
        own: dict[int, int] = {}
        rebuilt = False
        as_before = {
            self.outputs + index: edge.node for edge, index in zip(edges, self.wanted, strict=True)
        }
        for position, (tensor, reached) in enumerate(
            zip((*results, *args), self.reached, strict=True)
        ):
            if (
                reached is None
                or not isinstance(tensor, torch.Tensor)
                or tensor.grad_fn in (None, as_before.get(position))
            ):
                continue
            depth, node, number = chain(tensor, older)
            if node is None:
                continue
            if found is None:
                end, steps, found = position, depth, node
            rows[number] = rows.get(number, frozenset()) | reached
            if depth or position >= self.outputs:
                rebuilt = True
            else:
                own[number] = position
        by_edge: dict[tuple[Node | None, int], int] = {}
        for edge, index in zip(edges, self.wanted, strict=True):
            by_edge[edge.node, edge.output_nr] = index
        inputs = (
            tuple(by_edge.get(edge) for edge in found.next_functions) if found is not None else ()
        )
        self.layouts.learn(results, args)
        return NodeWiring(end, steps, rows, inputs, own, rebuilt)


def histories(arg: Any) -> list[Node]:
    """The nodes that made an argument and what it is a view of."""
    if not isinstance(arg, torch.Tensor) or not arg.requires_grad:
        return []
    nodes = [arg.grad_fn, arg._base.grad_fn if arg._is_view() and arg._base is not None else None]
    return [node for node in nodes if node is not None]


def chain(tensor: torch.Tensor, older: Collection[Node]) -> tuple[int, Node | None, int]:
    """Follows a tensor's history down to the compiled node: steps, the node (None: not found),
    which output of it. Of a write, the last of the next nodes is that of what was written."""
    node, number = tensor.grad_fn, tensor.output_nr
    for depth in range(8):
        if node is None or node in older:
            break
        if type(node).__name__ == NODE:
            return depth, node, number
        node, number = node.next_functions[-1] if node.next_functions else (None, 0)
    return 0, None, 0


class Backward:
    """The node's hook: sees the gradients that came and went, and sets right those that went."""

    def __init__(
        self,
        graph: CompiledNode,
        wiring: NodeWiring,
        args: Sequence[Any],
        state: torch.Tensor | None,
    ) -> None:
        self.graph, self.wiring, self.args, self.state = graph, wiring, args, state
        self.versions = versions(args)

    def __call__(
        self, left: Sequence[torch.Tensor | None], came: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...] | None:
        given = {
            number: grad
            for number, grad in enumerate(came)
            if grad is not None and number in self.wiring.rows
        }
        reached = frozenset[int]().union(*(self.wiring.rows[number] for number in given))
        places = zip(self.wiring.inputs, left, strict=True)
        grads = tuple(
            None if index is not None and index not in reached else grad for index, grad in places
        )
        if torch.is_grad_enabled() and self.graph.again is not None and not self.wiring.rebuilt:
            return self.differentiable(given, grads)
        grads = self.graph.layouts.like_eager(
            given, grads, self.wiring.inputs, self.args, self.wiring.own
        )
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self.args = ()  # nothing comes again: what eager would have freed must not stay alive
        return grads

    def differentiable(
        self, given: dict[int, torch.Tensor], grads: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The same gradients with a history: the graph runs again under eager's autograd."""
        assert self.graph.again is not None
        forward, copied = self.graph.again
        now_at = enumerate(zip(self.versions, versions(self.args), strict=True))
        if any(before != now for position, (before, now) in now_at if position not in copied):
            raise RuntimeError(
                "an input of a compiled function was modified in place before its backward pass "
                "was differentiated"
            )
        args = [
            arg.detach().clone() if position in copied else arg
            for position, arg in enumerate(self.args)
        ]
        for index in self.graph.wanted:
            args[index] = args[index].view_as(
                args[index]
            )  # one may be made of another: each keeps its own share
        now = torch.get_rng_state() if self.state is not None else None
        if self.state is not None:
            torch.set_rng_state(self.state)
        try:
            results = forward(*args)
        finally:
            if now is not None:
                torch.set_rng_state(now)
        wanted = [
            index
            for index, grad in zip(self.wiring.inputs, grads, strict=True)
            if index is not None and grad is not None
        ]
        outputs = [results[self.wiring.own[number]] for number in given]
        made = torch.autograd.grad(
            outputs,
            [args[index] for index in wanted],
            list(given.values()),
            create_graph=True,
            allow_unused=True,
        )
        fresh = dict(zip(wanted, made, strict=True))
        return tuple(
            grad if index not in fresh else fresh[index]
            for index, grad in zip(self.wiring.inputs, grads, strict=True)
        )


def versions(args: Sequence[Any]) -> list[int]:
    """How often each was written to."""
    return [
        arg._version if isinstance(arg, torch.Tensor) and not arg.is_inference() else 0
        for arg in args
    ]
