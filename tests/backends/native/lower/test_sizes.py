"""Symbolic sizes in kernels."""

import framejit
import torch
from torch.nn.functional import scaled_dot_product_attention


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
