"""A graph that restores torch's modes, the generators and its inputs when it raises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from traceback import clear_frames
from typing import Any

import torch
from torch._C._functorch import TransformType

from ..errors import Rerun
from ..records import record
from .graph.collectives import collectives_started
from .graph.eager_fallback import PASSED_ON, warn_of_fallback
from .graph.random_states import RandomStates

LEAVE = {
    TransformType.Vmap: torch._C._functorch._vmap_decrement_nesting,
    TransformType.Grad: torch._C._functorch._grad_decrement_nesting,
    TransformType.Jvp: torch._C._functorch._jvp_decrement_nesting,
}


class Autocasts:
    """The state of autocast on some devices."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.on = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in devices
        ]
        self.cached, self.depth = torch.is_autocast_cache_enabled(), self.depth_now()

    @staticmethod
    def depth_now() -> int:
        torch.autocast_increment_nesting()
        return torch.autocast_decrement_nesting()

    def restore(self) -> None:
        for device, enabled, dtype in self.on:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cached)
        for _ in range(self.depth_now() - self.depth):
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


def leave_transforms(level: int) -> None:
    """Leaves the levels of torch.func above `level`, and forward derivatives if the graph has
    enabled them."""
    while (torch._C._functorch.maybe_current_level() or 0) > level:
        kind = torch._C._functorch.peek_interpreter_stack().key()
        if kind == TransformType.Jvp:
            torch._C._set_fwd_grad_enabled(not torch.is_inference_mode_enabled())
            # only the outermost of such levels has one of these open
            with contextlib.suppress(RuntimeError):
                torch._C._exit_dual_level(level=0)
        LEAVE[kind]()


@contextlib.contextmanager
def preserve_modes(devices: Sequence[str]) -> Iterator[None]:
    """Restores grad mode, autocast on `devices` and the levels of torch.func at the end, wherever a
    backend that runs a graph stopped."""
    grad, level = torch.is_grad_enabled(), torch._C._functorch.maybe_current_level() or 0
    autocasts = Autocasts(devices)
    try:
        yield
    finally:
        leave_transforms(level)
        autocasts.restore()
        torch._C._set_grad_enabled(grad)


@record
class RestorePlan:
    """What a graph may have changed when it raises. random: it draws from torch's generators.
    generators: positions of inputs that are generators. mutated: positions of inputs that it
    writes. saves_inputs: these are saved before each call. whole_storages: the graph writes beyond
    its inputs, so their whole storages are saved. devices: those for which it enters autocast."""

    random: bool
    generators: tuple[int, ...]
    mutated: tuple[int, ...]
    saves_inputs: bool
    whole_storages: bool
    devices: tuple[str, ...]


class RestoringGraph:
    """Runs a graph. If it raises, restores grad mode, autocast, torch's generators, and written
    inputs. Then the captured graph (`forward`) runs, now and later. If it raises too, Rerun says
    that the frame can start over. Inputs are saved only where an operator after a write may raise;
    for unforeseeable failures (no memory) after a write, the error itself is raised. The same holds
    after a collective, as other processes have taken part in it."""

    def __init__(
        self,
        compiled: Callable[..., Any],
        forward: Callable[..., Any],
        backend: str,
        plan: RestorePlan,
    ) -> None:
        self.compiled, self.forward, self.backend, self.plan = compiled, forward, backend, plan

    def __call__(self, *args: Any) -> Any:
        """Runs the compiled graph. After an error it restores what the graph may have changed and
        runs the captured graph, or raises where that is not possible."""
        grad, level = torch.is_grad_enabled(), torch._C._functorch.maybe_current_level() or 0
        plan = self.plan
        autocasts = Autocasts(plan.devices) if plan.devices else None
        states = RandomStates(args) if plan.random else None
        drawn = [(args[at], args[at].get_state()) for at in plan.generators]
        written = [args[position] for position in plan.mutated]
        versions = [version(tensor) for tensor in written]
        started = collectives_started()
        saved = (
            [SavedInput(tensor, plan.whole_storages) for tensor in written]
            if plan.saves_inputs
            else []
        )
        try:
            return self.compiled(*args)
        except PASSED_ON:
            raise
        except Exception as error:
            # inference mode ends with the object that entered it, which must not stay alive there
            clear_frames(error.__traceback__)
            torch._C._set_grad_enabled(grad)
            if autocasts is not None:
                autocasts.restore()
            leave_transforms(level)
            written_too = versions != [version(tensor) for tensor in written]
            if (
                written_too and not plan.saves_inputs
            ):  # as in eager, with the numbers drawn until here
                raise
            if started != collectives_started():
                raise
            if states is not None:
                states.restore()
            for generator, before in drawn:
                generator.set_state(before)
            for item in saved:  # not all writes are counted
                item.restore()
            if isinstance(error, Rerun):  # an expectation failed, and would fail again
                raise
            return self.run_captured_graph(error, args)

    def run_captured_graph(self, error: Exception, args: tuple[Any, ...]) -> Any:
        """The captured graph's results; everything is restored to the state before the compiled one
        ran."""
        if self.compiled == self.forward or isinstance(error, torch.OutOfMemoryError):
            raise Rerun from error
        eager = copy(self)
        eager.compiled = self.forward
        result = eager(*args)
        self.compiled = self.forward
        warn_of_fallback(self.backend, error)
        return result


class SavedInput:
    """The content of an input before a graph writes it, or of its whole storage, and its version:
    autograd refuses some views of memory that was written, also if it was restored."""

    def __init__(self, tensor: torch.Tensor, whole_storage: bool) -> None:
        self.counted = None if tensor.is_inference() else (tensor, tensor._version)
        if whole_storage and tensor.layout is torch.strided and tensor.device.type != "meta":
            storage = tensor.untyped_storage()
            tensor = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        self.tensor, self.before = tensor, tensor.detach().clone()

    def restore(self) -> None:
        with torch.no_grad():
            if not torch.equal(self.tensor, self.before):
                first_of_repeats(self.tensor.detach()).copy_(
                    first_of_repeats(self.before, self.tensor)
                )
        if self.counted is not None:
            tensor, version_before = self.counted
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version_before,))


def first_of_repeats(tensor: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """The first elements along dimensions that `like`, or the tensor itself, is expanded along:
    torch does not copy into repeated elements."""
    strides = (tensor if like is None else like).stride() if tensor.layout is torch.strided else ()
    if 0 in strides:
        return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
    return tensor


def version(tensor: torch.Tensor) -> int:
    """A tensor's version counter; a new object, equal to nothing, where torch does not count."""
    return object() if tensor.is_inference() else tensor._version  # type: ignore[return-value]
