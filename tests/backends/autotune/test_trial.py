"""The inputs of a trial."""

from __future__ import annotations

import torch
from framejit.backends.autotune.trial import Trial


def test_bytes_count_a_stretch_once():
    base = torch.ones(16)
    assert Trial(None, [base, base[:4], base[8:], torch.ones(4)]).bytes() == 80
