"""Calls subgraphs one after the other, as one function of the graph's inputs: generated Python,
since a table of steps would take longer to run than small subgraphs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...factory_call import record_factory
from ...generated_source import file_name, keep_source
from ..graph.data_dependent_sizes import CheckedGraph
from .subgraph import Subgraph


def call_in_sequence(
    subgraphs: Sequence[Subgraph], calls: Sequence[Callable[..., Any]], results: Sequence[int]
) -> Callable[..., Any]:
    """A function that calls the compiled subgraphs. results: the numbers of what it returns. From a
    subgraph on whose sizes are not as assumed, the captured ones run."""
    inputs = {number for subgraph in subgraphs for number in subgraph.input_ids} | {*results}
    made = {number for subgraph in subgraphs for number in subgraph.output_ids}
    namespace: dict[str, Any] = {}
    lines: list[str] = []
    for position, (subgraph, call) in enumerate(zip(subgraphs, calls, strict=True)):
        arguments = variable_names(subgraph.input_ids)
        targets = "".join(f"v{number}, " for number in subgraph.output_ids)
        name = f"step_{position}"
        if isinstance(call, CheckedGraph):
            namespace |= {name: call.compiled, f"captured_{position}": call.captured}
            if call.check is not None:
                namespace[f"check_{position}"] = call.check
                lines.append(f"fit = fit and check_{position}({arguments})")
            name = f"(step_{position} if fit else captured_{position})"
        else:
            namespace[name] = call
        lines.append(f"{targets and targets + '= '}{name}({arguments})")
    given = range(1 + max(inputs - made, default=-1))
    parameters = ", ".join([*(f"v{number}" for number in given), "*unused"])
    body = "".join(f"    {line}\n" for line in ["fit = True", *lines])
    returned = "".join(f"v{number}, " for number in results)
    text = f"def call({parameters}):\n{body}    return ({returned})\n"
    return function_of_text(text, namespace)


def function_of_text(text: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function `call` of a text."""
    file = file_name("subgraphs")
    objects = dict(namespace)
    exec(compile(text, file, "exec"), objects)
    call: Callable[..., Any] = objects["call"]
    keep_source(file, text, call)
    return record_factory(call, function_of_text, text, namespace)


def variable_names(numbers: Sequence[int]) -> str:
    return ", ".join(f"v{number}" for number in numbers)
