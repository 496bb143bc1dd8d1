"""The public functions: compile, explain, disable, opaque and others."""

from __future__ import annotations

import copyreg
import functools
import importlib
import time
import types
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..backends import registry
from ..backends.graph.opaque_call import Like, OpaqueCall
from ..errors import warn_user
from ..events import Recorder, Skipped
from ..options import MODES, Options, config, seconds_to_spend, verified_calls
from ..torch_compat import DYNAMIC_SIZES, SWITCHED_OFF
from .control import Control, condition, guard_text
from .explain import make_report
from .explain.log import Log
from .framejit_attribute import ControlGroup, answer_for, call_of, title_of
from .runtime import _hook
from .runtime.cache import Cache, live_caches
from .runtime.compiled_module import compile_module, unreached_call
from .runtime.data_parallel import wrapped_module
from .runtime.frames import place_of, why_never_compiled
from .runtime.probe import Probe
from .runtime.shared_handles import shared_handles
from .runtime.stance import debug, set_stance
from .runtime.stats import Stats, make_stats
from .support import is_tested_here
from .values.directives import graph_break, is_compiling
from .values.disabled import is_disabled, leave_alone
from .values.models import torch_policy
from .values.objects.mro import class_attribute

if TYPE_CHECKING:
    from .explain.report import Report

__all__ = [
    "allow_in_graph", "compile", "debug", "disable", "explain", "graph_break", "is_compiling",
    "list_backends", "opaque", "reset", "set_stance", "stats",
]  # fmt: skip

T = TypeVar("T", bound=Callable[..., Any])

# A handle is copied and pickled as a function is: by its name.
copyreg.pickle(_hook.Handle, lambda handle: handle.__qualname__)


