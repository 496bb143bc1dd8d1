"""Caches values that depend only on parameters, until a parameter changes (native's option
`freezing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import torch

from ...errors import warn_user

MOST = 8  # changes of parameters after which nothing is cached any more
VERSION, DATA_PTR = attrgetter("_version"), torch.Tensor.data_ptr


class FrozenGraph:
    """Calls `compiled` with the arguments and the cached results of `once`, which are computed
    again when a parameter is another tensor, was written, or has other memory (`.data = `). torch
    does not record writes through `.data`. The check costs about 0.15 us a parameter in each call.
    plain: called instead when parameters change all the time."""

    def __init__(
        self,
        once: Callable[..., Sequence[torch.Tensor]],
        positions: Sequence[int],
        compiled: Callable[..., Any],
        plain: Callable[[], Callable[..., Any]],
    ) -> None:
        self.once, self.compiled, self.plain = once, compiled, plain
        # the slice, since a single position would not give a tuple
        self.chosen = itemgetter(slice(0, 0), *positions)
        self.known: tuple[torch.Tensor, ...] = ()
        self.versions: list[int] = []
        self.places: list[int] = []
        self.memory: list[torch.Tensor] = []  # held, so that no other tensor gets the same address
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
            f"parameters changed {MOST} times under the option freezing, which is switched off for "
            "this graph now; use it for parameters that do not change",
            stacklevel=3,
        )
        self.instead = self.plain()
        self.known, self.memory, self.results = (), [], ()
        return self.instead
