"""Modules compiled in place."""

from collections import OrderedDict

import framejit
import pytest
import torch


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_copy_by_the_dictionary_has_its_own_parameters(backend):
    """As libraries for meta-learning make them. The copy has the slot of the original."""
    module = torch.nn.Linear(3, 3)
    framejit.compile(module, backend=backend)
    x = torch.randn(2, 3)
    expected = module(x)
    copied = torch.nn.Linear.__new__(torch.nn.Linear)
    copied.__dict__ = {
        **module.__dict__,
        "_parameters": {name: value.detach() * 2 for name, value in module._parameters.items()},
        "_forward_hooks": OrderedDict(),
    }
    torch.testing.assert_close(copied(x), expected * 2)
    torch.testing.assert_close(torch.nn.Sequential(copied)(x), expected * 2)
    copied.register_forward_hook(lambda module, args, result: result * 5)
    torch.testing.assert_close(copied(x), expected * 10)
    torch.testing.assert_close(module(x), expected)
    del module
    torch.testing.assert_close(copied(x), expected * 10)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torch_jit_trace_records_an_equal_graph_each_time():
    """It compares the graphs of two calls; operators that no result needs change the names."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    handle = framejit.compile(module, backend="eager")
    x = torch.ones(1, 2)
    traced = torch.jit.trace(handle, x)
    assert torch.equal(traced(x), handle(x))
