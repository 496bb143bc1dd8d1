"""Values that no input decides are eager's to the last bit."""

import math

import framejit
import pytest
import torch


def frequencies_by_exp(count):
    return torch.exp(-math.log(10000) * torch.arange(count, dtype=torch.float32) / count)


def frequencies_by_pow(count):
    return 10000 ** -(torch.arange(count, dtype=torch.float32) / count)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("frequencies", [frequencies_by_exp, frequencies_by_pow])
def test_sines_of_large_multiples_of_frequencies(frequencies, dynamic):
    def encode(times):
        angles = times[:, None] * frequencies(128)
        return torch.cat([angles.sin(), angles.cos()], -1)

    compiled = framejit.compile(encode, backend="native", dynamic=dynamic)
    times = torch.tensor([3000.0, 7000.0, 9000.0])
    torch.testing.assert_close(compiled(times), encode(times), rtol=0, atol=3e-7)


def test_random_numbers_are_not_fixed():
    def noise(x):
        return x - torch.rand(4).log()

    compiled = framejit.compile(noise, backend="native")
    x = torch.ones(4)
    assert not torch.equal(compiled(x), compiled(x))
