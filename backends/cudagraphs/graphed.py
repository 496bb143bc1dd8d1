"""A callable whose CUDA work is recorded and replayed. The first call of a kind warms up on a side
stream, the second records, later ones replay. Work that cannot be recorded, or does not pay, runs
directly; so do sizes, where they vary, that have not recurred.

In: a callable. Out: an equivalent one. Uses no fx graphs.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from ...errors import RequirementError
from ...events import Reporter
from ...records import record
from . import pool
from .recording import RecordedWork, Recording
from .result_copies import ADDRESS, CopiedResult, Unrecordable

# Where sizes vary, a size is recorded once it has recurred: a recording takes about as long as two
# calls.
RECURRED = 2
MOST_SHAPES = 128  # recordings of one graph, at most
MOST_COUNTED = 4096  # sizes whose calls are counted
MOST_REMADE = 8  # times that a recording is repeated because inputs moved, at most
# Inputs that are copied in and back are read in place again once they have stayed where they are
# for so many calls, the second time for twice as many, and so on. (The autotuner tries candidates
# on copies of what a program writes, such as running means: their addresses are not the program's.)
CALLS_IN_PLACE = 8

PRECISION = torch._C._get_fp32_precision_getter


@record
class WarmUp:
    """The state after a warm-up call: the addresses of its inputs."""

    addresses: list[int]


@record
class RecordingRequest(RecordedWork):
    """What to record, and for which calls. varying: positions of inputs whose sizes differ between
    calls. forward: for a backward graph, the forward graph whose saved results are among its
    inputs. graph: all subgraphs of its graph, it among them."""

    varying: tuple[int, ...] = ()
    forward: GraphedCallable | None = None
    graph: Collection[GraphedCallable] = ()


class GraphedCallable:
    """A callable whose CUDA work is recorded and replayed. require: raises RequirementError instead
    of running unrecorded."""

    def __init__(self, work: RecordingRequest, report: Reporter, require: bool = False) -> None:
        self.work, self.report, self.require = work, report, require
        self.run = work.run
        self.copied: set[int] = set()
        self.backward: Callable[[], GraphedCallable | None] = no_backward
        self.states: dict[Any, WarmUp | Recording] = {}
        self.seen: collections.Counter[Any] = collections.Counter()  # calls of keys without a state
        # this graph's own, if its backward graph or another subgraph reads results
        self.pools: dict[Any, pool.Pool] = {}
        self.lock = threading.RLock()
        self.remade = 0
        self.patience = CALLS_IN_PLACE
        self.off = ""  # the reason, once nothing is recorded any more
        self.full = self.postponed = False

    def __call__(self, *args: Any) -> Any:
        key = self.key(args)
        with self.lock:
            state = self.states.get(key)
            if type(state) is Recording and state.fits(args) and not self.in_use(state):
                if state.back and self.stays_in_place(state, args):
                    state = None  # before its successor allocates memory
                    return self.record_in_place(key, args)
                return state.replay(args)
            if not self.off and not torch.cuda.is_current_stream_capturing():
                return self.call_unrecorded(key, state, args)
        return self.run(*args)

    def key(self, args: Sequence[Any]) -> Any:
        """The properties that a recording depends on: the stream, the precision of products, and
        dynamic sizes."""
        state = (self.stream(), PRECISION("cuda", "matmul"), PRECISION("cuda", "conv"))
        if not self.work.varying:
            return state
        varying = (args[index] for index in self.work.varying)
        return (
            *state,
            *(
                (arg.shape, arg.stride()) if isinstance(arg, torch.Tensor) else arg
                for arg in varying
            ),
        )

    def call_unrecorded(
        self, key: Any, state: WarmUp | Recording | None, args: Sequence[Any]
    ) -> Any:
        """A call that no recording serves."""
        if state is None:
            return self.warm_up(key, args) if self.is_due(key) else self.run(*args)
        if isinstance(state, Recording):
            if self.in_use(state) or not self.may_record_again(key, state, args):
                return self.run(*args)
        elif self.work.forward is not None and not self.saved_inputs(args):
            # if the forward pass ran unrecorded, so does its backward pass
            return self.run(*args)
        elif has_other_threads() and not self.require:
            if not self.postponed:
                self.postponed = True
                self.report(
                    "CUDA graphs: recorded later: other threads run, and may draw random numbers, "
                    "which fails while one records"
                )
            return self.run(*args)
        else:
            moved = {
                index
                for index, at in enumerate(map(address, args))
                if at != state.addresses[index] and may_move(args[index])
            }
            fed, originals = self.find_fed_inputs(args)
            self.copied |= moved - self.saved_inputs(args) - fed - set(originals)
        return self.record(key, args)

    def is_due(self, key: Any) -> bool:
        """Whether inputs of these sizes have recurred, so that recording is likely to pay."""
        if not self.work.varying:
            return True
        if len(self.seen) >= MOST_COUNTED:
            self.seen.clear()
        self.seen[key] += 1
        return self.seen[key] >= RECURRED

    def warm_up(self, key: Any, args: Sequence[Any]) -> Any:
        """The first call of a kind, on the stream that will record, since libraries initialise per
        stream."""
        device = self.work.device
        if len(self.states) >= MOST_SHAPES or pool.is_full(device):
            if not self.full:
                self.full = True
                self.report(
                    f"CUDA graphs: {len(self.states)} recordings, and no room for more; calls of "
                    "other sizes run without"
                )
            return self.run(*args)
        self.seen.pop(key, None)
        self.states[key] = WarmUp(list(map(address, args)))
        here, side = torch.cuda.current_stream(device), pool.side_stream(device, self.stream())
        side.wait_stream(here)
        try:
            with torch.cuda.stream(side):
                results = self.run(*args)
        finally:  # after an error, inputs are restored on this stream
            here.wait_stream(side)
        for item in results:
            if isinstance(item, torch.Tensor) and item.is_cuda:
                item.record_stream(here)
        return results

    def saved_inputs(self, args: Sequence[Any]) -> set[int]:
        """Positions of inputs that this backward pass's forward pass has saved: their addresses are
        in its recording."""
        forward = self.work.forward
        return set() if forward is None else forward.positions_of_saved(args)

    def positions_of_saved(self, args: Sequence[Any]) -> set[int]:
        """Positions of a backward pass's arguments that this graph has saved."""
        return {position for _, positions in self.recordings_of(args) for position in positions}

    def recordings_of(self, args: Sequence[Any]) -> Iterator[tuple[Recording, set[int]]]:
        """The recordings whose saved results are among a backward pass's arguments, and their
        positions."""
        for made in self.recordings():
            if made.out.in_use():
                mine = {ADDRESS(made.out.template[index]) for index in made.out.saved}
                found = {
                    index
                    for index, arg in enumerate(args)
                    if isinstance(arg, torch.Tensor) and ADDRESS(arg) in mine
                }
                if found:
                    yield made, found

    def stays_in_place(self, state: Recording, args: Sequence[Any]) -> bool:
        """Whether inputs that are copied in and back are likely to stay where they are."""
        if state.count_calls_in_place(args) < self.patience or has_other_threads():
            return False
        return not torch.cuda.is_current_stream_capturing()

    def record_in_place(self, key: Any, args: Sequence[Any]) -> Any:
        """Records again, with the inputs that were copied in and back read and written in place."""
        self.patience *= 2
        self.copied -= self.work.written
        del self.states[key]
        return self.record(key, args)

    def in_use(self, state: Recording) -> bool:
        """Whether the program still uses results in the recorded memory. A forward graph's replay
        may overwrite the gradients that its backward graph has returned, too."""
        if state.out.in_use():
            return True
        backward = self.backward()
        if backward is None or not backward.work.passed.hidden:
            return False
        return any(made.out.in_use() for made in backward.recordings())

    def note_backward(self, backward: GraphedCallable) -> None:
        """Tells a forward graph of its backward graph, which keeps it alive."""
        self.backward = weakref.ref(backward)

    def recordings(self) -> list[Recording]:
        return [state for state in list(self.states.values()) if isinstance(state, Recording)]

    def find_fed_inputs(self, args: Sequence[Any]) -> tuple[set[int], dict[int, CopiedResult]]:
        """The inputs in the memory of this graph's other recordings, and those that are
        copies of tensors there."""
        fed, originals = set[int](), dict[int, CopiedResult]()
        outs = [made.out for other in list(self.work.graph) for made in other.recordings()]
        hidden = {ADDRESS(out.template[index]) for out in outs for index in out.hidden}
        for position in self.work.passed.inputs:
            arg = args[position]
            if not isinstance(arg, torch.Tensor) or not arg.numel():
                continue
            if ADDRESS(arg) in hidden:
                fed.add(position)
            elif position not in self.work.written:
                for original in (found for out in outs for found in out.originals_of(arg)):
                    originals[position] = original
        return fed, originals

    def may_record_again(self, key: Any, state: Recording, args: Sequence[Any]) -> bool:
        """Drops a recording whose static inputs have moved; returns whether the call may record
        again, with inputs that are not parameters copied in."""
        saved = self.saved_inputs(args)
        if (self.work.forward is not None and not saved) or (
            has_other_threads() and not self.require
        ):
            return False
        moved = state.moved_inputs(args) - saved
        fed, originals = self.find_fed_inputs(args)
        if not moved.isdisjoint(state.fed - fed - set(originals)):
            return False  # what makes them ran unrecorded
        moved = moved - fed - set(originals)
        self.copied |= {index for index in moved if may_move(args[index])}
        self.remade += bool(moved)  # else a forward graph, or another subgraph, was recorded again
        if self.remade > MOST_REMADE:
            self.give_up("its inputs keep moving in memory")
            return False
        del self.states[key]  # before its successor allocates memory
        return True

    def record(self, key: Any, args: Sequence[Any]) -> Any:
        """Records the work for inputs of one layout (`key`) and replays it. What cannot be recorded
        runs."""
        work = self.work
        memory = self.pool_for(key, args)
        fed, originals = self.find_fed_inputs(args)
        try:
            with torch.cuda.device(work.device):
                copied = self.copied - fed - set(originals)
                made = Recording(work, args, copied, memory, originals)
        except Unrecordable as error:
            memory.usable = False
            self.give_up(str(error))
            return self.run(*args)
        made.fed = frozenset(fed.union(originals))
        self.states[key] = made
        if not self.remade:
            self.report.send_recorded(
                True,
                f"CUDA graphs: recorded, {len(made.static)} inputs read in place, "
                f"{len(made.copied)} copied in",
            )
        return made.replay(args)

    def pool_for(self, key: Any, args: Sequence[Any]) -> pool.Pool:
        """The pool to record in: a forward graph's own, if it saves results; for a backward graph
        that of its forward graph."""
        if self.work.forward is not None:
            recording, _ = next(self.work.forward.recordings_of(args))
            if recording.pool.usable:
                return recording.pool
        if not self.work.saved and not self.work.passed.results:
            return pool.shared_pool(self.work.device, self.stream())
        own = self.pools.get(key)
        # A second recording in the pool could pass on memory that the backward graph overwrites.
        if own is None or not own.usable or self.work.passed.hidden:
            own = self.pools[key] = pool.Pool(self.work.device, self.stream(), shared=False)
        return own

    def give_up(self, reason: str) -> None:
        self.off = reason
        self.states.clear()
        self.pools.clear()
        self.report.send_recorded(False, f"CUDA graphs: not recorded: {reason}")
        if self.require:
            raise RequirementError(
                f"CUDA graphs are required, but this graph cannot be recorded: {reason}"
            )

    def stream(self) -> int:
        """The current stream, as torch's raw handle."""
        return int(torch._C._cuda_getCurrentRawStream(self.work.device))


def no_backward() -> None:
    """What stands for the backward graph where there is none, or none yet."""


OWN_THREADS = "framejit"  # prefix of the names of framejit's own threads


def has_other_threads() -> bool:
    """Whether threads of the program run besides the main and the current one. torch's generator
    has one state for all, and raises in each thread that draws while another one records. Daemon
    threads (of pin_memory, progress bars) are assumed not to draw."""
    here, main = threading.current_thread(), threading.main_thread()
    others = (
        one
        for one in threading.enumerate()
        if one is not here and one is not main and not one.daemon
    )
    return any(not one.name.startswith(OWN_THREADS) for one in others)


def address(item: Any) -> int:
    return ADDRESS(item) if isinstance(item, torch.Tensor) else 0


def may_move(item: Any) -> bool:
    """Whether an input is copied in once it was seen at another address; parameters never are."""
    return isinstance(item, torch.Tensor) and not isinstance(item, torch.nn.Parameter)
