"""Writes to memory that two inputs partly share, which a functional graph cannot express.

torch's operators, run in order, write such memory element by element; a compiler that reads
everything first and writes at the end computes other numbers. Graphs with such writes run as
captured. In: a captured graph. Out: the reason, in words.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from ...overlap import Window, may_overlap, may_overlap_itself
from .fake_values import fake_of
from .memory import plain_memory_at, share_memory
from .mutations import is_norm, may_write, written_by, written_nodes
from .node_targets import name_of
from .passes.symbolic_sizes import is_contiguous_for_all_sizes
from .supported import line_of
from .wrappers import fake_mode_of

POINTWISE = frozenset({
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
    "ilshift", "irshift", "copy_",
})  # fmt: skip
BY_STRIDES = frozenset(
    {
        "reshape",
        "reshape_as",
        "flatten",
        "ravel",
        "contiguous",
        "to",
        "view_as",
        "unflatten",
        "as_strided",
    }
)


def reason(nodes: Sequence[torch.fx.Node], overlapping: Sequence[tuple[str, str]]) -> str:
    """Why only torch's own operators can run a graph; "" otherwise. overlapping: pairs of names of
    inputs that overlap in memory; the graph writes the first of each pair."""
    for one, other in overlapping:
        shown = "itself" if one == other else other
        return f"{one}, which is written, shares memory with {shown}"
    writers = writers_among(nodes)
    if not writers:
        return ""
    for node in writers:
        if writes_what_overlaps(node):
            return (
                f"{name_of(node)} writes into memory that overlaps itself or what it "
                f"reads{line_of(node)}"
            )
    written = written_memories(writers)
    for node in asking_for_strides(nodes, written):
        return (
            f"{name_of(node)} copies or not by the strides of memory that was written "
            f"before{line_of(node)}"
        )
    for node in as_strided_of_inputs(nodes) if input_memories(nodes) & written else ():
        return (
            f"{name_of(node)} may read memory that a write to another input changes{line_of(node)}"
        )
    return ""


def asking_for_strides(
    nodes: Sequence[torch.fx.Node], written: set[int | None]
) -> Iterator[torch.fx.Node]:
    """Nodes that copy or view a tensor depending on its strides, where the functional graph's
    tensor has other strides: a written input with gaps begins as a dense copy there; and as_strided
    of a written tensor, which reaches beyond it. written: the memory that is written."""
    inputs = nodes[0].graph.find_nodes(op="placeholder") if nodes else []
    restrided = {
        plain_memory_at(node)
        for node in inputs
        if is_strided(fake_of(node)) and has_gaps(fake_of(node))
    } & written
    for node in nodes:
        if not node.op.startswith("call_"):
            continue
        operand = next(
            (other for other in node.all_input_nodes if is_strided(fake_of(other))), node
        )
        if name_of(node) in BY_STRIDES and plain_memory_at(operand) in (
            written if name_of(node) == "as_strided" else restrided
        ):
            yield node


def as_strided_of_inputs(nodes: Sequence[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """Nodes that may read memory around an input, or between its elements: which inputs share
    elements says nothing of the elements between them."""
    memories = input_memories(nodes)
    for node in nodes:
        if name_of(node) == "as_strided" and plain_memory_at(node) in memories:
            yield node


def input_memories(nodes: Sequence[torch.fx.Node]) -> set[int | None]:
    inputs = nodes[0].graph.find_nodes(op="placeholder") if nodes else []
    return {plain_memory_at(node) for node in inputs} - {None}


def written_memories(nodes: Iterable[torch.fx.Node]) -> set[int | None]:
    """The memory that some node writes into."""
    targets = [target for node in writers_among(nodes) for target in written_nodes(node)]
    return {plain_memory_at(target) for target in targets} - {None}


def writers_among(nodes: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes that may write into an argument; a norm writes its own statistics only."""
    return [node for node in nodes if may_write(node) and not is_norm(node)]


