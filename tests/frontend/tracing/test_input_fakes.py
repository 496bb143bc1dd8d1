"""Inputs whose sizes vary, on one memory."""

from __future__ import annotations

import framejit
import pytest
import torch


def parts_of_one_buffer(length):
    """Two tensors as a compiled graph returns the halves of a buffer: to autograd they are no
    views."""
    memory = torch.randn(length * 16).untyped_storage()
    return [
        torch.empty(0).set_(memory, offset, (length, 8), (16, 1))  # type: ignore[call-overload]
        for offset in (0, 8)
    ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_two_parts_of_a_buffer(backend):
    def grow(k, v):
        k.mul_(2)
        return torch.cat([k, k]), torch.cat([v, v])

    compiled = framejit.compile(grow, backend=backend)
    for length in (4, 5, 6):
        torch.manual_seed(0)
        found = compiled(*parts_of_one_buffer(length))
        torch.manual_seed(0)
        torch.testing.assert_close(found, grow(*parts_of_one_buffer(length)))
    assert compiled.framejit.compiles == 2 and not compiled.framejit.explain().breaks
    memory = torch.arange(48.0)
    overlapping = [memory.detach().as_strided((4, 8), (8, 1), offset) for offset in (0, 4)]
    expected = [memory.clone().as_strided((4, 8), (8, 1), offset) for offset in (0, 4)]
    torch.testing.assert_close(compiled(*overlapping)[0], grow(*expected)[0])
