from collections.abc import Callable
from typing import Any

def run(address: int, *arguments: Any) -> None: ...
def all_within(tensor: Any, count: int, bytes: int, low: int, high: int, /) -> bool: ...

class Kernel:
    def __new__(
        cls,
        function: int,
        threads: int,
        shared: int,
        aligned: int = 0,
        otherwise: Callable[[], Kernel] | None = None,
    ) -> Kernel: ...
    def __call__(self, programs: int, stream: int, *arguments: Any) -> None: ...
