"""Which backends are tried, and in what order: the budget may end before the last."""

import pytest
import torch
from framejit.backends.autotune import candidates
from framejit.backends.autotune.plan import TuningPlan


def graph(grad):
    """Ten operations on a tensor, which is said to be on a CUDA device."""
    made = torch.fx.Graph()
    node = made.placeholder("x")
    node.meta["example_value"] = torch.empty(4, requires_grad=grad)
    for _ in range(10):
        node = made.call_function(torch.sin, (node,))
        node.meta["example_value"] = torch.empty(4, requires_grad=grad)
    made.output((node,))
    return torch.fx.GraphModule({}, made)


@pytest.mark.parametrize(("grad", "order"), [
    (False, ["cudagraphs", "native+cudagraphs", "native"]),  # what compiles soonest
    (True, ["native+cudagraphs", "cudagraphs", "native"]),  # what is likely to win: the others would take as long
])  # fmt: skip
def test_order_on_a_device(monkeypatch, grad, order):
    monkeypatch.setattr(candidates, "device_types", lambda gm: {"cuda"})
    monkeypatch.setattr(candidates, "reason_not_recordable", lambda gm: "")
    monkeypatch.setattr(candidates, "reason_to_refuse", lambda backend, gm: "")
    with torch.set_grad_enabled(grad):
        assert [
            backend.name for backend in candidates.choice(graph(grad), TuningPlan()).backends
        ] == order
        plan = TuningPlan(mode="max-autotune-no-cudagraphs")
        assert candidates.choice(graph(grad), plan).backends[0].name == "native"
