"""Context managers that change torch's modes: entered in the trace and in the graph, and really
entered at a break."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._functorch import predispatch
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Args, Kwargs, Value, require_path
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..registry import wraps
from .context_manager import ContextManager
from .torch_function_calls import TorchFunctionCalls


class ModesMark(NamedTuple):
    """A point to which TorchModes rolls back: its lengths and counts then, and the grad mode."""

    opened: int
    left: int
    entered: int
    grad: bool
    subclasses_off: int
    indexes_by_tensors: int


class ModeManager(ContextManager):
    """A manager of a torch mode: made by the traced program from `arguments` and `keywords`, or an
    existing one (`real`).

    `saved` is the state before entering, or the node that entered it, with the grad mode before
    (None while not entered). `prev` is the mode that torch.set_grad_enabled found when it was made,
    which switches the mode, and that leaving it restores.
    """

    __slots__ = ("cls", "arguments", "keywords", "real", "saved", "prev", "last")
    state = ("saved", "last")
    methods = ("__enter__", "__exit__", "clone")

    def __init__(
        self,
        cls: type,
        arguments: list[Any],
        keywords: dict[str, Any],
        source: Source | None = None,
        real: Any = None,
    ) -> None:
        super().__init__(source)
        self.cls, self.arguments, self.keywords, self.real = cls, arguments, keywords, real
        self.saved: Any = None
        self.prev: bool | None = None
        # what entering it last found, for an existing one: it shows as its `prev`
        self.last: bool | None = None

    def python_type(self) -> type:
        return self.cls if self.real is None else type(self.real)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__":
            return tx.wrap(self.python_type(), None)
        return super().attribute(tx, name)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        if (
            self.source is not None
            or len(args) != 1
            or args[0].python_type() is not types.FunctionType
        ):
            raise GraphBreak("unknown-call", f"{self.cls.__name__} as a decorator")
        return tx.calls.class_method(self, self.cls, "__call__").call(tx, args, kwargs)

    def clone(self, tx: TraceContext) -> Value:
        """manager.clone(): returns a manager like it that is not entered."""
        if self.cls in AUTOCASTS:
            raise self.unsupported_use("method clone")
        made = ModeManager(self.cls, self.arguments, self.keywords)
        if self.cls is torch.set_grad_enabled:
            made.switch(tx)
        return made

    def switch(self, tx: TraceContext) -> None:
        """Switches the grad mode, as making a torch.set_grad_enabled does."""
        self.prev = torch.is_grad_enabled()
        tx.modes.set_grad(tx, GRAD_MODES[self.cls](self.arguments, self.keywords))

    def enter(self, tx: TraceContext) -> Value:
        tx.effects.change(self)
        grad = torch.is_grad_enabled()
        found = tx.modes.enter(tx, self.cls, self.arguments, self.keywords)
        self.saved = (found if self.prev is None else self.prev, grad)
        self.last = found if self.cls in GRAD_MODES and self.prev is None else None
        tx.modes.open.append(self)
        return self if self.cls in AUTOCASTS else Constant(None)

    def exit(self, tx: TraceContext) -> Value:
        # entered before the frame, or before a break
        if self.real is not None and self.saved is None and not tx.modes.open:
            tx.modes.leave_existing(tx, self)
            return Constant(None)
        if not tx.modes.open or tx.modes.open[-1] is not self:
            raise GraphBreak("unsupported-value", f"{self.cls.__name__} exited out of order")
        tx.effects.change(self)
        tx.modes.open.pop()
        tx.modes.leave(tx, self.cls, self.saved[0])
        self.saved = None
        return Constant(None)

    def reconstruct(self, emit: Emitter) -> None:
        if self.prev is not None:
            enabled = GRAD_MODES[self.cls](self.arguments, self.keywords)
            emit.call(set_grad_manager, [emit.const(enabled), emit.const(self.prev)])
        else:
            arguments = map(emit.const, (*self.arguments, *self.keywords.values()))
            emit.call(self.cls, arguments, tuple(self.keywords))

    def emit_changes(self, emit: Emitter) -> None:
        if self.last is not None:
            emit.run(setattr, [self, emit.const("prev"), emit.const(self.last)])


class TorchModes:
    """torch's modes while a frame is traced. They are really changed, since fake tensors depend on
    them, mirrored in the graph, and restored when the capture ends.

    `open` are the managers entered and not left, outermost first; `left` those that were entered
    before the capture began and left in it.
    """

    def __init__(self) -> None:
        self.open: list[ModeManager] = []
        self.left: list[ModeManager] = []
        self.grad_at_start = torch.is_grad_enabled()
        # the grad mode at the program's end, where it must be set
        self.lasting_grad: bool | None = None
        # of the levels of torch.func opened so far, outermost first
        self.level_positions: list[int] = []
        # how often DisableTorchFunctionSubclass is entered
        self.subclasses_off = int(not torch._C._is_torch_function_enabled())
        self.torch_function = TorchFunctionCalls()
        self.indexes_by_tensors = 0  # how often TransformGetItemToIndex is entered
        # what runs later, with or without gradients, while it is interpreted; "" for none
        self.runs_later = ""
        # modes really entered while tracing: kind, object, node
        self.cleanups: list[tuple[str, Any, Any]] = []

    def enter(
        self, tx: TraceContext, cls: type, arguments: list[Any], keywords: dict[str, Any]
    ) -> Any:
        """Enters a mode of torch, here and in the graph. Returns what leave() takes: the grad mode
        before, or the node that entered the mode."""
        if cls in GRAD_MODES:
            before = torch.is_grad_enabled()
            self.set_grad(tx, GRAD_MODES[cls](arguments, keywords))
            return before
        if cls is torch.inference_mode:
            enabled = bool(
                {**dict(zip(("mode",), arguments, strict=False)), **keywords}.get("mode", True)
            )
            node = tx.graph.raw_call(grad_mode._enter_inference_mode, (enabled,))
            real = grad_mode._enter_inference_mode(enabled)
            self.cleanups.append(("inference", real, node))
            return node
        node = tx.graph.raw_call(
            autocast_mode._enter_autocast, autocast_arguments(cls, arguments, keywords)
        )
        real = autocast_mode._enter_autocast(*autocast_arguments(cls, arguments, keywords))
        self.cleanups.append(("autocast", real, node))
        return node

    def leave(self, tx: TraceContext, cls: type, saved: Any) -> None:
        if cls in GRAD_MODES:
            self.set_grad(tx, saved)
            return
        self._undo(self.cleanups.pop(), tx)

    def leave_existing(self, tx: TraceContext, manager: ModeManager) -> None:
        """Leaves a manager that was entered before the capture began: restores the state that it
        has saved."""
        source, real = manager.known_source, manager.real
        names = FOUND[manager.cls]
        if any(not hasattr(real, name) for name in names):
            raise GraphBreak("unsupported-value", f"{manager.describe()} that was not entered")
        found = [getattr(real, name) for name in names]
        for name, value in zip(names, found, strict=True):
            tx.guards.add(AttrSource(source, name), Kind.EQUALS, value)
        if manager.cls in GRAD_MODES:
            self.set_grad(tx, found[0])
        elif manager.cls is torch.inference_mode:
            self.enter(tx, torch.inference_mode, found[:1], {})
            self.set_grad(tx, found[1])
        else:
            self.enter(tx, torch.autocast, [manager.arguments[0], *found], {})
        self.left.append(manager)

    def enter_level(self, tx: TraceContext, what: str, *arguments: Value) -> int:
        """Opens a level of torch.func (of LEVELS), here and in the graph; returns its number."""
        in_graph, here = [], []
        for argument in arguments:
            node, fake = tx.graph.argument(argument)
            in_graph.append(node)
            here.append(fake)
        del self.level_positions[sum(what in LEVELS for what, _, _ in self.cleanups) :]
        self.level_positions.append(tx.frames.root_break_position())
        opened = tx.graph.raw_call(LEVELS[what], tuple(in_graph))
        level = LEVELS[what](*here)
        # the graph may find another mode
        self.cleanups.append((what, level, opened if what == "forward" else level))
        return level

    def position_outside_levels(self) -> int | None:
        """The root frame's position before the outermost open level: Python cannot go on inside a
        level. None without one."""
        return (
            self.level_positions[0] if any(what in LEVELS for what, _, _ in self.cleanups) else None
        )

    def leave_level(self, tx: TraceContext, what: str) -> None:
        if not self.cleanups or self.cleanups[-1][0] != what:
            raise GraphBreak(
                "unsupported-value", f"a level of torch.func.{what} exited out of order"
            )
        self._undo(self.cleanups.pop(), tx)

    def _undo(self, cleanup: tuple[str, Any, Any], tx: TraceContext | None) -> None:
        """Leaves what was entered for real, in the graph too when a context is given."""
        what, real, node = cleanup
        UNDO[what](real)
        if tx is not None:
            tx.graph.raw_call(UNDO[what], (node,))

    @contextmanager
    def unknown_grad_mode(self, what: str) -> Iterator[None]:
        """Within the context, code is interpreted that runs later, in a grad mode that is not known
        now."""
        before, self.runs_later = self.runs_later, what
        try:
            yield
        finally:
            self.runs_later = before

    def require_known_grad_mode(self) -> None:
        """Breaks if the grad mode is not known."""
        if self.runs_later:
            what = "which depends on whether gradients are recorded"
            raise GraphBreak("unknown-call", f"{self.runs_later}, {what}")

    def set_grad(self, tx: TraceContext, enabled: bool) -> None:
        self.require_known_grad_mode()
        if torch.is_grad_enabled() != enabled:
            tx.graph.raw_call(torch._C._set_grad_enabled, (enabled,))
            torch._C._set_grad_enabled(enabled)

    def mark(self) -> ModesMark:
        """A point to roll back to."""
        return ModesMark(
            len(self.open),
            len(self.left),
            len(self.cleanups),
            torch.is_grad_enabled(),
            self.subclasses_off,
            self.indexes_by_tensors,
        )

    def rollback(self, mark: ModesMark) -> None:
        """Leaves everything entered since. Breaks where something was left since, which cannot be
        entered again."""
        if len(self.open) < mark.opened or len(self.cleanups) < mark.entered:
            raise GraphBreak("unsupported-value", "a mode left in a call that breaks")
        del self.open[mark.opened :]
        del self.left[mark.left :]
        while len(self.cleanups) > mark.entered:
            self._undo(self.cleanups.pop(), None)
        torch._C._set_grad_enabled(mark.grad)
        self.subclasses_off = mark.subclasses_off
        self.indexes_by_tensors = mark.indexes_by_tensors

    def close(self, tx: TraceContext | None) -> None:
        """Ends the capture: leaves everything that is open, in the graph too when a context is
        given."""
        grad = torch.is_grad_enabled()
        self.lasting_grad = None if grad == self.grad_at_start and not self.open else grad
        while self.cleanups:
            self._undo(self.cleanups.pop(), tx)
        if torch.is_grad_enabled() != self.grad_at_start:
            if tx is not None:
                tx.graph.raw_call(torch._C._set_grad_enabled, (self.grad_at_start,))
            torch._C._set_grad_enabled(self.grad_at_start)


def _leave_vmap(level: int) -> None:
    predispatch._vmap_decrement_nesting()


def _leave_grad(level: int) -> None:
    torch._C._functorch._grad_decrement_nesting()


def _leave_jvp(level: int) -> None:
    torch._C._functorch._jvp_decrement_nesting()


def _leave_dual(level: int) -> None:
    torch._C._exit_dual_level(level=level)


def enter_forward_mode(enabled: bool) -> bool:
    """Enables or disables derivatives in forward mode; returns the state before."""
    before = torch._C._is_fwd_grad_enabled()
    torch._C._set_fwd_grad_enabled(enabled)
    return before


LEVELS: dict[str, Callable[..., Any]] = {
    "vmap": predispatch._vmap_increment_nesting,
    "grad": torch._C._functorch._grad_increment_nesting,
    "jvp": torch._C._functorch._jvp_increment_nesting, "dual": torch._C._enter_dual_level,
    "forward": enter_forward_mode,
}  # fmt: skip
UNDO = {
    "inference": grad_mode._exit_inference_mode, "autocast": autocast_mode._exit_autocast,
    "vmap": _leave_vmap, "grad": _leave_grad, "jvp": _leave_jvp, "dual": _leave_dual,
    "forward": torch._C._set_fwd_grad_enabled,
}  # fmt: skip

MODE_SWITCHES = frozenset({
    torch._C._set_grad_enabled, grad_mode._enter_inference_mode, grad_mode._exit_inference_mode,
    autocast_mode._enter_autocast, autocast_mode._exit_autocast,
})  # fmt: skip
# where an inference_mode entered at a break keeps that mode, and grad mode, outside
OUTER = ("_framejit_outer", "_framejit_outer_grad")
AUTOCAST_FOUND = ("prev_fastdtype", "prev", "prev_cache_enabled")

GRAD_MODES = {
    torch.no_grad: lambda arguments, keywords: False,
    torch.enable_grad: lambda arguments, keywords: True,
    torch.set_grad_enabled: lambda arguments, keywords: bool([*arguments, *keywords.values()][0]),
}
AUTOCASTS = {
    torch.autocast: None,
    torch.amp.autocast_mode.autocast: None,
    torch.cuda.amp.autocast: "cuda",
    torch.cpu.amp.autocast: "cpu",
}


# Where a manager that was entered keeps the state it found.
FOUND: dict[type, tuple[str, ...]] = {
    **dict.fromkeys(GRAD_MODES, ("prev",)), torch.inference_mode: OUTER,
    **dict.fromkeys(AUTOCASTS, AUTOCAST_FOUND),
}  # fmt: skip


def autocast_arguments(
    cls: type, arguments: list[Any], keywords: dict[str, Any]
) -> tuple[Any, ...]:
    """(device_type, dtype, enabled, cache_enabled), as _enter_autocast takes them."""
    names = ["device_type", "dtype", "enabled", "cache_enabled"]
    if AUTOCASTS[cls] is not None:
        names = ["enabled", "dtype", "cache_enabled"]
    given = {"device_type": AUTOCASTS[cls], "dtype": None, "enabled": True, "cache_enabled": None}
    given |= dict(zip(names, arguments, strict=False)) | keywords
    return given["device_type"], given["dtype"], given["enabled"], given["cache_enabled"]


def enter_for_real(manager: Any, grad: bool) -> None:
    """Enters a manager at the end of a capture that the trace had entered symbolically, in the grad
    mode at that time."""
    torch._C._set_grad_enabled(grad)
    if type(manager) is torch.inference_mode:
        for name, mode in zip(
            OUTER, (torch.is_inference_mode_enabled(), torch.is_grad_enabled()), strict=True
        ):
            setattr(manager, name, mode)
    manager.__enter__()


def leave_for_real(manager: Any) -> None:
    """Leaves a manager that the trace had left symbolically."""
    manager.__exit__(None, None, None)


def set_grad_manager(mode: bool, prev: bool) -> torch.set_grad_enabled:
    """Returns a torch.set_grad_enabled with these attributes, without switching the mode."""
    manager = object.__new__(torch.set_grad_enabled)
    manager.mode, manager.prev = mode, prev
    return manager


# The arguments that make managers like an existing one: names of its attributes.
SETTINGS: dict[type, tuple[str, ...]] = {
    torch.no_grad: (), torch.enable_grad: (), torch.set_grad_enabled: ("mode",),
    torch.inference_mode: ("mode",),
    **dict.fromkeys(AUTOCASTS, ("device", "fast_dtype", "_enabled", "_cache_enabled")),
}  # fmt: skip


@wraps(*SETTINGS)
def wrap_mode_manager(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    source = require_path(obj, source)
    tx.guards.add(source, Kind.TYPE, type(obj))
    settings = [
        tx.wrap(getattr(obj, name), AttrSource(source, name)).constant()
        for name in SETTINGS[type(obj)]
    ]
    cls = torch.autocast if type(obj) in AUTOCASTS else type(obj)
    manager = ModeManager(cls, settings, {}, source, obj)
    if cls is torch.set_grad_enabled:
        manager.prev = tx.wrap(obj.prev, AttrSource(source, "prev")).constant()
    return tx.objects.remember(obj, manager)
