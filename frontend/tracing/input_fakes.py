"""InputFakes: makes the fake tensors of the graph's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ...backends.graph.wrappers import is_distributed, names_of_tensors
from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.guard_log import GuardLog
from ...guards.source import AttrSource, Source
from ...overlap import has_memory, may_overlap, window_of
from ..values.tensor.dynamic_marks import Mark, marks_of
from ..values.tensor.tensor import TensorValue
from ..values.tensor.wrapper_subclass import is_captured_wrapper
from .fake_tensors.distributed_layout import sizes_follow
from .fake_tensors.fake_wrappers import is_fake, wrap_fakes
from .fake_tensors.fakes_by_metadata import forget_memory, is_noted
from .sizes.symbolic_inputs import SymbolicInputs

# what torch's errors say
LOST_HISTORY = (
    "has been modified inplace"  # autograd says so of one of several views that an operator gave
)
NO_MEMORY = (
    "Cannot access data pointer of Storage"  # a fake base is smaller than this view of it needs
)


class InputFakes:
    """Decides which sizes of an input are symbols, and guards which tensors inside wrappers are one
    object. `known`: the inputs so far, by the id of the tensor; added to by the graph's builder."""

    def __init__(
        self, symbols: SymbolicInputs, guards: GuardLog, known: Mapping[int, TensorValue]
    ) -> None:
        self._symbols, self._guards, self._known = symbols, guards, known
        self._fake_mode = symbols.fake_mode
        self.sizes: dict[Source, tuple[int, ...]] = {}  # of the tensors whose sizes may vary
        self.parts: dict[Source, torch.Tensor] = {}  # the fakes inside wrappers
        self._part_sources: dict[int, Source | None] = {}  # by id of the tensor inside
        self._ragged: dict[Source, int] = {}  # inside jagged tensors, the dimension that varies

    def release_objects(self) -> None:
        self.parts.clear()
        self._part_sources.clear()

    def of(self, real: torch.Tensor, source: Source) -> torch.Tensor:
        """The fake of a tensor that existed before the frame."""
        if real.requires_grad and not (real.is_floating_point() or real.is_complex()):
            raise GraphBreak("unsupported-value", f"'{source.name}', integers with a history")
        if is_captured_wrapper(type(real)):
            return self._of_wrapper(real, source)
        with self._symbols.clock.phase("fake_tensors", shown=False):
            return self._of_plain(real, source)

    def _of_plain(self, real: torch.Tensor, source: Source) -> torch.Tensor:
        """The fake of a tensor that is no wrapper, with symbols for its dynamic dimensions. Breaks
        where torch cannot make it like the real one."""
        dims = self._dynamic_dims(real, source)
        try:
            if dims:
                if self._lies_apart(real):
                    forget_memory(self._fake_mode, real)
                return self._symbols.shapes.fake(self._fake_mode, real, source, dims)
            try:
                fake = self._fake_mode.from_tensor(real, static_shapes=True)
            except (AssertionError, NotImplementedError) as error:
                if not self._symbols.exist:  # the offsets of a jagged tensor bear its size
                    self._symbols.load()
                    return self._of_plain(real, source)
                raise GraphBreak(
                    "unsupported-value", f"'{source.name}', for which torch has no fake tensor"
                ) from error
            if self._symbols.exist:
                self._symbols.shapes.share_symbols_of_view(fake, source)
            return fake
        # what it is a view of has changed in the trace, and is not like the real one any more
        except AssertionError as error:
            raise GraphBreak(
                "unsupported-value",
                f"'{source.name}', a view of a tensor that was written before the view was read",
            ) from error
        except RuntimeError as error:
            if LOST_HISTORY in str(error):
                raise GraphBreak(
                    "unsupported-value", f"'{source.name}', a view whose base was written since"
                ) from error
            if NO_MEMORY in str(error):
                raise GraphBreak(
                    "unsupported-value",
                    f"'{source.name}', a view of a tensor whose strides the frame has changed",
                ) from error
            raise

    def _lies_apart(self, real: torch.Tensor) -> bool:
        """Whether a tensor, no view to autograd, shares a storage with inputs, but no element. That
        storage was made as large as the first of them needs, and one of symbolic size cannot
        grow. (Results of a compiled graph that are views of one buffer are such tensors.)"""
        if not is_noted(self._fake_mode, real) or real._is_view() or not has_memory(real):
            return False
        mine = window_of(real)
        reals = [one.real for one in self._known.values() if one.real is not None]
        windows = [window_of(other) for other in reals if has_memory(other)]
        others = [window for window in windows if window.storage == mine.storage]
        return bool(others) and not any(may_overlap(mine, window) for window in others)

    def _of_wrapper(self, real: Any, source: Source) -> torch.Tensor:
        """The fake of a wrapper subclass. Raises GraphBreak where the class's own code fails."""
        try:
            is_view = not real.is_leaf and real._is_view()
            if real.is_inference() or (is_view and not real.is_nested):
                fake: torch.Tensor = self._fake_mode.from_tensor(real, static_shapes=True)
            else:
                if real.is_nested:
                    self._symbols.load()  # a ragged size is a symbol
                    self._ragged |= ragged_dims(real, source)
                names, metadata = real.__tensor_flatten__()
                inner = {name: getattr(real, name) for name in names}
                fixed = is_distributed(type(real)) and not sizes_follow(real)
                of = self._of_static if fixed else self.of
                for name in names_of_tensors(real):
                    inner[name] = self._of_part(inner[name], AttrSource(source, name), of)
                with self._fake_mode:
                    fake = wrap_fakes(real, metadata, inner)
        except GraphBreak:
            raise
        except Exception as error:
            raise GraphBreak("subclass", f"{type(real).__name__}, which cannot be faked") from error
        if not is_fake(fake):
            raise GraphBreak("subclass", f"{type(real).__name__}, which cannot be faked")
        if self._symbols.exist:
            self._symbols.shapes.note_layout(fake, source)
        return fake

    def _of_static(self, real: torch.Tensor, source: Source) -> torch.Tensor:
        """The fake of a part of a distributed tensor of which the sizes of the whole do not
        follow. Its sizes are constants."""
        return self._fake_mode.from_tensor(real, static_shapes=True)

    def _of_part(
        self, real: torch.Tensor, source: Source, of: Callable[[Any, Source], torch.Tensor]
    ) -> torch.Tensor:
        """The fake of an inner tensor of a wrapper. Which of them are one object is guarded."""
        known = self._known.get(id(real))
        first = self._part_sources.setdefault(id(real), source if known is None else known.source)
        if first != source:
            self._guards.add(source, Kind.SAME, first)
        fake = of(real, source) if known is None else known.fake
        self.parts[source] = fake
        return fake

    def _marks_of(self, real: torch.Tensor, source: Source) -> dict[int, Mark]:
        """The marks of a tensor. Those of a wrapper's inner tensor are its class's own, which
        promise nothing: a jagged tensor marks the size that holds its longest sequence."""
        marks = marks_of(real)
        if self._part_sources.get(id(real)) != source:
            return marks
        return {dim: Mark("maybe") if m.kind == "dynamic" else m for dim, m in marks.items()}

    def distinct_parts(self) -> list[Source]:
        """Paths to the inner tensors of wrappers that are no other object among them."""
        return [source for source in self._part_sources.values() if source is not None]

    def _dynamic_dims(self, real: torch.Tensor, source: Source) -> dict[int, Mark | None]:
        """The dimensions whose sizes are to be symbols, and what the user said of them."""
        if isinstance(real, torch.nn.Parameter) or not real.dim():
            return {}
        options, marks = self._symbols.options, self._marks_of(real, source)
        sizes = self.sizes[source] = tuple(real.shape)
        dims: Iterable[int] = ()
        if options.dynamic is True or (
            options.dynamic is None and not options.assume_static_by_default
        ):
            dims = range(len(sizes))
        elif options.dynamic is None and options.automatic_dynamic_shapes:
            dims = self._symbols.variation.dims(source, sizes)
            if source in self._ragged:
                dims = {*dims, self._ragged[source]}
        # 0 and 1 are mostly meant
        wanted: dict[int, Mark | None] = {dim: None for dim in dims if sizes[dim] > 1}
        for dim, mark in marks.items():
            if mark.kind == "static":
                wanted.pop(dim, None)
            elif options.dynamic is not False:
                wanted[dim] = mark
        return wanted


def ragged_dims(jagged: Any, source: Source) -> dict[Source, int]:
    """The dimensions of a jagged tensor's parts that are other ones in each batch: its rows, and
    the number of its sequences. They are symbols from the first capture on."""
    parts = {"_values": jagged._ragged_idx - 1, "_offsets": 0, "_lengths": 0}
    return {AttrSource(source, name): dim for name, dim in parts.items()}
