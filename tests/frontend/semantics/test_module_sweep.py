"""Modules as people write them: each way to define forward with each body, in training and
evaluation, against eager.

Values, strides, the module's state, gradients and random numbers must be eager's. The combinations
run on the backend `eager`; `native`, whose kernels take time to compile, takes each body with one
way and each way with one body. Modules with ways of their own to define forward and to hold state
(sweep_modules.py) run on both, and so do parts of published architectures (sweep_architectures.py).
Of each table a slice runs (tests/sweep_slice.py), of the combinations each way and each body.
"""

from __future__ import annotations

import copy
import functools
import warnings

import framejit
import pytest
import torch
from torch import nn

from ... import sweep_slice
from .sweep_architectures import ARCHITECTURES
from .sweep_bodies import BODIES
from .sweep_modules import MODULES

WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def noted(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


class Bound:
    """A decorator that is a class."""

    def __init__(self, function):
        self.function = function
        functools.update_wrapper(self, function)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self.function, instance)


class ForwardMixin:
    def forward(self, *args, **kwargs):
        return self.compute(*args, **kwargs)


def made(cls, **names):
    return type(cls.__name__, (cls,), names)()


@way
def method(cls):
    return made(cls, forward=lambda self, x: self.compute(x))


@way
def decorated(cls):
    @noted
    @noted
    def forward(self, x, scale=1):
        return self.compute(x)

    return made(cls, forward=forward)


@way
def decorated_by_a_class(cls):
    @Bound
    def forward(self, x):
        return self.compute(x)

    return made(cls, forward=forward)


@way
def in_a_mixin(cls):
    return type(cls.__name__, (ForwardMixin, cls), {})()


@way
def of_the_instance(cls):
    module = cls()
    module.forward = module.compute
    return module


@way
def a_partial_of_the_instance(cls):
    module = cls()
    module.forward = functools.partial(type(module).compute, module)
    return module


@way
def a_partial_method(cls):
    return made(
        cls,
        run=lambda self, x, flag: self.compute(x),
        forward=functools.partialmethod(lambda self, x, flag: self.run(x, flag), flag=1),
    )


@way
def by_super(cls):
    class Middle(cls):
        def forward(self, x):
            return self.compute(x)

    class Last(Middle):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs)

    return Last()


@way
def a_property(cls):
    return made(cls, forward=property(lambda self: self.compute))


@way
def delegated(cls):
    def __getattr__(self, name):  # noqa: N807
        return self.compute if name == "run" else super(cls, self).__getattr__(name)

    return made(cls, __getattr__=__getattr__, forward=lambda self, x: self.run(x))


@way
def with_keywords(cls):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made(cls, forward=lambda self, *, x, mask=None: self.compute(x))

        def forward(self, x):
            return self.inner(x=x, mask=None)

    return Outer()


@way
def in_a_plain_list(cls):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.__dict__["parts"] = [method(cls)]

        def train(self, mode=True):
            self.parts[0].train(mode)
            return super().train(mode)

        def forward(self, x):
            return self.parts[0](x)

    return Outer()


@way
def with_hooks(cls):
    module = method(cls)
    module.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    module.register_forward_hook(lambda module, args, result: result)
    return module


@way
def with_its_own_call(cls):
    def __call__(self, x):  # noqa: N807
        return super(type(self), self).__call__(x)

    return made(cls, __call__=__call__, forward=lambda self, x: self.compute(x))


@way
def in_a_sequence(cls):
    return nn.Sequential(nn.Identity(), method(cls))


@way
def copied(cls):
    return copy.deepcopy(decorated(cls))


def leaves(found):
    if isinstance(found, torch.Tensor):
        return [found]
    if isinstance(found, dict):
        return [*found, *(leaf for value in found.values() for leaf in leaves(value))]
    if isinstance(found, tuple | list):
        return [type(found).__name__, *(leaf for value in found for leaf in leaves(value))]
    return [found]


def run(module, inputs):
    """All that can be seen of some calls: results, gradients, state and the random numbers behind
    them."""
    seen = []
    torch.manual_seed(0)
    for x in inputs:
        x = x.clone().requires_grad_()
        found = leaves(module(x))
        seen += found
        tensors = [leaf for leaf in found if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        targets = [x, *(p for p in module.parameters() if p.requires_grad)]
        if tensors:
            seen += torch.autograd.grad(
                [t.float().square().mean() for t in tensors], targets, allow_unused=True
            )
    return seen, dict(module.state_dict()), torch.get_rng_state()


def inputs_of(*shape):
    return [
        torch.randn(rows, *shape, generator=torch.Generator().manual_seed(rows))
        for rows in (2, 2, 3)
    ]


def compare(make, training, backend, tolerance=0.0, inputs=None, strides=True):
    inputs = inputs or inputs_of(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = []
        for compiled in (False, True):
            torch.manual_seed(0)
            module = make().train(training)
            runs.append(
                run(framejit.compile(module, backend=backend) if compiled else module, inputs)
            )
    (expected, state, random), (found, other_state, other_random) = runs
    assert list(state) == list(other_state) and random.equal(other_random)
    for one, other in zip(
        [*expected, *state.values()], [*found, *other_state.values()], strict=True
    ):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, equal_nan=True, rtol=tolerance, atol=tolerance)
            assert (one.dtype, type(one)) == (other.dtype, type(other))
            assert not strides or one.stride() == other.stride()
        else:
            assert one == other
    assert module.framejit.compiles > 0


COMBINATIONS = [(way, body) for way in WAYS for body in BODIES]


@pytest.mark.sweep(11, each=("way", "body"))
@pytest.mark.parametrize(("way", "body"), COMBINATIONS)
def test_modules_as_people_write_them(way, body):
    for training in (True, False):
        compare(lambda: WAYS[way](BODIES[body]), training, "eager")


TOLERANCES = {
    "WithAutocast": 1e-2
}  # of what is calculated in bfloat16, which kernels round less often
ON_NATIVE = [(list(WAYS)[number % len(WAYS)], name) for number, name in enumerate(BODIES)]


@pytest.mark.sweep(8)
@pytest.mark.parametrize(("way", "body"), ON_NATIVE)
def test_modules_on_the_native_compiler(way, body):
    compare(lambda: WAYS[way](BODIES[body]), True, "native", TOLERANCES.get(body, 1e-5))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", MODULES)
def test_modules_with_ways_of_their_own(name):
    for training in (True, False):
        compare(MODULES[name], training, "eager")


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", MODULES)
def test_modules_with_ways_of_their_own_on_the_native_compiler(name):
    compare(MODULES[name], True, "native", 1e-5)


OTHER_STRIDES = {
    "Glow"
}  # slogdet's gradient, by a column-major weight, has other strides on fake tensors than on real ones


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name):
    for training in (True, False):
        compare(
            ARCHITECTURES[name], training, "eager", inputs=inputs_of(*ARCHITECTURES[name].takes)
        )


# A whole run takes all of them on native, others one of eight.
ON_NATIVE_EVERY = 1 if sweep_slice.WHOLE else 8
ARCHITECTURES_ON_NATIVE = [
    (name, training)
    for name in list(ARCHITECTURES)[::ON_NATIVE_EVERY]
    for training in ((True, False) if sweep_slice.WHOLE else (True,))
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("name", "training"), ARCHITECTURES_ON_NATIVE)
def test_architectures_on_the_native_compiler(name, training):
    inputs = inputs_of(*ARCHITECTURES[name].takes)
    compare(
        ARCHITECTURES[name], training, "native", 1e-4, inputs, strides=name not in OTHER_STRIDES
    )
