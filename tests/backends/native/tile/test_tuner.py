"""What a tuner chooses, with times that the test makes up."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.program import Call, Kernel, Product, Program, Store
from framejit.backends.native.ir.scalar import LOAD, Scalar, rewrite
from framejit.backends.native.printers.base import Plan
from framejit.backends.native.printers.products import Blocks, blocks_to_try
from framejit.backends.native.printers.tiles import Tiles, choose_tiles, tiles_to_try
from framejit.backends.native.tile.tuner import Tuner

from .. import kernels, products


class Pretended:
    """A device where kernel number n of those that are compiled takes times[n] seconds (1 where
    nothing is told; None: it cannot be launched), kernels of products `product` seconds, and some
    do not compile. An operator's call takes no time."""

    kind = "cpu"
    stream = 7

    def __init__(self, times=None, broken=(), identity="pretended", small=False, product=None):
        self.product, self.times, self.broken, self.identity, self.small = (
            product,
            times or {},
            broken,
            identity,
            small,
        )
        self.compiled, self.held, self.launched = [], 0, []

    def compile(self, jobs):
        self.compiled += jobs
        return {
            job: Launched(self, number)
            for number, job in enumerate(self.compiled)
            if number not in self.broken
        }

    @contextlib.contextmanager
    def memory(self, elements, buffers):
        if self.small:
            raise torch.OutOfMemoryError("it is full")
        self.held += 1
        yield {
            name: torch.zeros(count, dtype=buffers[name].dtype) for name, count in elements.items()
        }
        self.held -= 1

    def seconds(self, runs):
        before = len(self.launched)
        for run in runs:
            run()
        return [self.time(number) for number, _, _ in self.launched[before:]]

    def time(self, number):
        made = self.product is not None and "tl.dot" in self.compiled[number].text
        return self.times.get(number, self.product if made else 1.0)


class Launched:
    def __init__(self, device, number):
        self.device, self.number = device, number

    def __call__(self, programs, stream, *tensors):
        assert stream == 7 and programs > 0
        self.device.launched.append((self.number, programs, tensors))


def program_of(*cases):
    """A program of kernels, each with buffers of its own."""
    buffers, steps = {}, []
    for number, case in enumerate(cases):
        names = {name: f"{name}_{number}" for name in case.memory}
        buffers |= {
            names[name]: replace(buffer, name=names[name]) for name, buffer in case.buffers.items()
        }
        steps.append(renamed(simplify(case.kernel), names))
    return Program(buffers, [], steps, [])


def renamed(kernel, names):
    def change(node):
        return (
            Scalar(LOAD, node.args, node.dtype, replace(node.attr, buffer=names[node.attr.buffer]))
            if node.op == LOAD
            else node
        )

    values = rewrite(kernel.roots(), change)
    return replace(
        kernel,
        stores=tuple(
            Store(names[s.buffer], s.index, v) for s, v in zip(kernel.stores, values, strict=True)
        ),
    )


CASE = kernels.transposed(40, 50)
TRIED = tiles_to_try(Plan(simplify(CASE.kernel)))


@pytest.fixture(autouse=True)
def _own_cache(cache_dir):
    """Nothing is remembered from other tests."""


def test_the_fastest_is_chosen_and_remembered():
    device = Pretended({2: 0.5, 3: 0.7})
    assert Tuner(device).tune(program_of(CASE)) == {0: TRIED[2]}
    assert len(device.compiled) == len(TRIED) and device.held == 0
    again = Pretended({1: 0.1})
    assert Tuner(again).tune(program_of(CASE)) == {0: TRIED[2]} and again.compiled == []
    other = Pretended({1: 0.1}, identity="another device")
    assert Tuner(other).tune(program_of(CASE)) == {0: TRIED[1]}


def test_the_table_stays_where_nothing_is_clearly_better():
    assert Tuner(Pretended({3: 0.99})).tune(program_of(CASE)) == {
        0: choose_tiles(Plan(simplify(CASE.kernel)))
    }


def test_equal_kernels_are_measured_once():
    device = Pretended({1: 0.5})
    assert Tuner(device).tune(program_of(CASE, CASE, kernels.softmax(), CASE)) == {
        0: TRIED[1], 1: TRIED[1], 2: choose_tiles(Plan(simplify(kernels.softmax().kernel))), 3: TRIED[1],
    }  # fmt: skip
    assert len(device.launched) == len(set(device.compiled)) == len(device.compiled)


def test_what_does_not_compile_or_launch_is_out():
    device = Pretended({0: 0.2, 1: 0.1, 2: None, 3: 0.6, 4: 0.5}, broken=(0, 1))
    assert Tuner(device).tune(program_of(CASE)) == {0: TRIED[4]}


def test_without_a_result_the_table_stays_and_nothing_is_remembered():
    for useless in (
        Pretended(broken=range(99)),
        Pretended(dict.fromkeys(range(99))),
        Pretended(small=True),
    ):
        assert Tuner(useless).tune(program_of(CASE)) == {} and useless.held == 0
    assert Tuner(Pretended({1: 0.5})).tune(program_of(CASE)) == {0: TRIED[1]}


@pytest.mark.parametrize(
    "case",
    [kernels.computed(), kernels.symbolic(3, 40)],
    ids=["computed places", "sizes that vary"],
)
def test_kernels_that_cannot_run_by_themselves_are_left(case):
    device = Pretended()
    assert Tuner(device).tune(program_of(case)) == {} and device.compiled == []


def test_memory_reaches_as_far_as_the_kernel():
    device = Pretended()
    Tuner(device).tune(program_of(kernels.masked()))
    _, _, (given, written) = device.launched[0]
    assert given.numel() >= 30 and written.numel() == 54


def count_of(case):
    """How many kernels are compiled before the product's first one: for the reader's tiles, and the
    reader once more."""
    (found,) = products.found(case)
    return len(tiles_to_try(Plan(products.program(case).steps[found.kernel])))


def copied(case):
    program = products.program(case)
    return replace(program, steps=list(program.steps), buffers=dict(program.buffers))


PRODUCT = products.JOINED["a row and a column"]


def test_a_product_that_is_faster_takes_the_calls_place():
    program, first = copied(PRODUCT), count_of(PRODUCT)
    tried = blocks_to_try(products.found(PRODUCT)[0].product)
    assert Tuner(Pretended({first + 2: 0.25})).tune(program) == {
        0: tried[1]
    }  # the reader as it was, then blocks
    (step,) = program.steps
    assert isinstance(step, Product)
    later = copied(PRODUCT)
    assert Tuner(Pretended()).tune(later) == {0: tried[1]} and isinstance(later.steps[0], Product)


def test_a_product_that_is_no_faster_stays_a_call():
    program = copied(PRODUCT)
    chosen = Tuner(Pretended(product=2.0)).tune(program)
    assert [type(step) for step in program.steps] == [Call, Kernel] and not isinstance(
        chosen[1], Blocks
    )


def test_positions_are_those_of_the_program_afterwards():
    case = products.Case(lambda x, w: (((x + 1) @ w) * 3).exp() @ w, ((20, 20), (20, 20)))
    program = copied(case)
    assert [type(step) for step in program.steps] == [Kernel, Call, Kernel, Call]
    chosen = Tuner(Pretended(product=0.1)).tune(program)
    assert [type(step) for step in program.steps] == [Kernel, Product, Call]
    assert [type(choice) for choice in chosen.values()] == [Tiles, Blocks] and [*chosen] == [0, 1]
