"""Finds equal blocks in a functional graph, such as the layers of a transformer, and makes a graph
of a few of them. What that is lowered to is repeated by fuse/repeated_steps.py.

Two blocks are equal if they differ only in the values of the block before and in their own inputs
(parameters, saved values): they have the same operators, arguments, metadata and wiring.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from ....records import record
from ...graph.copies import INPUT, AnyNode, Copies, Copy
from ...graph.memory import memories, results_of
from .build import COPY
from .fake_layouts import is_plain
from .fixed_values import FixedValues
from .lowering_cache import PLAIN, NotRepeated, shape

# Of the blocks, the first and the last ones are lowered. The first ones lead to a steady state, in
# which a block is lowered like the one before; the last one may end differently.
HEAD, TAIL = 3, 3
FEWEST = HEAD + TAIL + 2
MOST_CANDIDATES = 6
LABEL = "@"


@record
class Place:
    """A node's place in the blocks: the number of the block, and which of its nodes it is."""

    block: int
    slot: str


@record
class RepeatedBlocks:
    """A graph's equal blocks. `short`: the graph with the first HEAD and the last TAIL of them,
    whose nodes are named by `label`. `removed`: how many blocks it lacks. `inputs`: of the whole
    graph. `outputs`: for each output of the whole graph, the position of one of the short graph's,
    and by how many blocks it lies behind that."""

    run: Run
    short: Copies
    removed: int
    inputs: Sequence[str]
    outputs: Sequence[tuple[int, int]]

    def name(self, block: int, slot: str) -> str:
        """The name of a node of the whole graph."""
        return self.run.node(block, slot).name


def label(block: int, slot: str) -> str:
    """The name of a node of the short graph."""
    return f"{LABEL}{block}.{slot}"


def find_repeated_blocks(gm: torch.fx.GraphModule | Copies) -> RepeatedBlocks | None:
    """The equal blocks of a graph that has many of them."""
    nodes = list(gm.graph.nodes)
    calls = [node for node in nodes if node.op not in ("placeholder", "output")]
    results = nodes[-1].args[0]
    if (
        len(calls) < FEWEST
        or not isinstance(results, (tuple, list))
        or not all(item is None or isinstance(item, AnyNode) for item in results)
    ):
        return None
    metadata = MetadataCache()
    try:
        inputs = {node: metadata.of(node) for node in nodes if node.op == "placeholder"}
    except NotRepeated:  # sizes vary
        return None
    kinds = kinds_of(calls, metadata)
    for size in candidates(kinds):
        run = Run(calls, kinds, size, inputs, results)
        if run.blocks >= FEWEST and run.is_closed():
            return shorten(gm, run, kinds, results)
    return None


# --- which nodes are equal


class MetadataCache:
    """The metadata of nodes. Equal nodes share their fake results, so that they are read once."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def of(self, node: AnyNode) -> Any:
        """Raises NotRepeated for metadata that cannot be compared."""
        value = node.meta.get("val")
        key = id(value)
        if key not in self.known:
            self.known[key] = tuple(map(metadata_of, results_of(node)))
        return self.known[key]


def metadata_of(result: Any) -> Any:
    """Raises NotRepeated for a result that is no tensor, or has sizes that vary."""
    found = shape(result)
    return *found, result is not None and (result.is_conj(), result.is_neg(), is_plain(result))


def kinds_of(calls: Sequence[AnyNode], metadata: MetadataCache) -> list[int]:
    """For each node, a number that is equal for two nodes that differ only in their inputs. Copies
    have it in their original."""
    fixed = FixedValues()
    numbers: dict[Any, int] = {}
    found: list[int] = []
    for node in calls:
        fixed.add(node)
        kind: Any
        if isinstance(node, Copy):
            kind = node.source
        else:
            try:
                kind = kind_of(node, metadata)
            except NotRepeated:
                kind = node
        found.append(numbers.setdefault((kind, fixed.has(node)), len(numbers)))
    return found


def kind_of(node: torch.fx.Node, metadata: MetadataCache) -> tuple[Any, ...]:
    numbers = {other: number for number, other in enumerate(node.all_input_nodes)}
    by_memory = [(set(memories(other)), number) for other, number in numbers.items()]
    return (
        node.op,
        node.target,
        arguments(node.args, numbers),
        arguments(node.kwargs, numbers) if node.kwargs else (),
        metadata.of(node),
        *(
            (own is None, *(n for memory, n in by_memory if own in memory))
            for own in memories(node)
        ),
    )


def arguments(tree: Any, numbers: Mapping[torch.fx.Node, int]) -> Any:
    """Arguments with the numbers of nodes. Raises NotRepeated for one that cannot be compared."""
    if isinstance(tree, torch.fx.Node):
        return torch.fx.Node, numbers[tree]
    if isinstance(tree, (tuple, list)):
        return type(tree), *(arguments(item, numbers) for item in tree)
    if isinstance(tree, dict):
        return dict, *((key, arguments(item, numbers)) for key, item in tree.items())
    if isinstance(tree, float):
        return float, repr(tree)
    if isinstance(tree, PLAIN):
        return type(tree), tree
    raise NotRepeated


def candidates(kinds: Sequence[int]) -> Iterator[int]:
    """Probable sizes of blocks: usual distances between nodes of one kind; the one with which the
    most nodes are equal comes first."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for position, kind in enumerate(kinds):
        if kind in last:
            distances[position - last[kind]] += 1
        last[kind] = position
    sizes = [size for size, _ in distances.most_common(MOST_CANDIDATES)]
    equal = {size: sum(map(operator.eq, kinds, kinds[size:])) for size in sizes}
    return iter(sorted(sizes, key=lambda size: (-equal[size], size)))


