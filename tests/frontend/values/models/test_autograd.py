"""Full backward hooks of modules: Python sets them up, between graphs, and they are called with
what eager calls them with."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as all_modules
from torch.utils._pytree import tree_flatten, tree_leaves
from torch.utils.checkpoint import checkpoint
from torch.utils.hooks import RemovableHandle

from ...semantics.harness import strict_compile

BACKENDS = ["eager", "aot_eager", "native"]
Pair = namedtuple("Pair", "first second")
Compile = Callable[[Any], Any]


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))


def noting(log: list[Any]) -> Callable[..., None]:
    """A hook that writes down what it is called with."""
    return lambda module, inputs, outputs: log.append((type(module).__name__, inputs, outputs))


def steps(f: Any, module: nn.Module, turns: int = 2, grad: bool = True) -> list[Any]:
    """Training steps, with other sizes each time: results, gradients of the input, those of the
    parameters added up."""
    found = []
    for turn in range(turns):
        x = torch.linspace(-1, 1, 4 * (turn + 2)).exp().reshape(-1, 4).requires_grad_(grad)
        result = sum(tensor for tensor in tree_leaves(f(x)) if isinstance(tensor, torch.Tensor))
        if result.requires_grad:
            result.sum().backward()
        found.append(
            (
                result.detach(),
                x.grad,
                [None if p.grad is None else p.grad.clone() for p in module.parameters()],
            )
        )
    return found


def assert_alike(found: Any, expected: Any) -> None:
    (leaves, structure), (expected_leaves, expected_structure) = map(
        tree_flatten, (found, expected)
    )
    assert structure == expected_structure
    for leaf, other in zip(leaves, expected_leaves, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(leaf, other, rtol=1e-4, atol=1e-5)
        else:
            assert leaf == other


class Returning(nn.Module):
    def __init__(self, how: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.how = nn.Linear(4, 4), how

    def forward(self, x: torch.Tensor) -> Any:
        return self.how(self.layer(x))


def on_one(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    return steps(compile_(module), module), log


def on_all(compile_: Compile) -> Any:
    module, log = layers(), []
    for one in module.modules():
        one.register_full_backward_hook(noting(log))
    return steps(compile_(lambda x: module(x * 2) + 1), module), log


def that_change(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    module[2].register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 3,))
    module[2].register_full_backward_hook(noting(log))
    return steps(compile_(module), module), log


def of_a_first_layer(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = steps(compile_(module), module, grad=False)
    return found, log, [str(warning.message)[:40] for warning in told]


def with_forward_hooks(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    module[0].register_forward_hook(lambda module, args, out: out * 2)
    module[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return steps(compile_(module), module), log


def for_everything(compile_: Compile) -> Any:
    module, log = layers(), []
    handles = [
        all_modules.register_module_full_backward_hook(noting(log)),
        all_modules.register_module_full_backward_pre_hook(lambda m, g: log.append(g)),
    ]
    try:
        return steps(compile_(module), module), log
    finally:
        for handle in handles:
            handle.remove()
        all_modules._global_is_full_backward_hook = None


def of_a_module_called_three_times(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    return steps(compile_(lambda x: module[0](module[0](x)) * module[0](x)), module), log


def with_arguments_of_all_kinds(compile_: Compile) -> Any:
    class Scaled(Returning):
        def forward(self, x, k, *, by, plus):
            return self.layer(x) * k * by + plus, k, None, x + 1

    module, log = Scaled(lambda y: y), []
    module.register_full_backward_hook(noting(log))
    return steps(compile_(lambda x: module(x, 3, by=2, plus=x)), module), log


def behind_no_grad(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))

    def f(x):
        with torch.no_grad():
            before = module(x)
        return module(x) + before

    return steps(compile_(f), module), log


def around_writes(compile_: Compile) -> Any:
    class Writing(Returning):
        def __init__(self) -> None:
            super().__init__(torch.relu)
            self.norm, self.count = nn.BatchNorm1d(4), nn.Buffer(torch.zeros(()))

        def forward(self, x):
            self.count += 1
            y = self.norm(self.layer(x))
            y.mul_(2)
            y[:, 0] = 0
            return self.how(y)

    module, log = Writing(), []
    module.register_full_backward_hook(noting(log))
    module.layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    return steps(compile_(lambda x: module(x * 2).sigmoid()), module), log, module.state_dict()


def with_random_numbers(compile_: Compile) -> Any:
    module, log = nn.Sequential(layers(), nn.Dropout(0.5), nn.Linear(4, 4)), []
    module[1].register_full_backward_hook(noting(log))
    torch.manual_seed(1)
    return steps(compile_(module), module), log, torch.rand(2)


def of_two_results(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    first, second = compile_(lambda x: (module[0](x), module[2](x)))(torch.ones(2, 4))
    second.sum().backward()
    none_yet = len(log)
    first.sum().backward()
    return none_yet, log


def twice_over(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    x = torch.ones(2, 4, requires_grad=True)
    (grad,) = torch.autograd.grad(compile_(module)(x).square().sum(), x, create_graph=True)
    grad.sum().backward()
    return grad, x.grad, len(log)


def returning(how: Callable[[torch.Tensor], Any]) -> Callable[[Compile], Any]:
    def run(compile_: Compile) -> Any:
        module, log = Returning(how), []
        module.register_full_backward_hook(noting(log))
        return steps(compile_(lambda x: module(x * 2)), module), log

    return run


OF_ONE_STEP: dict[str, Callable[[Compile], Any]] = {
    "on one": on_one, "on all": on_all, "that change": that_change, "of a first layer": of_a_first_layer,
    "with forward hooks": with_forward_hooks, "for everything": for_everything, "three times": of_a_module_called_three_times,
    "arguments": with_arguments_of_all_kinds, "no_grad": behind_no_grad, "writes": around_writes, "random": with_random_numbers,
    "two results": of_two_results, "differentiated twice": twice_over,
    "a named tuple": returning(lambda y: Pair(y, y * 2)), "a tensor and others": returning(lambda y: (y, None, 3)),
    "a detached one": returning(lambda y: (y.detach(), y)), "only a detached one": returning(lambda y: y.detach()),
}  # fmt: skip


# with a break


def at_a_break_inside(compile_: Compile) -> Any:
    class Printing(Returning):
        def forward(self, x):
            y = self.layer(x)
            print(end="")
            return y * 2

    module, log = nn.Sequential(nn.Tanh(), Printing(torch.relu), layers()), []
    for one in (module[1], module[1].layer, module[2]):
        one.register_full_backward_hook(noting(log))
    return steps(compile_(module), module), log


def edited_between_calls(compile_: Compile) -> Any:
    module, log = layers(), []
    f = compile_(module)
    found = [steps(f, module)]
    first = module[0].register_full_backward_hook(noting(log))
    found.append(steps(f, module))
    second = module[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
    for handle in (first, second):
        found.append(steps(f, module))
        handle.remove()
    return found, steps(f, module), log


def registered_inside(compile_: Compile) -> Any:
    module, log = layers(), []
    hook = noting(log)

    def f(x):
        handle = module[0].register_full_backward_hook(hook)
        result = module(x)
        handle.remove()
        return result

    return steps(compile_(f), module), log


def differentiated_inside(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))

    def f(x):
        (grad,) = torch.autograd.grad(module(x).sum(), x)
        return grad, len(log)

    f = compile_(f)
    return [f(torch.ones(2, 4, requires_grad=True)) for _ in range(2)], log


def run_backward_inside(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))

    def f(x):
        module(x).sum().backward()
        return x.grad, len(log)

    f = compile_(f)
    return [f(torch.ones(2, 4, requires_grad=True)) for _ in range(2)], log


def checkpointed(compile_: Compile) -> Any:
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))
    return steps(compile_(lambda x: checkpoint(module, x, use_reentrant=False)), module), log


def a_dictionary(compile_: Compile) -> Any:
    module, log = Returning(lambda y: {"y": y}), []
    module.register_full_backward_hook(noting(log))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = steps(compile_(module), module)
    return found, log, [str(warning.message)[:40] for warning in told]


def an_error_that_is_caught(compile_: Compile) -> Any:
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError(f"no {len(x * 2)}")

    failing, module, log = Failing(), layers(), []
    failing.register_full_backward_hook(noting(log))

    def f(x):
        try:
            return failing(module(x))
        except ValueError as error:
            return module(x), str(error)

    return steps(compile_(f), module), log


def a_wrong_count(compile_: Compile) -> Any:
    module = layers()
    module[0].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0], inputs[0]))
    with pytest.raises(RuntimeError) as raised:
        steps(compile_(module), module)
    return str(raised.value)


WITH_BREAKS: dict[str, Callable[[Compile], Any]] = {
    "a break inside": at_a_break_inside, "edited": edited_between_calls, "registered inside": registered_inside,
    "grad inside": differentiated_inside, "backward inside": run_backward_inside, "checkpoint": checkpointed, "a dictionary": a_dictionary,
    "caught": an_error_that_is_caught, "a wrong count": a_wrong_count,
}  # fmt: skip
PROGRAMS = OF_ONE_STEP | WITH_BREAKS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_are_called_as_in_eager(name, backend):
    expected = PROGRAMS[name](lambda f: f)
    found = PROGRAMS[name](lambda f: strict_compile(f, backend=backend))
    assert_alike(found, expected)


def test_handles_keep_their_numbers():
    module, log = layers(), []
    module[0].register_full_backward_hook(noting(log))

    def f(x):
        y = module(x)
        handle = module[2].register_forward_hook(lambda module, args, out: None)
        number = handle.id
        handle.remove()
        return y, number

    compiled = strict_compile(f, backend="eager")
    for run in (compiled, compiled, compiled):
        before = RemovableHandle.next_id
        _, number = run(torch.ones(2, 4, requires_grad=True))
        assert number == before + 2 and RemovableHandle.next_id == before + 3


def test_a_module_with_hooks_is_not_kept_alive():
    def f(module, x):
        return module(x)

    compiled = strict_compile(f, backend="eager")
    module = layers()
    module[0].register_full_backward_hook(noting([]))
    compiled(module, torch.ones(2, 4)).sum().backward()
    left = weakref.ref(module[0])
    del module
    gc.collect()
    assert left() is None
