"""Backends by name: functions (gm: fx.GraphModule, example_inputs: list of tensors) -> callable, as
for torch.compile, and what each needs. Shipped ones and plugins are imported when first used."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..garbage_collection import permanent_objects
from ..records import record
from ..torch_compat import SWITCHED_OFF, backend_feature, switch_off
from .backend_info import BackendInfo

ENTRY_POINTS = "framejit.backends"
# name: module here, imported when first used. One whose module this installation lacks is not
# listed.
SHIPPED = {
    "autotune": "autotune.backend", "eager": "eager", "aot_eager": "autograd.aot_eager",
    "native": "native.registration", "inductor": "inductor", "torchscript": "torchscript",
    "cudagraphs": "cudagraphs.backend", "onnxruntime": "onnxruntime",
}  # fmt: skip
GRAPHED = "+cudagraphs"  # ends the name of a backend whose work is to be recorded as CUDA graphs
WANTS = ("torch", "aten")

Function = Callable[..., Any]


@record
class Backend:
    """A backend, and the properties that it declares; register_backend documents them. `origin`:
    who brought it, for messages."""

    name: str
    function: Function
    devices: tuple[str, ...] | None = None
    training: bool = True
    wants: str = "torch"
    options: Callable[[], Collection[str]] | None = None
    missing: Callable[[], str] = str
    origin: str = ""
    overlaps: bool = False
    higher_order: bool = False
    attention_kernels: bool = False

    @property
    def description(self) -> str:
        """The backend's name, and the plugin's where one brought it."""
        return f"{self.name} ({self.origin})" if self.origin else self.name


class PluginError(Exception):
    """A plugin cannot be loaded; the message names it."""


_backends: dict[str, Backend] = {}
_plugins: dict[str, Backend] = {}  # loaded ones, by entry point


def register_backend(
    name: str | Function | None = None,
    fn: Function | None = None,
    *,
    devices: Collection[str] | None = None,
    training: bool = True,
    wants: str = "torch",
    options: Callable[[], Collection[str]] | None = None,
    missing: Callable[[], str] = str,
    overlaps: bool = False,
    higher_order: bool = False,
    attention_kernels: bool = False,
) -> Any:
    """Registers a backend; also a decorator, with and without arguments.

    Args:
        name: the name for compile(); without one, the function's.
        devices: device types that it supports; graphs on others run in eager. None: all.
        training: whether gradients flow through its results; else graphs that need them run in
            eager.
        wants: "torch": it gets the graph as captured, as torch.compile's backends do. "aten": it
            gets functional ATen graphs, with `training` the backward graph too.
        options: returns the names of its options, for a function with one parameter `options`;
            otherwise these are its further parameters. A parameter `mode` gets compile()'s mode; a
            parameter `report` gets a function that takes a sentence for explain().
        missing: returns in a few words what this machine lacks for it, "" if nothing.
        overlaps: whether it runs operators in the order of the graph. Only then is it given graphs
            that write into memory which two inputs, or two elements of one, share.
        higher_order: whether it compiles calls of torch's higher-order operators (cond,
            flex_attention). If not, these run as captured, between its graphs.
        attention_kernels: whether, instead, calls of flex_attention on a GPU run as framejit's
            Triton kernels.

    Raises:
        ValueError: the name belongs to another function.
        TypeError: `fn` is not callable.
    """
    chosen, target = (None, name) if callable(name) else (name, fn)
    declared = Backend(
        str(chosen or ""),
        run_as_captured,
        None if devices is None else tuple(devices),
        training,
        wants,
        options,
        missing,
        overlaps=overlaps,
        higher_order=higher_order,
        attention_kernels=attention_kernels,
    )
    register = partial(_register, declared)
    return register if target is None else register(target)


def _register(declared: Backend, function: Function) -> Function:
    """Registers a function as the backend that is declared; without a name, under its own. Raises
    TypeError and ValueError as register_backend does."""
    name = declared.name or getattr(function, "__name__", "backend")
    wants = declared.wants
    if not callable(function):
        raise TypeError(f"register_backend: `fn` must be callable, not {type(function).__name__}")
    if wants not in WANTS:
        raise ValueError(
            f"register_backend: `wants` must be one of {', '.join(WANTS)}, not {wants!r}"
        )
    if "+" in name:
        raise ValueError(
            f"register_backend: '+' joins the names of backends, so {name!r} cannot be one"
        )
    if name in SHIPPED and function.__module__ != f"{__package__}.{SHIPPED[name]}":
        raise ValueError(f"'{name}' is a backend that framejit ships; choose another name")
    backend = replace(declared, name=name, function=function)
    other = _backends.setdefault(name, backend).function
    if other is not function:
        raise ValueError(
            f"a backend named '{name}' is registered already: {_place(other)}; choose another name"
        )
    return function


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def lookup(backend: str | Function) -> Backend:
    """A backend by its name. Raises ValueError, listing the known ones, for an unknown name,
    PluginError for one whose plugin cannot be loaded."""
    if callable(backend):
        return Backend(name_of(backend), backend)
    if backend.endswith(GRAPHED) and backend_feature("cudagraphs") in SWITCHED_OFF:
        return switched_off("cudagraphs")
    if backend.endswith(GRAPHED):
        return cudagraphs_backend(lookup(backend.removesuffix(GRAPHED)))
    if backend_feature(backend) in SWITCHED_OFF and backend in SHIPPED:
        return switched_off(backend)
    if backend not in _backends and backend in SHIPPED:
        if import_shipped(backend, SHIPPED[backend]) is None:
            return switched_off(backend)
    if backend in _backends:
        return _backends[backend]
    if backend in _points():
        return _plugin(backend)
    check_backend(backend)
    raise AssertionError(backend)


def import_shipped(name: str, module: str) -> types.ModuleType | None:
    """A module of a shipped backend. Where it cannot be imported, the backend is switched off."""
    try:
        with permanent_objects():
            return importlib.import_module(f".{module}", __package__)
    except Exception as error:  # a torch that lacks what the module asks for
        switch_off(backend_feature(name), f"{type(error).__name__}: {error}")
        return None


def switched_off(name: str) -> Backend:
    """The replacement of a shipped backend that failed the self-check or cannot be imported: it is
    missing here, and its graphs run as they were captured."""
    why = f"it does not work with the installed torch: {SWITCHED_OFF[backend_feature(name)]}"
    return Backend(name, run_as_captured, missing=lambda: why)


def run_as_captured(gm: Any, example_inputs: Any, **options: Any) -> Any:
    """The graph itself."""
    return gm


def cudagraphs_backend(inner: Backend) -> Backend:
    """The backend whose work on `inner`'s is to be recorded: its module knows how."""
    module = importlib.import_module(f".{SHIPPED['cudagraphs']}", __package__)
    return module.with_recording(inner)


