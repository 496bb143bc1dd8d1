"""What _guards offers; the C files say how."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

UNBOUND: object
api: object  # the capsule of guard_api.h

class Program:
    steps: int
    temps: int
    snapshots_taken: int
    reuses: int
    compared: int
    def __new__(
        cls,
        steps: tuple[tuple[str, int, tuple[int, ...], bool, Any, int], ...],
        lifted: tuple[int, ...],
        temps: int,
        stable: int = ...,
        held: int = ...,
        last: int = ...,
        fresh: int = ...,
        anchors: tuple[int, ...] = (),
    ) -> Program: ...
    def check(self, slots: tuple[Any, ...], function: FunctionType, /) -> bool: ...
    def lifted(
        self, slots: tuple[Any, ...], function: FunctionType, /
    ) -> tuple[Any, ...] | None: ...
    def first_failure(self, slots: tuple[Any, ...], function: FunctionType, /) -> int: ...

def move_index(enumeration: enumerate[Any], steps: int, /) -> None: ...
def set_layout(fields: tuple[Any, ...] | None, /) -> None: ...
def tensor_window(object: Any, /) -> tuple[int, int, int, int] | None: ...
def tensor_matches(facts: tuple[Any, ...], object: Any, /) -> bool: ...
def set_state_probes(addresses: tuple[Any, ...] | None, /) -> None: ...
def fingerprint() -> tuple[bytes, int, int] | None: ...
def set_watching(way: str | None, blind_for_attributes: bool, /) -> None: ...
def shows(dict: dict[Any, Any], change: Callable[[], Any], /) -> bool: ...
