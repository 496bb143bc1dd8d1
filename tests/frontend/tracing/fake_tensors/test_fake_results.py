"""Cached results of fake operators are those of the operators: over torch's operator database, and
where an operand's metadata, a mode or a second write could tell them apart."""

from __future__ import annotations

from contextlib import nullcontext

import framejit
import pytest
import torch
from framejit.backends.graph.memory import share_memory
from framejit.frontend.tracing.fake_tensors import fake_results
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch.utils import _pytree as pytree

from ...opdb import sweep

EVERY = 8  # how many operators one of the slice stands for
OPERATORS = [name for name in sweep.operators() if not name.startswith("sparse.")]
LAYOUTS = ("", "transposed")


@pytest.fixture
def results(monkeypatch):
    """An empty cache."""
    monkeypatch.setattr(fake_results, "_results", {})
    return fake_results._results


def facts(result, operands):
    """What is to be known of a tensor."""
    if not isinstance(result, torch.Tensor):
        return result
    layout = (
        (tuple(result.shape), result.stride(), result.storage_offset())
        if result.layout is torch.strided
        else tuple(result.shape)
    )
    shared = [
        result is other or (is_strided(result, other) and share_memory(result, other))
        for other in operands
    ]
    return (
        layout, result.dtype, result.device, result.layout, result.requires_grad, result.is_leaf,
        result._is_view(), result.is_inference(), result.is_conj(), result.is_neg(),
        None if result.is_inference() else result._version, shared,
    )  # fmt: skip


def is_strided(*tensors):
    return all(tensor.layout is torch.strided for tensor in tensors)


def copy_of(real):
    return real.detach().clone().requires_grad_(real.requires_grad)


def outcome(function, sample, is_fake=True):
    """What is to be known of the results and operands of one call on fresh tensors."""
    mode = CaptureFakeMode() if is_fake else nullcontext()

    def copy(leaf):
        made = mode.from_tensor(leaf, static_shapes=True) if is_fake else copy_of(leaf)
        with mode:  # no leaf: operators that write may be called, too
            return made.view_as(made) if made.requires_grad else made

    arguments = (sample.input, sample.args, sample.kwargs)
    first, args, kwargs = pytree.tree_map_only(torch.Tensor, copy, arguments)
    operands = [leaf for leaf in pytree.tree_leaves((first, args, kwargs)) if torch.is_tensor(leaf)]
    try:
        with mode:
            found = function(first, *args, **kwargs)
    except Exception as error:
        return type(error)
    leaves = [*pytree.tree_leaves(found), *operands]
    return [repr(facts(leaf, operands)) for leaf in leaves]


def agrees(found, expected, eager):
    """Whether each tensor is as torch's mode makes it, or as it truly is."""
    if isinstance(found, type) or isinstance(expected, type):
        return found is expected
    return len(found) == len(expected) and all(map(one_of, found, expected, eager))


def one_of(found, *known):
    return found in known


def differences(op, layout=""):
    """Samples of an operator for which a cached result differs from the operator's."""
    variants = [op.op, *([op.inplace_variant] if op.inplace_variant else [])]
    for grad in (False, True) if op.supports_autograd else (False,):
        for number, sample in enumerate(sweep.samples(op, grad, layout)):
            for function in variants:
                eager = outcome(function, sample, is_fake=False)
                if not isinstance(eager, list):
                    continue  # what eager refuses
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(fake_results, "is_cacheable", lambda func: False)
                    expected = outcome(function, sample)
                for attempt in ("made", "cached"):
                    found = outcome(function, sample)
                    if not agrees(found, expected, eager):
                        yield number, grad, attempt, found, expected


@pytest.mark.sweep(3, each=("layout",))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS[::EVERY])
def test_operators(name, layout):
    assert list(differences(sweep.operators()[name], layout)) == []


def of(mode, *sizes, **named):
    return mode.from_tensor(torch.ones(*sizes, **named), static_shapes=True)