def captured_graph_function(backend: Backend) -> Function:
    """A backend's function, of whole captured graphs; aot_autograd is put before one that wants its
    graphs."""
    if backend.wants == "torch":
        return backend.function
    module = importlib.import_module(f".{SHIPPED['aot_eager']}", __package__)
    return module.by_way_of_aten(backend)


def _points() -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Entry points of installed plugins by name."""
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if point.name not in SHIPPED and point not in found.setdefault(point.name, []):
            found[point.name].append(point)
    return found


def _plugin(name: str) -> Backend:
    """Loads the plugin that brings a backend: its entry point names the function, which may have
    registered itself."""
    point, *others = _points()[name]
    if others:
        owners = ", ".join(_owner(one) for one in (point, *others))
        raise PluginError(
            f"more than one plugin brings a backend named '{name}': {owners}; uninstall all but one"
        )
    if name in _plugins:
        return _plugins[name]
    try:
        loaded = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise PluginError(
            f"{_owner(point)} could not be imported ({point.value}): {type(error).__name__}: "
            f"{error}"
        ) from error
    if not callable(loaded):
        raise PluginError(
            f"{_owner(point)}: {point.value} is a {type(loaded).__name__}, not a function"
        )
    known = next(
        (one for one in _backends.values() if one.function is loaded), Backend(name, loaded)
    )
    _plugins[name] = replace(known, name=name, origin=_owner(point))
    return _plugins[name]


def _owner(point: importlib.metadata.EntryPoint) -> str:
    return f"the plugin {point.dist.name} {point.dist.version}" if point.dist else "a plugin"


def backend_names() -> list[str]:
    """Names of all backends: the shipped ones, the registered ones, and those of installed plugins.
    Imports nothing."""
    return sorted({*filter(_is_here, SHIPPED), *_backends, *_points()})


def _is_here(shipped: str) -> bool:
    return importlib.util.find_spec(f".{SHIPPED[shipped]}", __package__) is not None


class Backends(Mapping[str, BackendInfo]):
    """The backends that compile() takes: their names, and by name what each needs and whether it
    works here.

    Iterating gives names and imports nothing; a backend is imported when it is looked up. `print()`
    tells all.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(backend_names())

    def __len__(self) -> int:
        return len(backend_names())

    def __contains__(self, name: object) -> bool:
        return name in backend_names()

    def __getitem__(self, name: str) -> BackendInfo:
        if name not in backend_names():
            raise KeyError(name)
        return info(name)

    def __str__(self) -> str:
        return "\n".join(map(str, self.values()))

    def __repr__(self) -> str:
        return f"Backends({backend_names()})"


