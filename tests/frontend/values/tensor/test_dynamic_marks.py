"""Marks on dimensions: recorded, checked, and harmless."""

import framejit
import pytest
import torch
from framejit.frontend.values.tensor.dynamic_marks import Mark, marks_of


def test_marks_are_kept_by_dimension():
    x = torch.ones(4, 5, 6)
    framejit.mark_dynamic(x, 0, min=2, max=8)
    framejit.maybe_mark_dynamic(x, (1,))
    framejit.mark_static(x, -1)
    assert marks_of(x) == {0: Mark("dynamic", 2, 8), 1: Mark("maybe"), 2: Mark("static")}
    framejit.mark_static(x)
    assert marks_of(x) == dict.fromkeys(range(3), Mark("static"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: framejit.mark_dynamic(x, 7), IndexError, "dimension 7 is out of range"),
        (lambda x: framejit.mark_dynamic([1], 0), TypeError, "takes a tensor, not a list"),
        (lambda x: framejit.mark_dynamic(x, 0, min=5, max=2), ValueError, "min .5. is greater"),
        (lambda x: framejit.mark_dynamic(x, 0, min=5), ValueError, "size 4, outside"),
    ],
)
def test_a_contradiction_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(4))


def test_a_marked_tensor_compiles():
    x = torch.randn(4)
    framejit.mark_dynamic(x, 0)
    assert torch.equal(framejit.compile(lambda x: x * 2)(x), x * 2)
