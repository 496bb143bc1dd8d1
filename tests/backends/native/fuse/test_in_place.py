"""Kernels that store into the memory of an operand, and merged nodes: equal values, less memory,
and results that share no memory."""

from __future__ import annotations

import random

import framejit
import pytest
import torch
from framejit.backends.native.fuse.in_place import has_scatter, in_place_operands
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.index import atom, index
from framejit.backends.native.ir.patterns import Patterns
from framejit.backends.native.ir.program import (
    Bound,
    Kernel,
    Program,
    Store,
    on_buffers,
    reads,
    writes,
)
from framejit.backends.native.printers.c.kernel import print_c
from framejit.backends.native.printers.c.scalars import preamble
from framejit.backends.native.printers.scratch import plan
from framejit.backends.native.toolchain._launch import run
from framejit.backends.native.toolchain.compile_c import compiler, functions
from torch.nn import functional as F

from .. import kernels
from ..evaluate import evaluate


def in_place(case):
    """A case's kernel, storing into an operand where that is allowed, and the operand."""
    kernel = simplify(case.kernel)
    for store in kernel.stores:
        for name in in_place_operands(kernel, store):
            if case.memory[name].dtype == case.memory[store.buffer].dtype and len(
                case.memory[name]
            ) == len(case.memory[store.buffer]):
                names = {other: other for other in reads(kernel).union(writes(kernel))} | {
                    store.buffer: name
                }
                return on_buffers(kernel, names), name, store.buffer
    return None


@pytest.mark.parametrize("threads", [1, 8])
def test_each_kernel_that_may_stores_into_its_operand(threads):
    cases = {
        name: (case, *found)
        for name, case in kernels.all_cases().items()
        if (found := in_place(case))
    }
    printed = [print_c(kernel, case.buffers, threads) for case, kernel, _, _ in cases.values()]
    symbols = functions(preamble(compiler()[2]), [text for text, _ in printed], 2)
    addresses = [symbol.address() for symbol in symbols]
    for (name, (case, _, operand, result)), (_, parameters), address in zip(
        cases.items(), printed, addresses, strict=True
    ):
        want, got = (
            {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
        )
        evaluate(case.kernel, want, case.sizes)
        run(
            address,
            *(got[buffer] for buffer in parameters.buffers),
            *(case.sizes[size] for size in parameters.sizes),
        )
        assert kernels.told_difference(name, got[operand], want[result]) is None
    assert {"add", "softmax"} <= {name.partition("-")[0].partition(" ")[0] for name in cases}


def tensors(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


X, W = (40, 64), (64, 64)
KEEPS = {  # function, inputs, how many buffers it allocates
    "an activation": (lambda x, w: F.gelu(x @ w) @ w, 0),
    "normalised": (lambda x, w: F.layer_norm(x @ w + x, (64,)) @ w, 0),
    "softmax": (lambda x, w: torch.softmax(x @ w, -1) @ w, 0),
    "by another shape": (lambda x, w: (x @ w).view(4, 10, 64).relu().view(40, 64) @ w, 0),
    "read again later": (lambda x, w: (lambda y: (y.relu() @ w) + y)(x @ w), 1),
    "a result": (lambda x, w: (x @ w).relu(), 0),
    "a result of another shape": (lambda x, w: (x @ w).view(4, 10, 64).relu(), 0),
    "a result in two layouts": (lambda x, w: (lambda y: (y, y.t()))((x @ w).relu()), 0),
    "two results of one operand": (lambda x, w: (lambda y: (y.relu(), y.tanh()))(x @ w), 1),
    "a result that is read later": (
        lambda x, w: (lambda y: (y, (y @ w).relu()))((x @ w).relu()),
        0,
    ),
    "a larger result": (lambda x, w: (x @ w)[:, None] * x[:, :2, None], 1),
    "read elsewhere too": (lambda x, w: (lambda y: (y + y.flip(0)) @ w)(x @ w), 1),
    "returned": (lambda x, w: (lambda y: (y, y.relu() @ w))(x @ w), 1),
    "an input": (lambda x, w: x.relu() @ w, 1),
    "two results": (lambda x, w: (lambda y: (y.relu() @ w, y.tanh() @ w))(x @ w), 1),
    "another type": (lambda x, w: (x @ w).double() @ w.double(), 2),
    "beside its sum over rows": (
        lambda x, w: (lambda y: (y @ w, y.sum(0)))(torch.where(x > 0, x @ w, 0.0)),
        1,
    ),
    "beside its sums along rows": (
        lambda x, w: (lambda y: (y @ w, y.sum(1)))(torch.where(x > 0, x @ w, 0.0)),
        1,
    ),
    "beside what reads the operand again": (
        lambda x, w: (lambda y: (y * 2, torch.softmax(y, 1)))(x @ w),
        1,
    ),
    "beside what reads the operand once more": (
        lambda x, w: (lambda y: ((y * 2) @ w, (y - y.amax(1, keepdim=True)).exp().sum(1)))(x @ w),
        2,
    ),
}


@pytest.mark.parametrize("name", KEEPS)
def test_operands_give_their_memory(name, reports):
    function, allocated = KEEPS[name]
    x, w = tensors(X, W)
    with torch.no_grad():
        got = framejit.compile(function, backend="native")(x, w)
    torch.testing.assert_close(got, function(x, w), check_stride=True)
    torch.testing.assert_close([x, w], tensors(X, W), rtol=0, atol=0)
    assert reports[0].host.count("empty_cpu") == allocated, reports[0].host


@pytest.mark.parametrize(("between", "together"), [(2, True), (40, False)])
def test_kernels_far_apart_are_not_run_together(reports, between, together):
    """What one of them makes would lie there until the other's place comes."""

    def function(x, w):
        y = x.exp() @ w
        for _ in range(between):
            y = y.relu() @ w
        return y + x.sin() @ w

    x, w = tensors(X, W)
    w /= 8
    with torch.no_grad():
        torch.testing.assert_close(
            framejit.compile(function, backend="native")(x, w), function(x, w)
        )
    lines = [line for line in reports[0].host.splitlines() if "aten.exp" in line]
    assert ("aten.sin" in lines[0]) == together, reports[0].host


def chain(x):
    for link in range(6):
        x = torch.softmax(x, link % 2)
    return x


def read_late(x):
    first = x.exp().sum(0)
    return chain(x) * first + x.sum(1, keepdim=True).exp()


@pytest.mark.parametrize(("function", "allocated", "rows"), [(chain, 1, 3), (read_late, 1 + 1, 4)])
def test_small_buffers_of_kernels_lie_in_one_piece(reports, function, allocated, rows):
    (x,) = tensors((rows, 40))
    call = framejit.compile(function, backend="native")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), function(x))
    assert reports[0].host.count("empty_cpu") == allocated, reports[0].host


