"""Keeps results that depend on parameters alone between calls, until a parameter changes (native's
`freezing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import torch

from ...errors import warn_user

MOST = 8  # times that parameters may change before nothing is kept any more
VERSION, DATA_PTR = attrgetter("_version"), torch.Tensor.data_ptr


class FrozenGraph:
    """Calls `compiled` with the arguments and what `once` makes of some of them, which is made
    again when those have changed: when a tensor is another one, was written to, or got other memory
    (`.data = `). Writes through `.data` torch does not tell. To look costs some 0.15 us a parameter
    at each call. plain: what to call when they change all the time."""

    def __init__(
        self, once: Callable[..., Sequence[torch.Tensor]], positions: Sequence[int],
        compiled: Callable[..., Any],
        plain: Callable[[], Callable[..., Any]],
    ) -> None:  # fmt: skip
        self.once, self.compiled, self.plain = once, compiled, plain
        # the slice, as one position alone would give no tuple
        self.chosen = itemgetter(slice(0, 0), *positions)
        self.known: tuple[torch.Tensor, ...] = ()
        self.versions: list[int] = []
        self.places: list[int] = []
        self.memory: list[torch.Tensor] = []  # while it is held, no other tensor gets it
        self.results: Sequence[torch.Tensor] = ()
        self.changes = 0
        self.instead: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self.instead is not None:
            return self.instead(*args)
        mine = self.chosen(args)[1:]
        if not self.is_current(mine):
            self.changes += 1
            if self.changes > MOST:
                return self.give_up()(*args)
            self.renew(mine)
        return self.compiled(*args, *self.results)

    def is_current(self, mine: tuple[torch.Tensor, ...]) -> bool:
        if len(mine) != len(self.known) or not all(map(is_, mine, self.known)):
            return False
        return [*map(VERSION, mine)] == self.versions and [*map(DATA_PTR, mine)] == self.places

    def renew(self, mine: tuple[torch.Tensor, ...]) -> None:
        with torch.no_grad():
            self.results = self.once(*mine)
        self.known, self.versions, self.places = mine, [*map(VERSION, mine)], [*map(DATA_PTR, mine)]
        self.memory = [tensor.detach() for tensor in mine]

    def give_up(self) -> Callable[..., Any]:
        warn_user(
            f"parameters changed {MOST} times under the option freezing, which is for parameters "
            "that stay as they are; "
            "it is not used any more for this graph",
            stacklevel=3,
        )
        self.instead = self.plain()
        self.known, self.memory, self.results = (), [], ()
        return self.instead
