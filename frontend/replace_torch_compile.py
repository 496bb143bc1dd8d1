"""framejit.install: replaces torch.compile and Module.compile by framejit's, for programs that
cannot be edited."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.compiler

from ..backends import registry
from ..errors import warn_once
from ..options import config
from . import api

# torch's names of backends that have another name here
BACKENDS = {"onnxrt": "onnxruntime", "aot_eager_decomp_partition": "aot_eager"}
# options of inductor that are a mode here
MODES = {"triton.cudagraphs": "reduce-overhead", "max_autotune": "max-autotune"}
STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
# Modules of torch that pass functions of their own to torch.compile keep that.
TORCHS_OWN = ("torch.", "functorch.")


@dataclass(frozen=True, eq=False)
class Installation:
    """What install() returns. As a context manager it uninstalls at the end of the block. defaults:
    arguments of framejit.compile where the program gives none."""

    defaults: dict[str, Any]

    def uninstall(self) -> None:
        """Ends this installation; does nothing a second time."""
        if self in _installed:
            _installed.remove(self)
            if not _installed:
                _restore()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        self.uninstall()


_installed: list[Installation] = []  # the last one is in effect
_originals: dict[tuple[Any, str], Any] = {}  # what install() has replaced


def install(**defaults: Any) -> Installation:
    """Makes torch.compile, torch.compiler.compile and Module.compile mean framejit.compile, and
    torch.compiler.reset and set_stance hold for framejit's code too. Returns a handle that undoes
    it.

    What torch's own modules pass to torch.compile, functions compiled before, and programs that
    import the name `compile` from torch before this call keep torch's compiler. An argument of
    torch.compile without a counterpart is ignored with one warning.

    Args:
        defaults: arguments of framejit.compile where the program gives none, such as
            `backend="inductor"`.

    Raises:
        TypeError, ValueError: as framejit.compile, for the defaults.
    """
    api.compile(**defaults)
    made = Installation(defaults)
    _installed.append(made)
    if len(_installed) == 1:
        _replace(torch, "compile", compile_instead)
        _replace(torch.compiler, "compile", compile_instead)
        _replace(torch.compiler, "reset", reset_both)
        _replace(torch.compiler, "set_stance", set_both_stances)
        _replace(torch.nn.Module, "compile", compile_module_instead)
    return made


def uninstall() -> None:
    """Ends every installation. Compiled code stays."""
    for installation in list(_installed):
        installation.uninstall()


def _replace(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    _originals[owner, name] = getattr(owner, name)
    setattr(owner, name, replacement)


def _restore() -> None:
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def compile_instead(model: Any = None, **asked: Any) -> Any:
    """torch.compile, while installed."""
    caller = sys._getframe(1).f_globals.get("__name__", "")
    original = _originals.get((torch, "compile"), torch.compile)
    if not _installed or caller.startswith(TORCHS_OWN):
        return original(model, **asked)
    if model is None:
        return lambda function: compile_or_leave(function, asked, original)
    return compile_or_leave(model, asked, original)


def compile_or_leave(model: Any, asked: dict[str, Any], original: Callable[..., Any]) -> Any:
    """Compiles with framejit what it takes, with torch what it does not."""
    limit = asked.get("recompile_limit")
    try:
        with config.patch(**{} if limit is None else {"recompile_limit": limit}):
            return api.compile(model, **arguments_for(asked))
    except TypeError as error:
        warn_once(f"torch.compile compiles this itself: {error}")
        return original(model, **asked)


def compile_module_instead(module: torch.nn.Module, **asked: Any) -> None:
    """Module.compile, while installed."""
    compile_or_leave(module, asked, lambda model, **asked: None)


def reset_both() -> None:
    """torch.compiler.reset, while installed."""
    api.reset()
    _originals[torch.compiler, "reset"]()


class set_both_stances:  # a function to its users, as torch's is
    """torch.compiler.set_stance, while installed: also sets framejit's stance. Those that only
    torch has count as "default"."""

    def __init__(self, stance: str = "default", **more: Any) -> None:
        original = _originals[torch.compiler, "set_stance"]
        self._torchs = original(stance, **more)
        self._ours = api.set_stance(stance if stance in STANCES else "default")

    def __enter__(self) -> None:
        self._torchs.__enter__()
        self._ours.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._ours.__exit__(*exc)
        self._torchs.__exit__(*exc)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        decorated: Callable[..., Any] = self._torchs(self._ours(function))
        return decorated


def arguments_for(asked: dict[str, Any]) -> dict[str, Any]:
    """Arguments of torch.compile as those of framejit.compile."""
    made = dict(_installed[-1].defaults) if _installed else {}
    given = {name: value for name, value in asked.items() if value is not None}
    for name, take in PARAMETERS.items():
        if name in given:
            take(made, name, given.pop(name))
    for name, value in given.items():
        if value and name not in ALREADY_SO:
            ignore(name)
    return made


def ignore(argument: str) -> None:
    warn_once(f"torch.compile's {argument} has no counterpart and is ignored")


def take(made: dict[str, Any], name: str, value: Any) -> None:
    made[name] = value


def take_backend(made: dict[str, Any], name: str, value: Any) -> None:
    """A backend by framejit's name for it, else the function that torch knows by that name."""
    chosen = BACKENDS.get(value, value) if isinstance(value, str) else value
    if isinstance(chosen, str) and chosen not in registry.list_backends():
        known = importlib.import_module("torch._dynamo.backends.registry")
        chosen = known.lookup_backend(chosen)
    made[name] = chosen


def take_options(made: dict[str, Any], name: str, value: dict[str, Any]) -> None:
    """Options of a backend that the program names; else those of inductor that are a mode here."""
    if made.get("backend") not in (None, "autotune"):
        made[name] = value
        return
    for option, setting in value.items():
        if option not in MODES:
            ignore(f"option {option!r}")
        elif setting:
            made.setdefault("mode", MODES[option])


PARAMETERS: dict[str, Callable[[dict[str, Any], str, Any], None]] = {
    "backend": take_backend, "dynamic": take, "fullgraph": take, "disable": take, "mode": take,
    "options": take_options,
}  # fmt: skip
# parameters that mean what framejit does anyway, or that it gets in another way
ALREADY_SO = ("isolate_recompiles", "recompile_limit", "name")
