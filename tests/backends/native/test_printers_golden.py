"""The text of kernels, one of each kind, compared with files in golden/. Run this file with
`pytest --update-golden` to write them again, and review the difference."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.printers.c.kernel import print_c
from framejit.backends.native.printers.products import print_product
from framejit.backends.native.printers.triton.kernel import print_triton

from . import kernels, products

TRITON = {
    "pointwise": (kernels.masked(), None),
    "tile_with_two_sides": (kernels.transposed(40, 50), None),
    "persistent_reduction": (kernels.softmax(), None),
    "looped_reduction": (kernels.softmax(), kernels.LOOPED),
    "row_in_place": (kernels.running_mean(), None),
    "symbolic_reduction": (kernels.symbolic(3, 40), None),
    "lookup": (kernels.computed(), None),
    "negative_numerators": (kernels.windowed(), None),
}
C = {
    "pointwise": kernels.masked(), "transposed": kernels.transposed(40, 50), "tiles": kernels.transposed(64, 70),
    "reduction": kernels.softmax(),
    "symbolic_reduction": kernels.symbolic(3, 40), "symbolic_pointwise": kernels.grown(9), "lookup": kernels.computed(),
    "scatter": kernels.scattered_rows(), "function_of_short_rows": kernels.waves(20),
}  # fmt: skip


@pytest.fixture
def exact_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("name", TRITON)
def test_triton(name, golden):
    case, tiles = TRITON[name]
    golden(
        f"triton/{name}.txt",
        print_triton(simplify(case.kernel), case.buffers, tiles).annotated_text,
    )


def test_triton_product(golden, exact_products):
    case = products.JOINED["gelu of a linear"]
    (found,) = products.found(case)
    golden(
        "triton/product.txt",
        print_product(
            found.product, products.program(case).buffers, products.BLOCKS
        ).annotated_text,
    )


@pytest.mark.parametrize("name", C)
def test_c(name, golden):
    text, _ = print_c(simplify(C[name].kernel), C[name].buffers, 4)
    golden(f"c/{name}.txt", text)


def test_a_difference_is_shown(golden, request):
    if not request.config.getoption("--update-golden"):
        with pytest.raises(AssertionError, match="--update-golden"):
            golden("triton/pointwise.txt", "other text")
