"""Names of a graph's inputs say nothing about what it writes, nor which operators it calls."""

import framejit
import pytest
import torch


class Named(torch.nn.Module):
    def __init__(self, name, part):
        super().__init__()
        self.name = name
        self.add_module(name, part)

    def forward(self, x):
        return getattr(self, self.name)(x.sin()).relu()


PARTS = {
    "batch_norm": lambda: torch.nn.BatchNorm1d(4),
    "instance_norm": lambda: torch.nn.InstanceNorm1d(4, affine=True),
    "my_batch_norm_of_a_linear": lambda: torch.nn.Linear(4, 4),
    "add_": lambda: torch.nn.Linear(4, 4),
    "iadd": lambda: torch.nn.Linear(4, 4),
    "setitem": lambda: torch.nn.PReLU(),
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", PARTS)
def test_parameters_named_like_operators(name, training):
    torch.manual_seed(0)
    module, x = Named(name, PARTS[name]()).train(training), torch.randn(3, 4)
    if name == "instance_norm":
        x = torch.randn(2, 4, 5)
    runs = []
    for function in (module.forward, framejit.compile(module.forward, backend="native")):
        module.zero_grad()
        result = function(x)
        result.square().sum().backward()
        runs.append((result, *(parameter.grad for parameter in module.parameters())))
    for wanted, found in zip(*runs, strict=True):
        torch.testing.assert_close(found, wanted)
    assert function.framejit.compiles == 1 and len(function.framejit.explain().graphs) == 1
