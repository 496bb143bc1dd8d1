"""Calls of Python functions: arguments to slots, then a nested interpreter (or a suspended one, for
a generator)."""

from __future__ import annotations

import inspect

from ....errors import GraphBreak
from ...pycode.call_completion import AS_IS, CallCompletion
from ...pycode.decode import decode
from ...pycode.liveness import keeps_its_frame
from ...pycode.passthrough import PassthroughFrame
from ...values.base import Value
from ...values.constant import Constant
from ...values.containers.mapping import DictValue
from ...values.containers.sequence import TupleValue
from ...values.functions.function import FunctionValue
from ...values.functions.skipped_function import skip_reason
from ...values.functions.trace_rules import TraceRule, trace_rule
from ...values.iterators.generator import GeneratorValue
from ..trace import Trace
from .interpreter import Interpreter

CHAIN = 40  # frames that one break may go through; what they call then is captured by itself


def inline(
    tx: Trace,
    function: FunctionValue,
    args: list[Value],
    kwargs: dict[str, Value],
    passthroughs: tuple[PassthroughFrame, ...] | None,
    completion: CallCompletion = AS_IS,
) -> Value:
    """The result of function(*args, **kwargs). With `passthroughs`, a break can be made inside:
    `completion` then turns the result into that of the caller's instruction."""
    check_call(tx, function, args)
    slots = bind(tx, function, args, kwargs)
    frame = Interpreter(
        tx,
        decode(function.code),
        function.globals,
        tx.objects.globals_path(function.globals, function),
        slots,
    )
    frame.bind_cells(function.closure)
    if function.code.co_flags & inspect.CO_GENERATOR:
        names = [function.attribute(tx, name).constant() for name in ("__name__", "__qualname__")]
        return GeneratorValue(
            frame,
            tx.frames.break_position(),
            (names[0], names[1]),
            tx.frames[-1].resumable,
            tx.frames.caller_position(),
        )
    frame.passthroughs, frame.completion = passthroughs or (), completion
    frame.resumable = (
        passthroughs is not None
        and tx.frames[-1].resumable
        and len(tx.frames) < CHAIN
        and can_be_entered(tx, function)
    )
    return frame.run()


def check_call(tx: Trace, function: FunctionValue, args: list[Value]) -> None:
    """Breaks at a call that is left to Python."""
    reason = skip_reason(function, args)
    if reason is not None:
        raise GraphBreak(*reason)
    if keeps_its_frame(function.code):
        raise GraphBreak("unknown-call", f"{function.name}, which reads its own frame")
    if len(tx.frames) >= tx.options.inline_depth:
        raise GraphBreak("too-deep", f" ({len(tx.frames)} calls, config.inline_depth)")
    if function.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise GraphBreak("generator", f"{function.describe()} is asynchronous")


def can_be_entered(tx: Trace, function: FunctionValue) -> bool:
    """Whether a break may be made in a frame of the function."""
    module = function.globals.get("__name__")
    rule = trace_rule(module, function.name, function.code.co_filename)
    return rule is not TraceRule.BREAK_AT_CALL and tx.objects.finds_globals_again(function.globals)


def bind(
    tx: Trace, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]
) -> list[Value | None]:
    """Slot contents of the new frame, arguments first."""
    code = function.code
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: list[Value | None] = [None] * (
        code.co_nlocals + len(code.co_cellvars) + len(code.co_freevars)
    )
    slots[: min(positional, len(args))] = args[:positional]
    extra = args[positional:]
    by_name: dict[str, Value] = {}
    allowed = {
        name: i
        for i, name in enumerate(names[: positional + keyword_only])
        if i >= code.co_posonlyargcount
    }
    for name, value in kwargs.items():
        index = allowed.get(name)
        if index is None:
            by_name[name] = value
        elif slots[index] is not None:
            raise argument_error(function)
        else:
            slots[index] = value
    if not _defaults(function, slots):
        raise argument_error(function)
    after = positional + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        slots[after] = TupleValue(list(extra))
        after += 1
    elif extra:
        raise argument_error(function)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[after] = DictValue({name: (Constant(name), value) for name, value in by_name.items()})
    elif by_name:
        raise argument_error(function)
    return slots


def argument_error(function: FunctionValue) -> GraphBreak:
    return GraphBreak(
        "exception-leaves", f"TypeError: {function.name}() does not take these arguments"
    )


def _defaults(function: FunctionValue, slots: list[Value | None]) -> bool:
    """Fills missing arguments with defaults; False if one has none."""
    code = function.code
    first_default = code.co_argcount - len(function.defaults)
    for index in range(code.co_argcount + code.co_kwonlyargcount):
        if slots[index] is not None:
            continue
        name = code.co_varnames[index]
        if first_default <= index < code.co_argcount:
            slots[index] = function.defaults[index - first_default]
        elif index >= code.co_argcount and name in function.kwdefaults:
            slots[index] = function.kwdefaults[name]
        else:
            return False
    return True