def made(monkeypatch):
    """The operators whose results were not in the cache, as a list that grows."""
    seen = []
    recipe_of = fake_results.recipe_of

    def counted(mode, func, *rest):
        seen.append(func)
        return recipe_of(mode, func, *rest)

    monkeypatch.setattr(fake_results, "recipe_of", counted)
    return seen


CALLS = {
    "elementwise": lambda x: x.sin(),
    "several results": lambda x: x.max(0),
    "a view": lambda x: x.t(),
    "several views": lambda x: x.unbind(0),
    "in place": lambda x: x.add_(1),
    "a list of tensors": lambda x: torch.cat([x, x]),
    "lists written into": lambda x: torch._foreach_add_([x, x.clone()], 1),
    "a factory": lambda x: torch.empty(3),
    "layer_norm": lambda x: torch.layer_norm(x, (3,)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_second_mode_finds_all(call, results, monkeypatch):
    seen = made(monkeypatch)
    for _ in range(2):
        mode, ran = CaptureFakeMode(), len(seen)
        x = of(mode, 2, 3)
        with mode:
            call(x)
    assert ran > 0
    assert len(seen) == ran


FACTORIES = {
    "empty": lambda **how: torch.empty(2, 0, 3, **how),
    "empty_strided": lambda **how: torch.empty_strided((2, 3), (5, 1), **how),
    "full": lambda **how: torch.full((2, 3), 2, **how),
    "full of floats": lambda **how: torch.full((), 2.5, **how),
    "ones": lambda **how: torch.ones(2, 1, **how),
    "rand": lambda **how: torch.rand(3, **how),
    "randint": lambda **how: torch.randint(1, 5, (2, 3), **how),
    "randperm": lambda **how: torch.randperm(4, **how),
    "eye": lambda **how: torch.eye(3, 2, **how),
    "linspace": lambda **how: torch.linspace(0, 1, 5, **how),
    "arange": lambda **how: torch.arange(2, 7, **how),
    "arange of nothing": lambda **how: torch.arange(0, **how),
    "arange backwards": lambda **how: torch.arange(2, 1, **how),
    "arange of floats": lambda **how: torch.arange(0.0, 3, **how),
    "empty, a wrong size": lambda **how: torch.empty(-1, **how),
}


@pytest.mark.parametrize("how", [{}, {"dtype": torch.float64}, {"device": "meta"}], ids=str)
@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_factories_make_what_torchs_mode_makes(make, how, results, monkeypatch):
    def found():
        mode = CaptureFakeMode()
        with mode:
            try:
                fake = make(**how)
            except RuntimeError as error:
                return str(error)
        return facts(fake, []), fake.untyped_storage().nbytes()

    by_rule = found()
    monkeypatch.setattr(fake_results, "is_cacheable", lambda func: False)
    assert by_rule == found()


def turned(*sizes):
    return torch.ones(sizes).transpose(1, 2)


ATTENTION = {
    "rows by heads": (turned(2, 5, 3, 4),) * 3,
    "a part of wider rows": (torch.ones(2, 5, 36).split(12, 2)[1].view(2, 5, 3, 4).mT.mT,) * 3,
    "columns": (torch.ones(2, 3, 4, 5).mT,) * 3,
    "one row": (turned(2, 1, 3, 4), turned(2, 5, 3, 4), turned(2, 5, 3, 4)),
    "one image": (turned(1, 5, 3, 4),) * 3,
    "one head for all": (torch.ones(2, 1, 5, 4).expand(-1, 3, -1, -1),) * 3,
}


@pytest.mark.parametrize("operands", ATTENTION.values(), ids=ATTENTION)
def test_attention_has_torchs_layout(operands, results):
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    mode = CaptureFakeMode()
    fakes = [mode.from_tensor(operand, static_shapes=True) for operand in operands]
    with mode:
        found = [facts(one, fakes) for one in attend(*fakes)]
    assert found == [facts(one, operands) for one in attend(*operands)]


OTHERS = {  # beside a tensor of 2 by 3 float32 zeros
    "sizes": lambda mode: of(mode, 3, 2),
    "dtype": lambda mode: of(mode, 2, 3, dtype=torch.float64),
    "strides": lambda mode: of(mode, 3, 2).t(),
    "offset": lambda mode: of(mode, 3, 3)[1:],
    "device": lambda mode: of(mode, 2, 3, device="meta"),
}


@pytest.mark.parametrize("call", [CALLS["elementwise"], CALLS["a view"]], ids=["new", "view"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_metadata_decides(other, call, results):
    mode = CaptureFakeMode()
    with mode:
        call(of(mode, 2, 3))
        x = other(mode)
        found = call(x)
        results.clear()
        expected = call(x)
    assert facts(found, [x]) == facts(expected, [x])


def test_types_of_numbers_decide(results):
    mode = CaptureFakeMode()
    x = of(mode, 3, dtype=torch.int64)
    with mode:
        assert [(x * one).dtype for one in (1, 1.0, True, 1)] == [
            torch.int64, torch.float32, torch.int64, torch.int64,
        ]  # fmt: skip


def test_default_dtype_decides(results):
    mode = CaptureFakeMode()
    x = of(mode, 3, dtype=torch.int64)
    with mode:
        before = (x * 1.5).dtype
        torch.set_default_dtype(torch.float64)
        try:
            after = (x * 1.5).dtype
        finally:
            torch.set_default_dtype(torch.float32)
    assert (before, after) == (torch.float32, torch.float64)


def test_inference_mode_decides(results):
    mode = CaptureFakeMode()
    with mode:
        torch.empty(3)
        with torch.inference_mode():
            assert torch.empty(3).is_inference()
        assert not torch.empty(3).is_inference()


def test_operators_that_change_metadata_run(results):
    mode = CaptureFakeMode()
    with mode:
        for _ in range(3):
            x = of(mode, 2, 3)
            x.t_()
            assert tuple(x.shape) == (3, 2)
            x.resize_(6)
            assert tuple(x.shape) == (6,)


def test_constants_keep_their_values(results):
    """torch runs operators on constants of the program for real; an equal fake has no value."""
    mode = CaptureFakeMode()
    with mode:
        of(mode, ()) + 1
        assert [(torch.tensor(float(n)) + 1).item() for n in (1, 2)] == [2.0, 3.0]


def test_a_part_of_static_size_may_begin_at_a_symbol():
    """Neither the place in memory nor the memory's size can be in a key."""

    def parts(x, start):
        part = x[start : start + 2]
        return part.sin(), x[:2].cos(), x.expand(2, -1)[:, :1].exp()

    compiled = framejit.compile(parts, backend="eager", dynamic=True)
    for start, size in ((2, 8), (3, 9), (4, 7)):
        x = torch.randn(size)
        for found, expected in zip(compiled(x, start), parts(x, start), strict=True):
            assert torch.equal(found, expected)


def test_the_cache_is_bounded(results, monkeypatch):
    monkeypatch.setattr(fake_results, "MOST_RESULTS", 3)
    mode = CaptureFakeMode()
    with mode:
        for size in range(2, 8):
            assert tuple(of(mode, size).sin().shape) == (size,)
    assert len(results) == 3


def test_equal_layers_run_an_operator_once(results, monkeypatch):
    layers = [torch.nn.Linear(4, 4) for _ in range(6)]
    seen = made(monkeypatch)

    def forward(x):
        for layer in layers:
            x = layer(x).relu()
        return x

    compiled = framejit.compile(forward, backend="eager")
    assert torch.equal(compiled(torch.ones(2, 4)), forward(torch.ones(2, 4)))
    assert seen.count(torch.ops.aten.addmm.default) == 1
    assert seen.count(torch.ops.aten.relu.default) == 1