def compile(
    fn_or_module: Any = None,
    *,
    backend: str | Callable[..., Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    verify: int | None = None,
    disable: bool = False,
) -> Any:
    """Compiles a function, a method, a `torch.nn.Module` or another callable; also a decorator.

    Args:
        fn_or_module: a function or another callable: the result is a handle, which is called like
            it. A module is compiled in place and returned: same object, type and state_dict; copies
            and pickles of it are not compiled.
        backend: a name of list_backends(), or a function (gm, example_inputs) -> callable as for
            torch.compile.
        dynamic: None: sizes and numbers that differed between two calls are symbols from then on.
            True: all sizes are symbols from the start. False: nothing is ever a symbol.
        fullgraph: raise GraphBreakError at the first graph break instead of running it in Python.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs", for
            backends that have modes.
        options: options of the backend; together with `mode`, they refine it.
        verify: compare the first `verify` calls of each graph with eager, on copies of the inputs.
            A graph that differs runs in eager from then on, with one warning and a script that
            reproduces the difference. None: config.verify (FRAMEJIT_VERIFY, or 0).
        disable: compile nothing and return the argument; its `framejit.explain()` says so.

    Raises:
        ValueError: unknown backend, mode or option.
        TypeError: `fn_or_module` cannot be compiled.
    """
    chosen = make_options(backend, dynamic, fullgraph, mode, options, verify)
    if fn_or_module is None:
        given: dict[str, Any] = {
            "backend": backend, "dynamic": dynamic, "fullgraph": fullgraph, "mode": mode,
            "options": options, "verify": verify, "disable": disable,
        }  # fmt: skip
        return functools.partial(compile, **given)
    refused = OFF if disable or config.disable else why_unusable()
    return answer_for(fn_or_module, refused) if refused else compile_target(fn_or_module, chosen)


OFF = "framejit is switched off: by `disable=True`, FRAMEJIT_DISABLE or config.disable"


def why_unusable() -> str:
    """Why nothing can be compiled with the installed torch and Python; "" if something can."""
    if is_tested_here():
        return ""
    self_check = importlib.import_module(".self_check", __package__)
    reason: str = self_check.refusal(compile_checked)
    return reason


def compile_checked(function: Any, options: Options) -> _hook.Handle:
    """What compile() does for a function, as the self-check needs it."""
    return make_handle(function, options)


def compile_target(target: Any, options: Options) -> Any:
    """What compile() returns for a target that is to be compiled."""
    if issubclass(type(target), torch.nn.Module):
        return compile_instance(target, options)
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        raise TypeError(
            "framejit.compile takes an instance of a module, or its forward, not the class"
        )
    function, bound = function_of(target)
    handle = make_handle(function, options)
    return types.MethodType(handle, *bound) if bound else handle


def compile_instance(module: torch.nn.Module, options: Options) -> torch.nn.Module:
    """Compiles a module in place; one whose class torch.compiler.disable or framejit.disable was
    put on stays in eager. Of a DistributedDataParallel, the module inside is compiled."""
    refuse_scripted(module)
    inner = wrapped_module(module)
    if inner is not None:
        module.__dict__["framejit"] = compile_instance(inner, options).framejit
        return module
    if any(
        is_disabled(class_attribute(type(module), name))
        for name in ("__call__", "_wrapped_call_impl")
    ):
        return answer_for(
            module, "its class is marked as disabled, by framejit.disable or torch.compiler.disable"
        )
    unreached = unreached_call(type(module))
    if unreached is not None:
        warn_user(
            f"{unreached} does not call nn.Module.__call__, so calls of this module are not "
            "compiled. Compile a function that calls "
            "it: framejit.compile(lambda *args: model(*args))",
            stacklevel=3,
        )
        return answer_for(
            module,
            f"{unreached} does not call nn.Module.__call__; compile a function that calls the "
            "module",
        )
    controls = compile_module(
        module,
        lambda module, function: shared_handles.handle(module, function, options, make_handle),
    )
    module.__dict__["framejit"] = ControlGroup(controls, type(module).__qualname__)
    return module


def refuse_scripted(target: Any) -> None:
    """Raises TypeError for what TorchScript has compiled already."""
    if isinstance(
        target, torch.jit.ScriptModule | torch.jit.ScriptFunction | torch._C.ScriptMethod
    ):
        raise TypeError(
            f"framejit.compile got a {type(target).__name__}, compiled by TorchScript already: "
            "give it the Python module or function, "
            "without torch.jit.script or trace"
        )


def make_options(
    backend: Any,
    dynamic: bool | None,
    fullgraph: bool,
    mode: str | None,
    options: dict[str, Any] | None,
    verify: int | None = None,
) -> Options:
    """Checks what compile() was given. Raises ValueError or TypeError naming the argument."""
    chosen = config.backend if backend is None else backend
    if not isinstance(chosen, str) and not callable(chosen):
        raise TypeError(f"backend must be a name or a callable, not a {type(backend).__name__}")
    registry.check_backend(chosen)
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known ones: {', '.join(MODES)}")
    if dynamic not in (None, True, False):
        raise ValueError(f"dynamic must be None, True or False, not {dynamic!r}")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict, not a {type(options).__name__}")
    given = dict(options or {})
    budget = seconds_to_spend(
        given.pop("compile_budget", config.compile_budget), "option compile_budget"
    )
    store = bool(given.pop("store", config.store))
    registry.check_options(chosen, given)
    if DYNAMIC_SIZES in SWITCHED_OFF:
        dynamic = False
    calls = config.verify if verify is None else verified_calls(verify, "verify")
    return Options(
        **config.defaults()
        | dict(
            backend=chosen,
            dynamic=dynamic,
            fullgraph=fullgraph,
            verify=calls,
            compile_budget=budget,
            store=store,
        ),
        backend_options=tuple(given.items()),
        mode=mode or "default",
    )


def make_handle(function: types.FunctionType, options: Options) -> _hook.Handle:
    """A compiled handle of a function; `handle.framejit` is what can be asked of it."""
    reason = why_never_compiled(function.__code__)
    cache = Cache(function, options)
    cache.sinks.append(_log)
    handle = cache.handle
    functools.update_wrapper(handle, function)
    handle.framejit = Control(cache)
    if reason:
        cache.send(Skipped(function.__qualname__, place_of(function.__code__), reason))
    handle.explain = handle.framejit.explain
    handle.wait = cache.wait
    return handle


def explain(
    fn_or_module: Any,
    *,
    backend: str | Callable[..., Any] | None = None,
    dynamic: bool | None = None,
    options: dict[str, Any] | None = None,
    calls: int = 1,
) -> Callable[..., Report]:
    """Compiles f anew; `explain(f)(*args, **kwargs)` calls it and returns a Report.

    Args:
        fn_or_module: what compile() takes. A module or a handle that is compiled already keeps its
            own compiled code.
        backend: as for compile().
        dynamic: as for compile().
        options: as for compile().
        calls: how often f is called, side effects included. The first passage of a break takes
            longer than later ones, so with one call the times of breaks are upper bounds.

    The report has graphs, operations, breaks (reason, file:line, source text, hint, times), guards,
    seconds by phase, and the result of the last call. Exceptions of a call pass through.

    Raises:
        ValueError: `calls` is below 1.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1, not {calls}")
    chosen = make_options(backend, dynamic, False, None, options)

    def call_and_report(*args: Any, **kwargs: Any) -> Report:
        return report_calls(fn_or_module, chosen, calls, args, kwargs)

    return call_and_report


def report_calls(
    fn_or_module: Any, options: Options, calls: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Report:
    """Compiles anew, calls that so often with these arguments, and returns a report of it."""
    function, bound = underlying(fn_or_module)
    if config.disable or why_unusable():
        return replace(make_report((), condition), result=function(*bound, *args, **kwargs))
    probe, recorder = Probe(), Recorder()
    handle = make_handle(function, replace(options, probe=probe, sinks=(*options.sinks, recorder)))
    start = time.perf_counter()
    for _ in range(calls):
        result = handle(*bound, *args, **kwargs)
    wall = time.perf_counter() - start
    account = handle.framejit.cache.balance()
    title = title_of(fn_or_module)
    report = make_report(recorder.events, condition, probe, wall, title, account)
    return replace(report, result=result, calls=calls)


def underlying(fn_or_module: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The plain function behind something compile() takes, and the arguments that are bound to
    it."""
    if issubclass(type(fn_or_module), torch.nn.Module):
        refuse_scripted(fn_or_module)
        return class_attribute(type(fn_or_module), "_call_impl"), (fn_or_module,)
    return function_of(fn_or_module)


def function_of(target: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The plain function that a call of something callable, which is no module, runs first, and the
    object bound to it. Raises TypeError for what cannot be compiled."""
    refuse_scripted(target)
    if isinstance(target, types.MethodType) and isinstance(
        target.__func__, types.FunctionType | _hook.Handle
    ):
        return function_of(target.__func__)[0], (target.__self__,)
    if isinstance(target, _hook.Handle):
        return target.function, ()
    if isinstance(target, types.FunctionType):
        return target, ()
    if isinstance(target, type) or not callable(target):
        raise TypeError(
            "framejit.compile takes a function, a method, a torch.nn.Module or another object "
            "that can be called, not "
            + (
                f"the class {target.__name__}"
                if isinstance(target, type)
                else f"a {type(target).__name__}"
            )
        )
    return call_of(target), ()


_log = Log(guard_text)


def disable(function: T | None = None, recursive: bool = True) -> Any:
    """Marks a function as never captured: a call of it is a graph break, and it runs with framejit
    off.

    recursive=False leaves framejit on for the functions that it calls.
    """
    if function is None:
        return lambda f: disable(f, recursive)
    inner = function.function if isinstance(function, _hook.Handle) else function

    @functools.wraps(inner)
    def call_disabled(*args: Any, **kwargs: Any) -> Any:
        return _hook.disable_call(inner, args, kwargs)

    made: Any = call_disabled if recursive else leave_alone(inner)
    made._framejit_disable = True
    return made


def allow_in_graph(function: T) -> T:
    """Declares that calls of a function are one node of the graph: it works on tensors and literals
    only, has no side effects, and runs on fake tensors."""
    if not callable(function):
        raise TypeError(f"allow_in_graph takes a callable, not a {type(function).__name__}")
    torch_policy.allow(function)
    return function


def opaque(function: Any = None, *, like: Like, differentiable: bool = False) -> Any:
    """Declares that graphs call a function as it is, without a break: one written in C, say, that
    captures cannot look into. Also a decorator.

    The function gets tensors, numbers, strings and containers of these, and returns a new tensor,
    or a tuple or list of new ones. It changes nothing that others see, and writes into no argument.
    It may be called again where compiled code failed after it.

    Args:
        function: called in eager and by graphs.
        like: a function that takes tensors without data, like the arguments, and returns tensors
            like the results (`torch.empty_like`); or examples of the results. dtype, device, sizes
            and strides count. A result that is otherwise costs a warning, and the frame runs in
            eager.
        differentiable: whether the function records gradients, by torch's operators or as an
            autograd.Function. If not, it runs without.

    Raises:
        TypeError: `function` is not callable.
    """
    if function is None:
        return lambda later: opaque(later, like=like, differentiable=differentiable)
    if not callable(function):
        raise TypeError(f"opaque takes a callable, not a {type(function).__name__}")
    return OpaqueCall(function, like, differentiable)


def reset() -> None:
    """Forgets all compiled code of all handles; they compile anew when called."""
    for cache in list(live_caches):
        cache.clear()


def stats() -> Stats:
    """What became of the calls of every compiled function so far: entries, hits, compiles, and each
    miss with its reason."""
    return make_stats(live_caches)


def list_backends() -> registry.Backends:
    """The backends that compile() takes, by name: what each needs, whether it is usable here, and
    why not."""
    return registry.list_backends()
