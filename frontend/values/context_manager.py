"""Context managers that change torch's modes: entered in the trace and in the graph, entered for real at a break."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import predispatch
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from ...errors import GraphBreak
from .base import Value
from .constant import Constant
from .mutable import Mutable

if TYPE_CHECKING:
    from .context import TraceContext


class ModeManager(Mutable):
    """A manager of a torch mode, as the traced program made it. `make` and `arguments` say how to make the real one;
    `saved` is what entering it gave (None before and after)."""

    __slots__ = ("cls", "arguments", "keywords", "saved")

    def __init__(self, cls: type, arguments: list[Any], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.cls, self.arguments, self.keywords = cls, arguments, keywords
        self.saved: Any = None

    def python_type(self) -> type:
        return self.cls

    def snapshot(self) -> Any:
        return self.saved

    def restore(self, state: Any) -> None:
        self.saved = state

    def truth(self, tx: TraceContext) -> bool:
        return True

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return ManagerMethod(self, name)
        raise self.unsupported(f"attribute {name}")

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        raise GraphBreak("unknown-call", f"{self.cls.__name__} as a decorator made inside")

    def enter(self, tx: TraceContext) -> Value:
        tx.effects.change(self)
        self.saved = (tx.modes.enter(tx, self.cls, self.arguments, self.keywords),)
        tx.modes.open.append(self)
        return Constant(None)

    def exit(self, tx: TraceContext) -> Value:
        if not tx.modes.open or tx.modes.open[-1] is not self:
            raise GraphBreak("unsupported-value", f"{self.cls.__name__} left out of order")
        tx.effects.change(self)
        tx.modes.open.pop()
        tx.modes.leave(tx, self.cls, self.saved[0])
        self.saved = None
        return Constant(None)


class ManagerMethod(Value):
    """manager.__enter__ or manager.__exit__."""

    __slots__ = ("manager", "name")

    def __init__(self, manager: ModeManager, name: str) -> None:
        super().__init__()
        self.manager, self.name = manager, name

    def python_type(self) -> type:
        return type(self.python_type)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.manager.enter(tx) if self.name == "__enter__" else self.manager.exit(tx)


class NullManager(Value):
    """contextlib.nullcontext(result)."""

    __slots__ = ("result",)

    def __init__(self, result: Value) -> None:
        super().__init__()
        self.result = result

    def python_type(self) -> type:
        return contextlib.nullcontext

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return NullMethod(self, name)
        raise self.unsupported(f"attribute {name}")


class NullMethod(Value):
    """nullcontext.__enter__ or .__exit__."""

    __slots__ = ("manager", "name")

    def __init__(self, manager: NullManager, name: str) -> None:
        super().__init__()
        self.manager, self.name = manager, name

    def python_type(self) -> type:
        return type(self.python_type)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.manager.result if self.name == "__enter__" else Constant(None)


class Modes:
    """torch's modes while a frame is traced: changed for real (fake tensors must see them), mirrored in the graph, put
    back when the capture ends. `open` are the managers entered and not left, outermost first."""

    def __init__(self) -> None:
        self.open: list[ModeManager] = []
        self.grad_at_start = torch.is_grad_enabled()
        self.cleanups: list[Any] = []  # real context managers entered while tracing

    def enter(self, tx: TraceContext, cls: type, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        if cls in GRAD_MODES:
            before = torch.is_grad_enabled()
            self.set_grad(tx, GRAD_MODES[cls](arguments, keywords))
            return before
        if cls is torch.inference_mode:
            enabled = bool({**dict(zip(("mode",), arguments, strict=False)), **keywords}.get("mode", True))
            node = tx.graph.raw_call(grad_mode._enter_inference_mode, (enabled,))
            real = grad_mode._enter_inference_mode(enabled)
            self.cleanups.append(("inference", real))
            return node
        node = tx.graph.raw_call(autocast_mode._enter_autocast, autocast_arguments(cls, arguments, keywords))
        real = autocast_mode._enter_autocast(*autocast_arguments(cls, arguments, keywords))
        self.cleanups.append(("autocast", real))
        return node

    def leave(self, tx: TraceContext, cls: type, saved: Any) -> None:
        if cls in GRAD_MODES:
            self.set_grad(tx, saved)
            return
        what, real = self.cleanups.pop()
        tx.graph.raw_call(UNDO[what], (saved,))
        UNDO[what](real)

    def enter_vmap(self, tx: TraceContext, batch_size: int, randomness: str) -> int:
        """Opens a vmap level, here and in the graph; its number."""
        tx.graph.raw_call(predispatch._vmap_increment_nesting, (batch_size, randomness))
        level = predispatch._vmap_increment_nesting(batch_size, randomness)
        self.cleanups.append(("vmap", level))
        return level

    def leave_vmap(self, tx: TraceContext) -> None:
        self._undo(self.cleanups.pop())
        tx.graph.raw_call(predispatch._vmap_decrement_nesting, ())

    def _undo(self, cleanup: tuple[str, Any]) -> None:
        """Leaves what was entered for real."""
        what, real = cleanup
        UNDO[what](real)

    def set_grad(self, tx: TraceContext, enabled: bool) -> None:
        if torch.is_grad_enabled() != enabled:
            tx.graph.raw_call(torch._C._set_grad_enabled, (enabled,))
            torch._C._set_grad_enabled(enabled)

    def mark(self) -> tuple[int, int, bool]:
        """A point to roll back to."""
        return len(self.open), len(self.cleanups), torch.is_grad_enabled()

    def rollback(self, mark: tuple[int, int, bool]) -> None:
        """Takes back what was entered since; what was left since cannot be entered again."""
        opened, entered, grad = mark
        if len(self.open) < opened or len(self.cleanups) < entered:
            raise GraphBreak("unsupported-value", "a mode left in a call that breaks")
        del self.open[opened:]
        while len(self.cleanups) > entered:
            self._undo(self.cleanups.pop())
        torch._C._set_grad_enabled(grad)

    def close(self, tx: TraceContext | None) -> None:
        """Ends the capture: leaves what is open, in the graph too when a context is given."""
        opened = [(m.cls, m.saved[0]) for m in reversed(self.open) if m.saved and m.cls not in GRAD_MODES]
        while self.cleanups:
            what, real = self.cleanups.pop()
            if tx is not None and opened:
                tx.graph.raw_call(UNDO[what], (opened.pop(0)[1],))
            UNDO[what](real)
        if torch.is_grad_enabled() != self.grad_at_start:
            if tx is not None:
                tx.graph.raw_call(torch._C._set_grad_enabled, (self.grad_at_start,))
            torch._C._set_grad_enabled(self.grad_at_start)


def _leave_level(level: int) -> None:
    predispatch._vmap_decrement_nesting()


UNDO = {"inference": grad_mode._exit_inference_mode, "autocast": autocast_mode._exit_autocast, "vmap": _leave_level}

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


def autocast_arguments(cls: type, arguments: list[Any], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """(device_type, dtype, enabled, cache_enabled), as _enter_autocast takes them."""
    names = ["device_type", "dtype", "enabled", "cache_enabled"]
    if AUTOCASTS[cls] is not None:
        names = ["enabled", "dtype", "cache_enabled"]
    given = {"device_type": AUTOCASTS[cls], "dtype": None, "enabled": True, "cache_enabled": None}
    given |= dict(zip(names, arguments, strict=False)) | keywords
    return given["device_type"], given["dtype"], given["enabled"], given["cache_enabled"]
