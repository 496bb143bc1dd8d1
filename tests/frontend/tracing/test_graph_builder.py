"""Names of inputs, and classes that stand for dtypes."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F


def of_self(self):
    return self * 2


def of_operator(sin, other):
    return sin.sin() + other


@pytest.mark.parametrize(("function", "count"), [(of_self, 1), (of_operator, 2)])
def test_inputs_named_like_what_generated_code_uses(function, count):
    """The graph's forward has a parameter `self` of its own; its nodes are named like operators."""
    graphs = []

    def keep(gm, examples):
        graphs.append(gm)
        return gm.forward

    args = [torch.randn(3) for _ in range(count)]
    torch.testing.assert_close(framejit.compile(function, backend=keep)(*args), function(*args))
    torch.testing.assert_close(graphs[0](*args)[0], function(*args))


CLASSES_AS_DTYPES = {
    "to": lambda x, cls: x.to(cls),
    "to a device": lambda x, cls: x.to("cpu", cls),
    "sum": lambda x, cls: x.sum(dtype=cls),
    "zeros": lambda x, cls: torch.zeros(2, dtype=cls),
    "full": lambda x, cls: torch.full((2,), 1, dtype=cls),
    "like": lambda x, cls: torch.ones_like(x, dtype=cls),
    "new": lambda x, cls: x.new_zeros(2, dtype=cls),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("cls", [bool, int, float, complex])
def test_classes_as_dtypes(backend, cls):
    x = torch.tensor([1.0, 2.0])
    for name, function in CLASSES_AS_DTYPES.items():
        found = framejit.compile(function, backend=backend, fullgraph=True)(x, cls)
        expected = function(x, cls)
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist()), name


def test_a_class_that_is_no_dtype_there_raises_as_in_eager():
    with pytest.raises(ValueError, match="invalid type: 'int'"):
        framejit.compile(lambda x: x.type(int), backend="eager")(torch.ones(2))


FLAGS = {
    "is_causal": lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=q.shape[2] > 1),
    "keepdim": lambda q: q.sum(0, keepdim=q.shape[2] > 1),
    "training": lambda q: F.dropout(q, 0.0, training=not q.shape[2] > 30),
    "a factor": lambda q: q * (q.shape[2] > 1),
    "a tensor": lambda q: q + torch.tensor(q.shape[2] > 1),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_bool_of_varying_sizes_is_decided_and_guarded(flag):
    """torch's operators take no symbolic bools."""
    function = FLAGS[flag]
    compiled = framejit.compile(function, backend="eager")
    for length in (4, 6, 9):
        q = torch.randn(2, 2, length, 4)
        torch.testing.assert_close(compiled(q), function(q))
    assert compiled.framejit.compiles == 2 and not compiled.framejit.explain().breaks
    q = torch.randn(2, 2, 1, 4)
    torch.testing.assert_close(compiled(q), function(q))
