"""Errors: break reasons with their hints, the two exceptions that control the flow, and the public
errors.

Ground floor: imports nothing of framejit.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

from .records import record


@record
class BreakReason:
    """A kind of graph break: a stable id, a sentence with blanks for the details, and what the user
    can do."""

    id: str
    sentence: str
    hint: str


REASONS = {
    reason.id: reason
    for reason in (
        BreakReason(
            "requested", "framejit.graph_break() was called{}", "remove the call to keep one graph"
        ),
        BreakReason(
            "unknown-call",
            "framejit cannot trace the call of {}",
            "move it out of the compiled function, or declare it with framejit.allow_in_graph if "
            "it only does tensor work",
        ),
        BreakReason(
            "disabled-call", "{} is marked to stay in Python", "remove the mark to capture the call"
        ),
        BreakReason(
            "output",
            "{} writes output",
            "move it out of the loop, or accept the break: it costs one statement",
        ),
        BreakReason(
            "data-dependent-branch",
            "the branch tests the value of a tensor{}",
            "use torch.where, or decide before the compiled function is called",
        ),
        BreakReason(
            "data-dependent-value",
            "{} reads a tensor's value",
            "keep the value in a tensor, or accept the break",
        ),
        BreakReason(
            "data-dependent-shape",
            "the values of a tensor decide the size of the result of {}",
            "avoid branches on that size, pad to a fixed size, or accept the break",
        ),
        BreakReason(
            "class-made",
            "a `class` statement runs{}",
            "define the class outside: each call makes a new class, which is compiled anew",
        ),
        BreakReason(
            "unsupported-bytecode",
            "framejit does not support Python's instruction {}",
            "rewrite the statement, or move it out of the compiled function",
        ),
        BreakReason(
            "unsupported-value",
            "framejit does not support this use of {}",
            "move it out of the compiled function",
        ),
        BreakReason(
            "unsupported-operator",
            "framejit does not support the operation {}",
            "rewrite it, or move it out of the compiled function",
        ),
        BreakReason(
            "unsupported-mutation",
            "framejit cannot apply the mutation {} after the graph has run",
            "mutate a copy made inside the function",
        ),
        BreakReason(
            "fake-tensor",
            "torch cannot run this operator on fake tensors: {}",
            "register a fake implementation of the operator (torch.library.register_fake), or "
            "move it out",
        ),
        BreakReason(
            "exception-leaves",
            "the function raises {}",
            "catch it inside the function if it is part of normal work",
        ),
        BreakReason(
            "subclass",
            "a tensor subclass is involved: {}",
            "unwrap it before the compiled function is called",
        ),
        BreakReason(
            "too-deep",
            "calls are nested too deeply to inline{}",
            "turn the recursion into a loop, or raise config.inline_depth",
        ),
        BreakReason(
            "long-loop",
            "unrolling more than {} iterations would make too large a graph, so Python runs this "
            "loop and framejit compiles its body",
            "write it as an operation on a whole tensor, or raise config.unroll_iterations or "
            "config.unroll_budget",
        ),
        BreakReason(
            "too-long",
            "tracing took more than {} instructions",
            "shorten the loop, or raise config.trace_budget",
        ),
        BreakReason(
            "higher-order",
            "framejit cannot capture a function passed to {}",
            "let it compute new tensors from its arguments, and change nothing else",
        ),
        BreakReason(
            "generator",
            "framejit does not inline this generator or coroutine: {}",
            "consume the generator where it is made",
        ),
    )
}


class FramejitError(Exception):
    """Base of what framejit raises to its users."""


class GraphBreakError(FramejitError):
    """A graph break under `fullgraph=True`: reason, line and hint are in the message and in
    `.graph_break`."""

    def __init__(self, graph_break: GraphBreak, where: str) -> None:
        super().__init__(
            f"{graph_break.sentence} at {where} (break '{graph_break.reason.id}')\n  hint: "
            f"{graph_break.reason.hint}"
        )
        self.graph_break = graph_break
        self.where = where


class BackendError(FramejitError):
    """A backend failed to compile a graph; `.backend` is its name, `__cause__` its own exception.
    origin: the plugin that provides it."""

    def __init__(self, backend: str, cause: BaseException, origin: str = "") -> None:
        whose = f" of {origin}" if origin else ""
        super().__init__(
            f"backend '{backend}'{whose} failed to compile a graph: {type(cause).__name__}: {cause}"
        )
        self.backend = backend


class RequirementError(FramejitError):
    """An option requires something that is not possible here. Also raised where other failures of a
    backend only cause a warning."""


class RecompileError(FramejitError):
    """Something would be compiled (again) where `error_on_recompile` or the stance
    "fail_on_recompile" forbids it."""


class RecompileLimitError(FramejitError):
    """More entries than `recompile_limit` were needed while `fullgraph` or
    `fail_on_recompile_limit_hit` asked to raise."""


class ArtifactError(FramejitError):
    """Compiled code cannot be saved to a file, or that of a file cannot be used here."""


class ExportError(FramejitError):
    """A function is not one graph. `.reasons` says why, in one sentence each, with the line where
    one is known."""

    def __init__(self, name: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n  ".join((f"{name} is not one graph:", *self.reasons)))


class FramejitWarning(UserWarning, RuntimeWarning):
    """The category of all warnings of framejit."""


def warn_user(text: str, stacklevel: int = 1) -> None:
    """Warns the user. Where a filter turns all warnings into exceptions (`python -W error`), the
    text goes to stderr instead, since a message must not make the program fail; a filter on
    FramejitWarning itself does raise. stacklevel: as for warnings.warn, 1 for the caller."""
    try:
        warnings.warn(f"framejit: {text}", FramejitWarning, stacklevel=stacklevel + 1)
    except FramejitWarning:
        filters = [
            (action, category)
            for action, _, category, *_ in warnings.filters
            if isinstance(category, type)
        ]
        if any(
            action == "error" and issubclass(category, FramejitWarning)
            for action, category in filters
        ):
            raise
        print(f"framejit: {text}", file=sys.stderr)


_warned: set[Hashable] = set()


def warn_once(text: str, key: Hashable = None, stacklevel: int = 1) -> None:
    """Warns as framejit, once for each key (None: for each text) in the life of the process."""
    key = text if key is None else key
    if key not in _warned:
        _warned.add(key)
        warn_user(text, stacklevel + 1)


class InternalError(FramejitError):
    """A bug of framejit, raised only under strict; otherwise the frame runs in eager with one
    warning."""


# What operations raise for wrong arguments. torch's subclasses of these say that it cannot run an
# operator without data.
PLAIN_ERRORS = (RuntimeError, TypeError, ValueError, IndexError)


class GraphBreak(Exception):  # noqa: N818 - it steers, it is not an error
    """Python must run this instruction; capture continues after it."""

    def __init__(self, reason_id: str, detail: str = "") -> None:
        self.reason = REASONS[reason_id]
        self.detail = detail
        super().__init__(self.sentence)
        # user lines, innermost first, added while it passes through inlined frames
        self.chain: list[str] = []
        self.position: int | None = None  # in the innermost frame where a break can be made
        # the state there, if the capture can go back to it (tracing/interpreter/outcome.py)
        self.mark: Any = None

    @property
    def sentence(self) -> str:
        return self.reason.sentence.format(self.detail)

    @property
    def raises(self) -> bool:
        """Whether the program, as far as is known, raises an exception of its own here."""
        # raised by the operation, not because data is missing
        refused = self.reason.id == "fake-tensor" and type(self.__cause__) in PLAIN_ERRORS
        return refused or self.reason.id == "exception-leaves"


class Rerun(Exception):  # noqa: N818 - it steers, it is not an error
    """A graph raised and everything is restored: the frame starts over in eager."""


class SkipFrame(Exception):  # noqa: N818 - it steers, it is not an error
    """Python runs this frame."""


class PostponedCompile(Exception):  # noqa: N818 - it steers, it is not an error
    """Python runs this call of the frame; a later one may be compiled. guard: a Guard that holds
    for such calls; None if there is none."""

    def __init__(self, text: str, guard: object = None) -> None:
        super().__init__(text)
        self.guard: Any = guard
