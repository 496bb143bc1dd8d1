"""torch's settings of precision are found, changed for a while, and put back."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.graph.product_precision import (
    SETTER,
    SETTINGS,
    exact_products,
    rounding_settings,
    rounds_convolutions_on_cuda,
    rounds_matrix_products,
)


@pytest.fixture(autouse=True)
def all_exact():
    before = rounding_settings()
    for setting in before:
        SETTER(*setting, "ieee")
    yield
    for setting in SETTINGS:
        SETTER(*setting, before.get(setting, "none"))


@pytest.mark.parametrize(
    ("part", "matrix_products", "convolutions"),
    [
        ("cuda.matmul", True, False),
        ("mkldnn.matmul", True, False),
        ("cudnn.conv", False, True),
        ("cudnn.rnn", False, False),
    ],
)
def test_one_setting(part, matrix_products, convolutions):
    library, kind = part.split(".")
    setting = getattr(getattr(torch.backends, library), kind)
    setting.fp32_precision = "bf16" if library == "mkldnn" else "tf32"
    before = rounding_settings()
    assert len(before) == 1
    assert rounds_matrix_products() == matrix_products
    assert rounds_convolutions_on_cuda() == convolutions
    with pytest.raises(ZeroDivisionError), exact_products():
        assert not rounding_settings() and setting.fp32_precision == "ieee"
        raise ZeroDivisionError
    assert rounding_settings() == before


def test_a_setting_for_all_products_still_holds_for_them_afterwards():
    for setting in SETTINGS:
        SETTER(*setting, "none")
    SETTER("generic", "all", "tf32")
    try:
        assert rounds_matrix_products()
        with exact_products():
            assert not rounding_settings()
        assert rounds_matrix_products()
        SETTER("generic", "all", "ieee")
        assert not rounding_settings()
    finally:
        SETTER("generic", "all", "none")
