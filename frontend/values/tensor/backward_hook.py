"""torch.utils.hooks.BackwardHook, which a module with full backward hooks makes in each call:
becomes nodes around the module's."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import BackwardHook

from ....backends.graph.backward_hooks import BackwardHooks, HookEntry, HookExit, TensorPositions
from ....errors import GraphBreak
from ....guards.guard import Kind
from ..base import LazyValue, Value
from ..constant import Constant
from ..containers.list import ListValue
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..objects.user_object import UserObject
from .tensor import TensorValue
from .traced_call import NoEffects

ENTERED = "input_tensors_index"  # the attribute that a BackwardHook gets when it is set up


class HookSetUp(Value):
    """Stands for a hook that was set up for the module's arguments. Only the graph holds it, so a
    later break is made before it instead. `given`: an argument of the module that requires a
    gradient."""

    __slots__ = ("arguments", "given", "hooks")
    cls = BackwardHook
    break_reason = "unknown-call"

    def __init__(self, hooks: BackwardHooks, given: TensorValue | None, arguments: int) -> None:
        super().__init__()
        self.hooks, self.given, self.arguments = hooks, given, arguments

    @property
    def created_at(self) -> int:
        return self.hooks.created_at


def break_here() -> GraphBreak:
    return GraphBreak("unknown-call", "a backward hook being set up")


def enter(tx: TraceContext, hook: Value, args: Value) -> Value:
    """hook.setup_input_hook(args)."""
    if (
        not isinstance(hook, UserObject)
        or hook.source is not None
        or not isinstance(args, TupleValue)
        or needs_real_hooks(tx)
    ):
        raise break_here()
    hooks, items = hooks_of(tx, hook), args.all(tx)
    entered = HookSetUp(hooks, None, len(items))
    hook.set_attribute(tx, ENTERED, entered)
    if not wants_gradient(items):
        return args
    position, tensors = tensor_positions(items)
    given = tx.graph.function(HookEntry(hooks, position), *tensors).unpack(tx)
    entered.given = next(
        tensor for tensor in given if isinstance(tensor, TensorValue) and tensor.fake.requires_grad
    )
    return TupleValue(replace_tensors(items, position, given))


def leave(tx: TraceContext, hook: Value, result: Value) -> Value:
    """hook.setup_output_hook(result)."""
    entered = hook.attrs.get(ENTERED) if isinstance(hook, UserObject) else None
    if not isinstance(entered, HookSetUp):
        raise break_here()  # one that Python has set up
    items = result.all(tx) if isinstance(result, TupleValue) else [result]
    if not wants_gradient(items):
        return result
    kind = result.python_type() if isinstance(result, TupleValue) else tuple
    if kind is not tuple and not hasattr(kind, "_fields"):
        raise break_here()
    position, tensors = tensor_positions(items)
    link = Constant(None) if entered.given is None else entered.given
    made = tx.graph.function(
        HookExit(entered.hooks, position, entered.arguments), link, *tensors
    ).unpack(tx)
    new = replace_tensors(items, position, made)
    return TupleValue(new, None, kind) if isinstance(result, TupleValue) else new[0]


def needs_real_hooks(tx: TraceContext) -> bool:
    """Whether nodes cannot replace the hooks: inside a transform, or in a subgraph that is run
    again."""
    return torch._C._functorch.maybe_current_level() is not None or isinstance(
        tx.effects, NoEffects
    )


def wants_gradient(items: list[Value]) -> bool:
    """Whether torch sets up hooks for these. Raises GraphBreak for a tensor subclass among them."""
    if any(
        issubclass(item.python_type(), torch.Tensor) and not isinstance(item, TensorValue)
        for item in items
    ):
        raise break_here()
    return torch.is_grad_enabled() and any(
        isinstance(item, TensorValue) and item.fake.requires_grad for item in items
    )


def tensor_positions(items: list[Value]) -> tuple[TensorPositions, list[Value]]:
    at = [position for position, item in enumerate(items) if isinstance(item, TensorValue)]
    return TensorPositions(len(items), at), [items[position] for position in at]


def replace_tensors(items: list[Value], position: TensorPositions, new: list[Value]) -> list[Value]:
    others = dict(zip(position.at, new, strict=True))
    return [others.get(position, item) for position, item in enumerate(items)]


def hooks_of(tx: TraceContext, hook: UserObject) -> BackwardHooks:
    """The module and its hook functions, guarded."""
    module, *lists = (
        tx.look(hook.attribute(tx, name)) for name in ("module", "user_hooks", "user_pre_hooks")
    )
    tables = [functions for functions in lists if isinstance(functions, ListValue)]
    if len(tables) != len(lists):
        raise break_here()
    try:
        hooks, pre_hooks = (
            [guarded_object(tx, function) for function in functions.parts(tx)]
            for functions in tables
        )
        return BackwardHooks(
            guarded_object(tx, module), hooks, pre_hooks, tx.frames.break_position()
        )
    except TypeError:  # something without weak references
        raise break_here() from None


def guarded_object(tx: TraceContext, value: Value) -> Any:
    found = value.object if isinstance(value, LazyValue) else tx.objects.real_object(value)
    if found is None or value.source is None:
        raise break_here()
    tx.guards.add(value.source, Kind.PYTHON, ("is the same object", is_same_object_as(found)))
    return found


def is_same_object_as(known: Any) -> Callable[[Any], bool]:
    """Whether an object is this one, which is not kept alive, as Kind.IS would."""
    reference = weakref.ref(known)
    return lambda obj: obj is reference()
