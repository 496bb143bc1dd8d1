"""What _hook offers, for type checkers and readers; the C files say how."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

UNBOUND: object

class Entry:
    program: Any
    function: Callable[..., Any] | None
    code: CodeType | None
    needs_hook: bool
    hits: int
    data: Any
    graph: Callable[..., Any] | None
    once: bool
    def __init__(
        self,
        program: Any = None,
        function: Callable[..., Any] | None = None,
        code: CodeType | None = None,
        needs_hook: bool = False,
        data: Any = None,
        direct: tuple[Callable[..., Any], tuple[int, ...], tuple[type[BaseException], ...]]
        | None = None,
        once: bool = False,
    ) -> None: ...

class Site:
    function: Callable[..., Any] | None
    nslots: int
    on_miss: Callable[[Site, FunctionType, tuple[Any, ...]], Entry | None] | None
    data: Any
    skip: bool
    full: bool
    gave_up: bool
    misses: int
    rejected: int
    passed: int
    @property
    def entries(self) -> tuple[Entry, ...]: ...
    def __init__(
        self,
        function: Callable[..., Any] | None,
        nslots: int,
        on_miss: Callable[[Site, FunctionType, tuple[Any, ...]], Entry | None] | None = None,
        data: Any = None,
    ) -> None: ...
    def add(self, entry: Entry) -> None: ...
    def remove(self, entry: Entry) -> None: ...
    def clear(self) -> None: ...

class Continuation:
    site: Site
    state: Any
    eager: bool
    def __init__(self, site: Site, state: Any, eager: bool = False) -> None: ...

class ContinuationMaker:
    site: Site
    eager: bool
    def __init__(self, site: Site, eager: bool = False) -> None: ...
    def __call__(self, state: tuple[Any, ...], /) -> Continuation: ...

class ModuleCall:
    def __init__(
        self,
        module: Any,
        forward: Callable[..., Any],
        handle: Callable[..., Any] | None,
        globals: dict[str, Any],
        caller: CodeType,
        tracing: int,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Handle:
    __qualname__: str  # as functools.update_wrapper sets it
    framejit: Any  # api.make_handle sets these three
    explain: Callable[..., Any]
    wait: Callable[..., Any]
    function: Any
    root: Site
    on_frame: Callable[[Handle, CodeType, FunctionType], Site | None] | None
    comparison: Any
    unmeasured: int
    def __init__(
        self,
        function: FunctionType,
        root: Site,
        on_frame: Callable[[Handle, CodeType, FunctionType], Site | None] | None = None,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any: ...
    def sites(self) -> list[tuple[CodeType, Site | None]]: ...
    def forget(self) -> None: ...

class Quiet:
    wrapped: Callable[..., Any]
    def __init__(self, callable: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def is_quiet() -> bool: ...
def current_handle() -> Handle | None: ...
def disable_call(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = ..., /
) -> Any: ...
def installed() -> bool: ...
def set_compiler_switch(
    f: Callable[[Callable[..., Any] | bool | None], Callable[..., Any] | bool | None], /
) -> None: ...
def stance() -> str: ...
def set_stance(name: str | None, thread: bool) -> str | None: ...
