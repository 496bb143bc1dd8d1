"""Options: what one compile() call asks for, frozen and passed down; `config` holds the
process-wide defaults.

The only reader of environment variables.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from .records import record

LOGS = ("breaks", "recompiles", "guards", "graphs", "kernels", "tune")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _flag(name: str, default: bool) -> bool:
    return os.environ.get(name, "1" if default else "0").lower() not in ("", "0", "false", "no")


def _cache_dir() -> Path:
    chosen = os.environ.get("FRAMEJIT_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("framejit"))


def cache_dir_is_chosen() -> bool:
    """Whether the environment names the cache folder."""
    return "FRAMEJIT_CACHE_DIR" in os.environ


def replaces_torch_compile() -> bool:
    """Whether the environment asks for torch.compile to mean framejit.compile."""
    return _flag("FRAMEJIT_REPLACE_TORCH_COMPILE", False)


def asked_c_compiler() -> str:
    """The C compiler that the environment asks for by CC, "" for none."""
    return os.environ.get("CC", "")


def inherited_environment(**changes: str) -> dict[str, str]:
    """The environment for a process of ours, with some variables changed."""
    return {**os.environ, **changes}


def log_names(asked: str | Iterable[str], who: str = "config.log") -> tuple[str, ...]:
    """Names of LOGS from "breaks,guards" or a sequence of them, "all" for all. Raises ValueError
    naming the known ones."""
    names = tuple(
        name.strip()
        for name in (asked.split(",") if isinstance(asked, str) else asked)
        if name.strip()
    )
    unknown = [name for name in names if name not in (*LOGS, "all")]
    if unknown:
        raise ValueError(
            f"{who}: unknown names {', '.join(map(repr, unknown))}; allowed are "
            f"{', '.join(LOGS)}, or all"
        )
    return LOGS if "all" in names else names


def verified_calls(asked: Any, who: str = "config.verify") -> int:
    """A number of calls, from a text too. Raises ValueError naming `who` for anything else."""
    try:
        calls = (
            -1
            if isinstance(asked, bool)
            else operator.index(int(asked) if isinstance(asked, str) else asked)
        )
    except (TypeError, ValueError):
        calls = -1
    if calls < 0:
        raise ValueError(
            f"{who} must be a number of calls to compare with eager, such as 3 (0: none), not "
            f"{asked!r}"
        )
    return calls


def seconds_to_spend(asked: Any, who: str = "config.compile_budget") -> float | None:
    """A number of seconds, None for the usual. Raises ValueError naming `who` for anything else."""
    if asked is None:
        return None
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked >= 0:
        raise ValueError(
            f"{who} must be a number of seconds (0: none, inf: no limit) or None, not {asked!r}"
        )
    return float(asked)


# of values that config is given
CHECKS: dict[str, Callable[[Any], Any]] = {
    "log": log_names,
    "verify": verified_calls,
    "compile_budget": seconds_to_spend,
}


@record
class Options:
    """Everything that steers a capture. Knobs that mean the same as one of torch's bear torch's
    name."""

    backend: str | Callable[..., Any] = "autotune"
    backend_options: tuple[tuple[str, Any], ...] = ()
    mode: str = "default"
    dynamic: bool | None = None
    fullgraph: bool = False
    strict: bool = False  # internal failures raise instead of falling back to eager
    suppress_errors: bool | None = (
        # a backend that fails costs a warning (True) or raises BackendError (False, strict,
        # fullgraph)
        None
    )
    recompile_limit: int = 8  # entries at one site before it runs in eager
    fail_on_recompile_limit_hit: bool = False
    # a call that compiled code cannot serve raises RecompileError; first compiles do not
    error_on_recompile: bool = False
    # with dynamic=None: sizes and numbers are static until they differ
    assume_static_by_default: bool = True
    automatic_dynamic_shapes: bool = True  # what differed between two calls becomes a symbol
    specialize_int: bool = False  # ints that the program is given are never symbols
    specialize_float: bool = False  # nor floats
    # .item() gives a symbol instead of a break; None: that of a tensor on the CPU does, where
    # reading a number waits for nothing
    capture_scalar_outputs: bool | None = None
    capture_dynamic_output_shape_ops: bool | None = None  # so does nonzero() for its size
    inline_depth: int = 200  # calls
    trace_budget: int = 2_000_000  # instructions interpreted in one capture
    unroll_iterations: int = 256  # iterations of a loop that are always unrolled
    # a loop of more iterations stays a loop beyond so many instructions; an operation counts as 200
    unroll_budget: int = 250_000
    # threads that meet a compile in progress wait (a minute at most) instead of running eager
    wait_for_compile: bool = False
    # with the default backend some whole calls run in eager, to see whether compiled ones are
    # faster
    compare_calls: bool = True
    # of the program's time, for compiling code again and again (frontend/runtime/account.py)
    compile_share: float = 0.05
    # seconds that a handle may spend on such code instead; inf: no limit
    compile_budget: float | None = None
    verify: int = 0  # so many first calls of each graph are compared with eager
    store: bool = True  # entries are written to config.cache_dir, and read by later processes
    sinks: tuple[Callable[[Any], None], ...] = ()  # are given each record of events.py
    probe: Any = None  # of frontend/runtime/probe.py: compiled code tells it what its parts take

    @property
    def compares_calls(self) -> bool:
        """Whether calls that are slower than eager's run in eager: with default settings."""
        default = self.backend == "autotune" and self.mode == "default" and not self.fullgraph
        return default and self.compare_calls

    @property
    def is_economical(self) -> bool:
        """Whether graphs beyond the first ones have to be worth compiling: with default settings,
        unless the user asks for graphs to be compiled at once, or for an error at a recompile."""
        at_once = dict(self.backend_options).get("patience") == 0
        return self.compares_calls and not at_once and not self.error_on_recompile

    @property
    def suppresses_errors(self) -> bool:
        """Whether a backend that fails costs a warning only."""
        if self.suppress_errors is None:
            return not (self.strict or self.fullgraph)
        return self.suppress_errors


