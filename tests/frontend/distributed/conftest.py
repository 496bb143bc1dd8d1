"""Two processes for the tests here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="module")
def ranks():
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    file = Path(__file__).with_name("ranks.py")
    spec = importlib.util.spec_from_file_location("two_ranks", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.Ranks()
    yield made
    made.stop()