@pytest.mark.parametrize("seed", range(20))
def test_what_is_needed_at_one_time_lies_apart(seed):
    pick = random.Random(seed)
    sizes = {"in": 50} | {
        f"b{number}": pick.choice((0, 1, 33, 1000, 1 << 17)) for number in range(40)
    }
    memory = {name: torch.zeros(size) for name, size in sizes.items()}
    names, steps = list(sizes), []
    for number, name in enumerate(names[1:], 1):
        (variable,) = kernels.loops([index(sizes[name])], "x")
        read = kernels.load(
            pick.choice(names[max(0, number - 6) : number]), atom(variable), torch.float32
        )
        steps.append(Kernel((variable,), (), (Store(name, atom(variable), read),), ("copy",)))
    buffers = kernels.Case(steps[0], memory).buffers
    program = Program(buffers, ["in"], steps, [])
    last = {
        name: position
        for position, step in enumerate(steps)
        for name in reads(step).union(writes(step))
    }
    kept = {"in", *pick.sample(names, 3)}
    dead = {
        place: [name for name in names if last.get(name) == place and name not in kept]
        for place in range(len(steps))
    }
    scratch = plan(program, dead, kept)
    assert (
        set(scratch.places) == {name for name, size in sizes.items() if 0 < size < 1 << 17} - kept
    )
    first = {name: position for position, step in enumerate(steps) for name in writes(step)}
    for name, place in scratch.places.items():
        assert place % 128 == 0 and place + 4 * sizes[name] <= scratch.size
        for other in scratch.places.keys() - {name}:
            if first[other] <= last[name] and first[name] <= last[other]:
                assert (
                    place + 4 * sizes[name] <= scratch.places[other]
                    or scratch.places[other] + 4 * sizes[other] <= place
                )


def test_equal_nodes_become_one(reports):
    def function(x, w):
        return (x.t().contiguous() @ x).relu() + (x.t().contiguous() @ x).relu()

    (x,) = tensors(X)
    torch.testing.assert_close(framejit.compile(function, backend="native")(x, x), function(x, x))
    assert reports[0].host.count("empty_cpu") == 1, reports[0].host


def test_equal_results_are_different_tensors():
    first, second, third = framejit.compile(
        lambda x: (x + 1, x + 1, (x + 1).view(-1)), backend="native"
    )(torch.ones(3, 2))
    assert len({tensor.data_ptr() for tensor in (first, second, third)}) == 3
    torch.testing.assert_close(
        [first, second, third], [torch.full((3, 2), 2.0)] * 2 + [torch.full((6,), 2.0)]
    )


def test_what_nobody_reads_of_a_result_is_freed(reports):
    framejit.compile(lambda x: F.max_pool2d(x, 2).relu(), backend="native")(torch.randn(1, 2, 8, 8))
    assert "del _" in reports[0].host


def test_patterns_are_not_filled_in_to_look_for_scatters():
    kernel = next(case.kernel for case in kernels.all_cases().values())
    pattern = Patterns().bind(kernel).pattern
    other = Bound(pattern, tuple(f"{name}_" for name in pattern.names))
    has_scatter(other)
    assert "kernel" not in vars(other)