def list_backends() -> Backends:
    """The backends that compile() takes, and what each needs."""
    return Backends()


def info(name: str) -> BackendInfo:
    """What a backend needs, and whether it can be used here."""
    try:
        backend = lookup(name)
        reason = backend.missing()
    except Exception as error:  # a module that cannot be imported here, ours or a plugin's
        return BackendInfo(
            name, None, False, "torch", False, f"{type(error).__name__}: {error}", ""
        )
    return BackendInfo(
        name, backend.devices, backend.training, backend.wants, not reason, reason, backend.origin
    )


def is_known(name: str) -> bool:
    """Whether there is a backend of a name. Looks for plugins only where nothing nearer has the
    name."""
    return (
        name in _backends
        or (name in SHIPPED and _is_here(name))
        or (name not in SHIPPED and name in _points())
    )


def check_backend(backend: str | Function) -> None:
    """Raises ValueError for a name that `lookup` would not find; imports nothing."""
    if callable(backend):
        return
    if not is_known(backend.removesuffix(GRAPHED)):
        raise ValueError(f"unknown backend {backend!r}; known ones: {', '.join(backend_names())}")


def name_of(backend: str | Function) -> str:
    if isinstance(backend, str):
        return backend
    return getattr(backend, "__name__", type(backend).__name__)


GIVEN = ("mode", "report", "around")  # parameters of a backend that are no options


def check_options(backend: str | Function, asked: Collection[str]) -> None:
    """Raises ValueError, listing the known ones, for an option that the backend does not take."""
    if not asked:
        return
    found = lookup(backend)
    parameters = list(inspect.signature(found.function).parameters.values())[2:]
    takes: Collection[str] = [
        parameter.name for parameter in parameters if parameter.name not in GIVEN
    ]
    if found.options is not None:
        takes = found.options()
    elif "options" in takes or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
    ):
        return  # only the backend knows
    unknown = sorted(set(asked) - set(takes))
    if unknown:
        has = f"it has: {', '.join(sorted(takes))}" if takes else "it takes none"
        raise ValueError(
            f"unknown options {', '.join(map(repr, unknown))} for backend {name_of(backend)!r}; "
            f"{has}"
        )