class Run:
    """The longest run of equal blocks of a size. `start`, `end`: positions among the calls. `own`:
    the places of the inputs that each block has of its own."""

    def __init__(
        self,
        calls: Sequence[AnyNode],
        kinds: Sequence[int],
        size: int,
        inputs: Mapping[AnyNode, Any],
        results: Sequence[Any],
    ) -> None:
        self.calls, self.size, self._inputs = calls, size, inputs
        self.position = {node: position for position, node in enumerate(calls)}
        self.returned = Counter(node for node in results if node is not None)
        self.start, self.blocks = 0, 0
        following: dict[AnyNode, AnyNode] = {}
        self._begin(0)
        for position in range(len(calls) - size):
            later = position + size
            if kinds[position] != kinds[later] or not self._is_same(position, later):
                self._begin(position + 1)
                continue
            blocks = (later + 1 - self._begun) // size
            if blocks > self.blocks:
                self.start, self.blocks, following = self._begun, blocks, self._following
        self.end = self.start + self.blocks * size
        self.own = self._places_of_inputs(following)
        self.inputs_by_place = {(at.block, at.slot): node for node, at in self.own.items()}

    def _begin(self, position: int) -> None:
        """Begins another run. `_following`: for an input of a block, the same input of the next
        one; itself, if they share it."""
        self._begun = position
        self._following: dict[AnyNode, AnyNode] = {}
        self._before: dict[AnyNode, AnyNode] = {}

    def _is_same(self, position: int, later: int) -> bool:
        """Whether a node and that of the next block have the same inputs and are returned alike."""
        one, other = self.calls[position], self.calls[later]
        if self.returned[one] != self.returned[other] or self.returned[one] > 1:
            return False
        for before, after in zip(inputs_of(one), inputs_of(other), strict=True):
            at = self.position.get(before)
            if at is None:
                if not self._is_same_input(before, after):
                    return False
            elif before is after:  # a value from before all blocks
                if at >= self._begun:
                    return False
            elif position - at >= self.size or self.position.get(after) != at + self.size:
                return False  # it is not of this block, or the one before
        return True

    def _is_same_input(self, one: AnyNode, other: AnyNode) -> bool:
        return (
            other in self._inputs
            and self._following.setdefault(one, other) is other
            and self._before.setdefault(other, one) is one
            and (one is other or self._inputs[one] == self._inputs[other])
        )

    def _places_of_inputs(self, following: Mapping[AnyNode, AnyNode]) -> dict[AnyNode, Place]:
        """The places of inputs that differ between blocks, from the first block that reads one."""
        places: dict[AnyNode, Place] = {}
        read = {node for call in self.calls[self.start : self.end] for node in inputs_of(call)}
        following = {one: other for one, other in following.items() if other in read}
        for position in range(self.start, self.end):
            block, slot = divmod(position - self.start, self.size)
            for number, node in enumerate(inputs_of(self.calls[position])):
                following_block = block
                while node not in places and following.get(node, node) is not node:
                    places[node] = Place(following_block, f"{slot}in{number}")
                    node, following_block = following[node], following_block + 1
                    if following.get(node, node) is node:
                        places[node] = Place(following_block, f"{slot}in{number}")
        return places

    def place(self, node: AnyNode) -> Place | None:
        """The place of a node or an input of the blocks; None for others. The nodes behind the
        blocks are places of one more block."""
        position = self.position.get(node)
        if position is None:
            return self.own.get(node)
        if position < self.start:
            return None
        block = min((position - self.start) // self.size, self.blocks)
        return Place(block, str(position - self.start - block * self.size))

    def node(self, block: int, slot: str) -> AnyNode:
        """The node or input at a place."""
        if slot.isdigit():
            return self.calls[self.start + block * self.size + int(slot)]
        return self.inputs_by_place[block, slot]

    def is_closed(self) -> bool:
        """Whether the blocks only compute, and nodes behind them use the values of the last two
        blocks only."""
        last = self.end - 2 * self.size
        return (
            all(map(is_computation, self.calls[self.start : self.start + self.size]))
            and not any(
                self.start <= self.position.get(other, -1) < last
                for node in self.calls[self.end :]
                for other in inputs_of(node)
            )
            and self.returned.keys().isdisjoint(self.own)
        )


def is_computation(node: AnyNode) -> bool:
    value = node.meta.get("val")
    results = value if isinstance(value, (tuple, list)) else (value,)
    return (
        node.op == "call_function"
        and node.target is not COPY
        and all(item is None or isinstance(item, torch.Tensor) for item in results)
    )


def inputs_of(node: AnyNode) -> Sequence[AnyNode]:
    return node.inputs if isinstance(node, Copy) else node.all_input_nodes


# --- the short graph


class ShortGraph:
    """Copies a graph without the blocks in the middle: the blocks behind them take the values of
    the last block before them."""

    def __init__(self, gm: torch.fx.GraphModule | Copies, run: Run, kinds: Sequence[int]) -> None:
        self.gm, self.run = gm, run
        self.removed = run.blocks - HEAD - TAIL
        self.copies = Copies(constants_of(gm), "Short")
        self.made: dict[AnyNode | Place, Copy] = {}
        self.memory: dict[Any, Any] = {}  # that of a removed node: that of its stand-in
        self.sources: dict[int, torch.fx.Node] = {}  # an original for all nodes of a kind
        for node in gm.graph.find_nodes(op="placeholder"):
            self.add(node, INPUT, 0)
        middle, behind = (run.start + block * run.size for block in (HEAD, HEAD + self.removed))
        for position in (*range(middle), *range(behind, len(run.calls))):
            node = run.calls[position]
            source = (
                node.source
                if isinstance(node, Copy)
                else self.sources.setdefault(kinds[position], node)
            )
            self.add(node, source, self.removed if position >= behind else 0)

    def add(self, node: AnyNode, source: torch.fx.Node, before: int) -> None:
        place = self.run.place(node)
        name = node.name
        if place is not None:
            block = self.kept_block(place.block)
            if block is None:
                return
            place = Place(block, place.slot)
            name = label(block, place.slot)
        inputs = [self.stand_in(other, before) for other in inputs_of(node)]
        memory = [self.memory.get(own, own) for own in memories(node)]
        made = Copy(source, inputs, dict(node.meta) | {"memory": memory}, name)
        self.copies.nodes.append(made)
        self.made[node if place is None else place] = made

    def kept_block(self, block: int) -> int | None:
        """The number of a block in the short graph."""
        if block < HEAD:
            return block
        return block - self.removed if block >= HEAD + self.removed else None

    def stand_in(self, node: AnyNode, before: int) -> Copy:
        """The copy of a node, or of the node at the same place in another block. before: how many
        removed blocks are before the node that reads it."""
        place = self.run.place(node)
        if place is None:
            return self.made[node]
        block = place.block - before
        if block > HEAD if before == 0 else block < 1:
            raise NotRepeated
        found = self.made[Place(block, place.slot)]
        self.memory.update(zip(memories(node), memories(found), strict=True))
        return found

    def end(self, results: Sequence[Any]) -> list[tuple[int, int]]:
        """Returns what the whole graph returns, except for the removed blocks. Gives the `outputs`
        of RepeatedBlocks."""
        places = [None if node is None else self.run.place(node) for node in results]
        kept = [
            number
            for number, place in enumerate(places)
            if place is None or self.kept_block(place.block) is not None
        ]
        at = {number: position for position, number in enumerate(kept)}
        like = {
            place.slot: at[number]
            for number, place in enumerate(places)
            if place is not None and place.block == HEAD - 1
        }
        self.copies.output([self.result(results[number]) for number in kept])
        behind = self.run.end - TAIL * self.run.size
        found = []
        for number, (node, place) in enumerate(zip(results, places, strict=True)):
            if number not in at:
                assert place is not None
                found.append((like[place.slot], place.block - HEAD + 1))
            else:
                last = self.run.position.get(node, -1) >= behind
                found.append((at[number], self.removed if last else 0))
        return found

    def result(self, node: AnyNode | None) -> Copy | None:
        if node is None:
            return None
        place = self.run.place(node)
        if place is None:
            return self.made[node]
        block = self.kept_block(place.block)
        assert block is not None
        return self.made[Place(block, place.slot)]


def shorten(
    gm: torch.fx.GraphModule | Copies, run: Run, kinds: Sequence[int], results: Sequence[Any]
) -> RepeatedBlocks | None:
    """The short graph of a graph, and what that has besides; None where a node outside of the
    blocks reads inputs of blocks in the middle."""
    try:
        short = ShortGraph(gm, run, kinds)
    except NotRepeated:
        return None
    outputs = short.end(results)
    inputs = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    return RepeatedBlocks(run, short.copies, short.removed, inputs, outputs)


def constants_of(gm: torch.fx.GraphModule | Copies) -> Mapping[str, Any]:
    if isinstance(gm, Copies):
        return gm.constants
    names = {str(node.target) for node in gm.graph.find_nodes(op="get_attr")}
    return {name: operator.attrgetter(name)(gm) for name in names}
