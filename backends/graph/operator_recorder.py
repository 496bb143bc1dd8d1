"""Records the operators that a function calls on fake tensors, as a graph.

It does what torch's make_fx does, for sizes that are numbers, and without loading TorchDynamo and
SymPy: that takes a second, and a compiler that sees no varying size needs neither. Sizes that vary
are recorded as what they are, not how they are computed, which takes half the time of make_fx; that
is enough where the graph is taken apart and its sizes are computed anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import extract_val
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, autograd_would_have_decomposed

from .copies import module

ATEN = torch.ops.aten
# what torch asks tensors themselves, and never takes apart
LAYOUT = (ATEN.size.default, ATEN.stride.default, ATEN.storage_offset.default)
DEVICE = torch.ops.prim.device.default
# tensors that a program creates of numbers are new in each call
NEW_COPY = {ATEN.lift_fresh.default: ATEN.lift_fresh_copy.default}
RECORDED = (FakeTensor, torch.Tensor, torch.nn.Parameter)
WRITTEN = (
    bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


# of a result's number or size
VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class CannotRecord(Exception):
    """The function uses something that only make_fx traces: a size that varies, unless such are
    recorded, a number that depends on values, an operator of higher order, or a subclass of
    tensors."""


class GivenSize:
    """The target of a node that stands for a size that varies."""

    __name__ = "given_size"

    def __init__(self, value: torch.SymInt) -> None:
        self.value = value

    def __call__(self) -> torch.SymInt:
        return self.value


def record_operators(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    decompositions: Mapping[Any, Callable[..., Any]],
    *,
    sizes: bool = False,
) -> torch.fx.GraphModule:
    """The operators that function(*inputs) calls, decomposed, as a graph. sizes: sizes that vary
    are recorded too, each as a call of a GivenSize."""
    recorder = OperatorRecorder(decompositions, sizes)
    for value in inputs:
        recorder.add_input(value)
    with without_autocast_cache(), without_new_symbols(inputs), recorder:
        results = function(*inputs)
    if not all(map(recorder.is_recordable, pytree.tree_leaves(results))):
        raise CannotRecord
    recorder.graph.output(pytree.tree_map(recorder.argument, results))
    return module(recorder.constants, recorder.graph, "Recorded")


@contextmanager
def without_autocast_cache() -> Iterator[None]:
    """Converts parameters for each of their uses: a converted one that autocast cached earlier
    would be a tensor that the graph does not know."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


@contextmanager
def without_new_symbols(inputs: Sequence[Any]) -> Iterator[None]:
    """Forgets the symbols of sizes that depend on values where they cannot be recorded: make_fx
    runs the function again, and looks for all symbols that are not taken."""
    modes = [value.fake_mode for value in inputs if isinstance(value, FakeTensor)]
    env = modes[0].shape_env if modes else None
    pending = [] if env is None else env.pending_fresh_unbacked_symbols
    count = len(pending)
    try:
        yield
    except CannotRecord:
        del pending[count:]
        raise


