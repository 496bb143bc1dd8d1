"""Symbolic sizes in kernels."""

import warnings

import framejit
import sympy
import torch
from framejit.backends.native.lower.sizes import Sizes
from framejit.errors import FramejitWarning
from torch.nn.functional import interpolate, scaled_dot_product_attention
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod


def test_a_quotient_of_sizes_that_is_1_is_broadcast():
    def attend(queries, keys, mask):
        mask = mask.repeat_interleave(2, dim=0).view(keys.size(0), 2, -1, keys.shape[-2])
        return scaled_dot_product_attention(queries, keys, keys, mask)

    compiled = framejit.compile(attend, backend="native")
    for batch, length in ((2, 8), (3, 11), (4, 9)):
        queries, keys = torch.randn(batch, 2, 32, 8), torch.randn(batch, 2, length, 8)
        mask = torch.randn(batch, 1, length)
        torch.testing.assert_close(compiled(queries, keys, mask), attend(queries, keys, mask))
    assert compiled.framejit.compiles == 2


def test_a_size_that_is_a_rounded_fraction_of_a_size():
    def scaled(image):
        return interpolate(image, scale_factor=(2.3, 1.7), recompute_scale_factor=True) + 1

    def of_an_input_of_that_name(math):
        return interpolate(math, scale_factor=2.3, recompute_scale_factor=True) + 1

    for f in (scaled, of_an_input_of_that_name):
        compiled = framejit.compile(f, backend="native")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FramejitWarning)
            for width in (8, 9, 11, 12):
                image = torch.randn(2, 3, width, width + 2)
                torch.testing.assert_close(compiled(image), f(image))
        assert not caught and compiled.framejit.compiles == 2


def test_quotients_and_remainders_of_sizes_are_computed_in_kernels():
    size, by = sympy.Symbol("s0", integer=True, positive=True), sympy.Integer(4)
    for rounded in (FloorDiv, CleanDiv, PythonMod, Mod):
        sizes = Sizes()
        sizes.expression(rounded(size, by))
        assert list(sizes.hidden) == ["s0"], rounded