@dataclass
class Config:
    """Process-wide defaults of Options, as plain attributes; `patch` changes them for a while.

    cache_dir: where decisions and what goes with them are kept. progress: whether a terminal shows
    what is being tried. log: what goes to Python's logging, by names of LOGS ("breaks,guards" is
    taken too).
    """

    backend: str | Callable[..., Any] = field(
        default_factory=lambda: os.environ.get("FRAMEJIT_BACKEND") or "autotune"
    )
    cache_dir: Path = field(default_factory=lambda: _cache_dir())
    progress: bool = field(default_factory=lambda: _flag("FRAMEJIT_PROGRESS", True))
    log: tuple[str, ...] = field(
        default_factory=lambda: log_names(os.environ.get("FRAMEJIT_LOG", ""), "FRAMEJIT_LOG")
    )
    strict: bool = field(default_factory=lambda: _flag("FRAMEJIT_STRICT", False))
    suppress_errors: bool | None = None
    recompile_limit: int = 8
    fail_on_recompile_limit_hit: bool = False
    error_on_recompile: bool = False
    assume_static_by_default: bool = True
    automatic_dynamic_shapes: bool = True
    specialize_int: bool = False
    specialize_float: bool = False
    capture_scalar_outputs: bool | None = None
    capture_dynamic_output_shape_ops: bool | None = None
    inline_depth: int = 200
    trace_budget: int = 2_000_000
    unroll_iterations: int = 256
    unroll_budget: int = 250_000
    wait_for_compile: bool = False
    compile_share: float = 0.05
    compile_budget: float | None = None
    compare_calls: bool = field(default_factory=lambda: _flag("FRAMEJIT_COMPARE_CALLS", True))
    verify: int = field(
        default_factory=lambda: verified_calls(
            os.environ.get("FRAMEJIT_VERIFY") or 0, "FRAMEJIT_VERIFY"
        )
    )
    store: bool = field(default_factory=lambda: _flag("FRAMEJIT_STORE", True))
    sinks: tuple[Callable[[Any], None], ...] = ()
    probe: Any = None
    disable: bool = field(default_factory=lambda: _flag("FRAMEJIT_DISABLE", False))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise unknown_option(name)
        object.__setattr__(self, name, CHECKS[name](value) if name in CHECKS else value)

    def defaults(self) -> dict[str, Any]:
        """The values that an Options takes over."""
        wanted = {f.name for f in fields(Options)}
        return {name: value for name, value in vars(self).items() if name in wanted}

    def patch(self, **changes: Any) -> _Patch:
        """Changes options inside a `with` block or a decorated function. Raises AttributeError for
        an unknown one."""
        for name in changes:
            if name not in self.__dataclass_fields__:
                raise unknown_option(name)
        return _Patch(self, changes)


def unknown_option(name: str) -> AttributeError:
    known = ", ".join(Config.__dataclass_fields__)
    return AttributeError(f"framejit.config has no option '{name}'; it has: {known}")


class _Patch:
    """Context manager and decorator of Config.patch; may be entered more than once."""

    def __init__(self, config: Config, changes: dict[str, Any]) -> None:
        self.config, self.changes = config, changes
        self.saved: list[dict[str, Any]] = []

    def __enter__(self) -> Config:
        self.saved.append({name: getattr(self.config, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.config, name, value)
        return self.config

    def __exit__(self, *exc: object) -> None:
        for name, value in self.saved.pop().items():
            setattr(self.config, name, value)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run_patched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run_patched


config = Config()


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Internal failures raise inside the block (the tests run so)."""
    with config.patch(strict=True):
        yield
