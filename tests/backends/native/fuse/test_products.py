"""Matrix products that become one kernel with the operators after them: which do, and that they
compute the same."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.native.fuse.products import adopt
from framejit.backends.native.ir.program import Kernel, Product, View, reads, writes
from framejit.backends.native.printers.products import blocks_to_try, precision

from .. import products
from ..evaluate import evaluate


def matrix(view: View, memory: dict[str, torch.Tensor]) -> torch.Tensor:
    size, stride = ([number.value for number in numbers] for numbers in (view.size, view.stride))
    return memory[view.buffer].as_strided(size, stride, view.offset.value).double()


@pytest.mark.parametrize("name", products.JOINED)
def test_means_the_same(name):
    case = products.JOINED[name]
    found = products.found(case)
    assert len(found) == 1
    product, memory = found[0].product, products.memory(case)
    memory[product.result] = (
        (matrix(product.left, memory) @ matrix(product.right, memory)).float().flatten()
    )
    evaluate(product, memory)
    assert products.told_difference(name, case, products.result(case, memory)) is None


@pytest.mark.parametrize("name", products.LEFT)
def test_left_apart(name):
    assert products.found(products.LEFT[name]) == []


def test_only_where_the_printer_is():
    assert [
        *products.find_joinable(products.program(products.JOINED["a number"]))
    ] == []  # this is the CPU


def test_the_program_afterwards():
    program = products.program(
        products.Case(lambda x, w: ((x @ w) * 3).exp() @ w, ((20, 20), (20, 20)))
    )
    (found,) = products.find_joinable(program, ("cpu",))
    left, right = program.inputs
    adopt(program, [found])
    first, second = program.steps
    assert isinstance(first, Product) and not isinstance(second, Kernel)
    assert reads(first) == {left, right} and set(writes(first)) <= reads(second)


def test_blocks_are_no_larger_than_the_product():
    for case in products.JOINED.values():
        product = products.found(case)[0].product
        tried = blocks_to_try(product)
        *_, rows, columns = (variable.size.value for variable in product.outer)
        for blocks in tried:
            assert 16 <= blocks.rows < 2 * max(rows, 16) and 16 <= blocks.columns < 2 * max(
                columns, 16
            )
            assert all(
                side & (side - 1) == 0 for side in (blocks.rows, blocks.columns, blocks.depth)
            )


def test_precision_follows_torchs_setting():
    before = torch.get_float32_matmul_precision()
    try:
        for asked, given in (("highest", "ieee"), ("high", "tf32")):
            torch.set_float32_matmul_precision(asked)
            assert precision(torch.float32) == given and precision(torch.bfloat16) == "ieee"
    finally:
        torch.set_float32_matmul_precision(before)