def has_gaps(fake: torch.Tensor) -> bool:
    """Whether a tensor's elements may not fill a contiguous stretch of memory. With dynamic sizes,
    only a contiguous tensor is known to."""
    if is_static(fake):
        return (
            fake.numel() > 0
            and window(fake).end - window(fake).address > fake.numel() * fake.element_size()
        )
    return not is_contiguous_for_all_sizes(fake)


def writes_what_overlaps(node: torch.fx.Node) -> bool:
    """Whether a tensor that a node writes overlaps itself or another of its arguments."""
    if name_of(node) == "setitem":
        return item_overlaps(node)
    written = [leaf for leaf in written_by(node) if isinstance(leaf, torch.fx.Node)]
    if not written and node.args and isinstance(node.args[0], torch.fx.Node):
        written = [node.args[0]]
    leaves = [
        leaf
        for leaf in pytree.tree_leaves((node.args, node.kwargs))
        if isinstance(leaf, torch.fx.Node)
    ]
    for number, one in enumerate(written):
        if may_overlap_itself_when_written(fake_of(one)) or one in written[:number]:
            return True
        others = [leaf for leaf in leaves if leaf is not one]
        if any(
            overlaps_written(fake_of(one), fake_of(other), is_pointwise(node)) for other in others
        ):
            return True
        if leaves.count(one) > 1 and not is_pointwise(node):
            return True
    return False


def item_overlaps(node: torch.fx.Node) -> bool:
    """Whether `x[key] = value` writes to a part of x that overlaps itself or the value."""
    target, key, value = (list(node.args) + [None] * 3)[:3]
    x, given = fake_of(target), fake_of(value)
    if may_overlap_itself_when_written(x):
        return True
    if not isinstance(given, torch.Tensor) or not share_storage(x, given):
        return False
    indices = [leaf for leaf in pytree.tree_leaves(key) if isinstance(leaf, torch.fx.Node)]
    if indices:
        return True
    with fake_mode_of(x):
        part = operator.getitem(x.detach(), key)
    return overlaps_written(part, given, True)


def is_pointwise(node: torch.fx.Node) -> bool:
    """Whether each element that a node writes depends only on elements at the same position."""
    name = name_of(node).partition(".")[0]
    if name in POINTWISE:
        return True
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return torch.Tag.pointwise in getattr(packet, packet.overloads()[0]).tags


def is_strided(fake: Any) -> bool:
    """Whether it is a tensor laid out by strides, and none of a level of torch.func."""
    return (
        isinstance(fake, torch.Tensor)
        and fake.layout is torch.strided
        and not torch._C._functorch.is_functorch_wrapped_tensor(fake)
    )


def share_storage(one: Any, other: Any) -> bool:
    return is_strided(one) and is_strided(other) and share_memory(one, other)


def numbers_of(fake: torch.Tensor) -> tuple[Any, ...]:
    return (*fake.shape, *fake.stride(), fake.storage_offset())


def is_static(fake: torch.Tensor) -> bool:
    return all(type(number) is int for number in numbers_of(fake))


def may_overlap_itself_when_written(fake: Any) -> bool:
    """Whether two elements of a written tensor may share memory. With dynamic sizes, only expanded
    dimensions are recognised."""
    if not is_strided(fake):
        return False
    if is_static(fake):
        return may_overlap_itself(window(fake))
    pairs = zip(fake.shape, fake.stride(), strict=True)
    return any(
        type(stride) is int and stride == 0 and not (type(size) is int and size < 2)
        for size, stride in pairs
    )


def overlaps_written(written: Any, other: Any, pointwise: bool) -> bool:
    """Whether a written tensor overlaps another argument. For a pointwise operator, the same
    elements at the same positions are no problem."""
    if not share_storage(written, other):
        return False
    if not (is_static(written) and is_static(other)):
        return True
    same = written.dtype == other.dtype and numbers_of(written) == numbers_of(other)
    return may_overlap(window(written), window(other)) and not (same and pointwise)


def window(fake: torch.Tensor) -> Window:
    """The position of a fake tensor's elements in its storage."""
    size = fake.element_size()
    return Window(
        1 + int(fake.storage_offset()) * size, size, tuple(fake.shape), tuple(fake.stride())
    )
