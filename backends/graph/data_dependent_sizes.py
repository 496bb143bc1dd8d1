"""Data-dependent sizes and numbers, which are known only while a graph runs (torch's unbacked
symbols): which nodes give them, and whether the inputs of a subgraph fit what it was compiled for.

In: captured graphs. Out: the same, compiled and checked. torch assumes that such a size is not one,
or equals another one; a kernel compiled for that must not run where it is wrong.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ...factory_call import record_factory
from ...records import record
from .fake_values import fake_of
from .node_targets import name_of

BINDINGS = "unbacked_bindings"
Check = Callable[..., bool]
# What the text of a check refers to.
KNOWN_NAMES = {"size", "max", "min", "math", *vars(math)}


class Uncheckable(Exception):
    """A fact about the numbers cannot be checked with the inputs of the subgraph alone."""


def has_data_dependent_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether a node of the graph gives a number that depends on values."""
    return any(BINDINGS in node.meta for node in gm.graph.nodes)


def gives_data_dependent_size(node: torch.fx.Node) -> bool:
    """Whether a node's result has numbers that depend on values and that no argument has."""
    if node.op not in ("call_function", "call_method"):
        return False
    if BINDINGS in node.meta:
        return True
    if name_of(node) == "getitem" and "example_value" not in node.all_input_nodes[0].meta:
        return False  # an item of a tuple
    mine = {symbol for result in results_of(node) for symbol in symbols_of(result)}
    given = (fake_of(other) for other in node.all_input_nodes)
    return not mine <= {symbol for value in given for symbol in symbols_of(value)}


def is_number_from_values(node: torch.fx.Node) -> bool:
    """Whether a node is a number that depends on values."""
    example = fake_of(node)
    is_number = isinstance(example, torch.SymInt | torch.SymFloat)
    return is_number and any(True for _ in data_dependent_symbols(example))


def results_of(node: torch.fx.Node) -> Iterator[Any]:
    """The fake results of a node; those of a tuple are its items'."""
    if "example_value" in node.meta:
        yield node.meta["example_value"]
    else:
        for user in node.users:
            if name_of(user) == "getitem":
                yield fake_of(user)


def symbols_of(value: Any, as_made: bool = False) -> Iterator[Any]:
    """The symbols in a fake tensor's layout, or in a number; as_made: before anything was assumed
    of them."""
    numbers = (
        (*value.shape, *value.stride())
        if isinstance(value, torch.Tensor) and value.layout is torch.strided
        else (value,)
    )
    for number in numbers:
        if isinstance(number, torch.SymInt | torch.SymFloat):
            yield from (number.node._expr if as_made else number.node.expr).free_symbols


def data_dependent_symbols(value: Any) -> Iterator[Any]:
    """The symbols in a fake tensor's layout, or in a number, that depend on values."""
    for symbol in symbols_of(value, as_made=True):
        # loaded where there are symbols: sympy takes half a second
        kinds: Any = importlib.import_module("torch.utils._sympy.symbol")
        wanted = (kinds.SymT.UNBACKED_INT, kinds.SymT.UNBACKED_FLOAT)
        if kinds.symbol_is_type(symbol, wanted):
            yield symbol


@record
class CheckedGraph:
    """A compiled subgraph, some of whose sizes depend on values, and the captured one. check: says
    of the inputs whether the sizes are as assumed; None where nothing is."""

    compiled: Callable[..., Any]
    captured: Callable[..., Any]
    check: Check | None

    def __call__(self, *args: Any) -> Any:
        fit = self.check is None or self.check(*args)
        return (self.compiled if fit else self.captured)(*args)


def with_checked_sizes(
    gm: torch.fx.GraphModule, compiled: Callable[..., Any]
) -> Callable[..., Any]:
    """The compiled form of a subgraph, checked if a size depends on values. Raises Uncheckable."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    examples = (node.meta["example_value"] for node in placeholders)
    if not any(True for example in examples for _ in data_dependent_symbols(example)):
        return compiled
    return CheckedGraph(compiled, gm.forward, check_of(placeholders))


def check_of(placeholders: Sequence[torch.fx.Node]) -> Check | None:
    """A function of a subgraph's inputs that says whether they are as assumed; None if nothing is
    assumed. Raises Uncheckable where the inputs do not tell."""
    paths = {symbol: path for node in placeholders for symbol, path in reversed([*found_in(node)])}
    seen = {
        symbol
        for node in placeholders
        for symbol in symbols_of(node.meta["example_value"], as_made=True)
    }
    facts = [fact for fact in assumed_facts(placeholders) if not seen.isdisjoint(fact.free_symbols)]
    if not facts:
        return None
    used = sorted({symbol for fact in facts for symbol in fact.free_symbols}, key=str)
    if not paths.keys() >= {*used}:
        raise Uncheckable(str(facts))
    printer = importlib.import_module("torch.utils._sympy.printers").PythonPrinter()
    arguments = ", ".join(node.name for node in placeholders)
    numbers = "".join(f"    {symbol} = {paths[symbol]}\n" for symbol in used)
    conditions = " and ".join(f"({printer.doprint(fact)})" for fact in facts)
    text = f"def fits({arguments}):\n{numbers}    return {conditions}\n"
    check = check_of_text(text)
    if not set(check.__code__.co_names) <= KNOWN_NAMES:
        raise Uncheckable(text)
    return check


def check_of_text(text: str) -> Any:
    """The function `fits` of a text."""
    namespace: dict[str, Any] = {"math": math}
    exec(text, namespace)
    return record_factory(namespace["fits"], check_of_text, text)


def found_in(node: torch.fx.Node) -> Iterator[tuple[Any, str]]:
    """The symbols that are sizes of an input, or the input itself, and how Python reads each."""
    example = node.meta["example_value"]
    numbers = (
        [(size, f"{node.name}.size({dim})") for dim, size in enumerate(example.shape)]
        if isinstance(example, torch.Tensor)
        else [(example, node.name)]
    )
    for number, path in numbers:
        if isinstance(number, torch.SymInt) and number.node._expr.is_Symbol:
            yield number.node._expr, path


def assumed_facts(placeholders: Sequence[torch.fx.Node]) -> list[Any]:
    """What torch assumed of data-dependent numbers, each fact once."""
    modes = {
        fake.fake_mode
        for node in placeholders
        if isinstance(fake := node.meta["example_value"], FakeTensor)
    }
    return [
        *dict.fromkeys(
            fact.expr
            for mode in modes
            if mode.shape_env
            for facts in mode.shape_env.deferred_runtime_asserts.values()
            for fact in facts
        )
    ]