class OperatorRecorder(TorchDispatchMode):
    """`nodes`: by the id of a tensor, the node whose result it is. The tensors are kept, so that no
    other one gets the same id. `sizes`: the nodes of sizes that vary, by their expressions; None
    where they are not recorded."""

    supports_higher_order_operators = True  # they call __torch_dispatch__

    def __init__(self, decompositions: Mapping[Any, Callable[..., Any]], sizes: bool) -> None:
        super().__init__()
        self.sizes: dict[Any, torch.fx.Node] | None = {} if sizes else None
        self.graph = torch.fx.Graph()
        self.decompositions = decompositions
        self.nodes: dict[int, torch.fx.Node] = {}
        self.kept: list[torch.Tensor] = []
        self.constants: dict[str, torch.Tensor] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps __torch_dispatch__ to keep TorchDynamo out of it, which loads it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator and records its call. Raises CannotRecord for what does not follow from
        metadata."""
        named = kwargs or {}
        if func is DEVICE:
            return func(*args, **named)
        flat, form = pytree.tree_flatten((args, named))
        if not isinstance(func, OpOverload) or not all(map(self.is_recordable, flat)):
            raise CannotRecord
        taken_apart = self.take_apart(func, flat, args, named)
        if taken_apart is not NotImplemented:
            return taken_apart
        if depends_on_values(func, flat):
            raise CannotRecord
        func = NEW_COPY.get(func, func)
        call_args, call_kwargs = pytree.tree_unflatten(map(self.argument, flat), form)
        result = func(*args, **named)
        if not all(map(self.is_recordable, pytree.tree_leaves(result))):
            raise CannotRecord
        self.name_results(self.call(func, call_args, call_kwargs), result)
        return result

    def take_apart(self, func: OpOverload, flat: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """The result of an operator as the operators that it is made of, if they are wanted."""
        with self:
            if func in self.decompositions:
                found = self.decompositions[func](*args, **kwargs)
                if found is not NotImplemented:
                    return found
            if func not in LAYOUT and autograd_would_have_decomposed(func, flat):
                return func.decompose(*args, **kwargs)
        return NotImplemented

    def call(self, target: Any, args: Any, kwargs: Any) -> torch.fx.Node:
        name = self.graph._target_to_str(target.overloadpacket.__name__)
        return self.graph.create_node("call_function", target, args, kwargs, name)

    def add_input(self, value: Any) -> None:
        if not self.is_recordable(value):
            raise CannotRecord
        self.name_results(self.graph.placeholder(f"arg{len(self.graph.nodes)}_1"), value)

    def name_results(self, node: torch.fx.Node, result: Any) -> Any:
        """Makes a node stand for what it computes, and items of it for each of several tensors.
        Returns its results as they are now: later the program may change them."""
        now = result
        if isinstance(result, torch.Tensor):
            now = extract_val(result)
            self.nodes[id(result)] = node
            self.kept.append(result)
        elif isinstance(result, (tuple, list)):
            now = type(result)(
                [
                    self.name_results(
                        self.graph.call_function(operator.getitem, (node, number)), item
                    )
                    if isinstance(item, (torch.Tensor, tuple, list))
                    else item
                    for number, item in enumerate(result)
                ]
            )
        node.meta["val"] = now
        return now

    def argument(self, value: Any) -> Any:
        """A tensor as its node, which for one from outside is a constant; a size that varies as
        its node; anything else as it is."""
        if isinstance(value, torch.SymInt):
            return self.size(value)
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self.nodes:
            self.constants[name := f"_tensor_constant{len(self.constants)}"] = value
            self.name_results(self.graph.create_node("get_attr", name), value)
        return self.nodes[id(value)]

    def size(self, value: torch.SymInt) -> Any:
        """The node of a size; a number where a guard has fixed it."""
        assert self.sizes is not None
        expression = value.node.expr
        if expression.is_Integer:
            return int(expression)
        if expression not in self.sizes:
            node = self.graph.create_node("call_function", GivenSize(value), (), {}, "given_size")
            node.meta["val"] = value
            self.sizes[expression] = node
        return self.sizes[expression]

    def is_recordable(self, value: Any) -> bool:
        """Whether it is a plain tensor, with sizes that are numbers or are recorded, or may be
        written as it is."""
        if isinstance(value, torch.Tensor):
            return type(value) in RECORDED and (
                self.sizes is not None or not value._has_symbolic_sizes_strides
            )
        if isinstance(value, torch.SymInt):
            return self.sizes is not None and value.node.hint is not None
        return value is None or type(value) in WRITTEN


def depends_on_values(func: OpOverload, flat: Sequence[Any]) -> bool:
    """Whether a number or a size that an operator returns depends on values. Its symbol would stay
    with its tensor, and the function's second run would find it there."""
    if VALUES.isdisjoint(func.tags):
        return False
    masks = (torch.bool, torch.uint8)
    return func is not ATEN.index.Tensor or any(
        isinstance(value, torch.Tensor) and value.dtype in masks for value in flat[1:]
    )
