"""Two processes for the tests here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def new_ranks():
    """Makes two processes, with some variables of their environment."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    file = Path(__file__).with_name("ranks.py")
    spec = importlib.util.spec_from_file_location("two_ranks", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.RankServer() as server:
        yield lambda **environment: module.Ranks(server, environment)


@pytest.fixture(scope="module")
def ranks(new_ranks):
    made = new_ranks()
    yield made
    made.stop()


@pytest.fixture
def restarted(new_ranks, tmp_path):
    """Runs a job in two new processes, which store entries in a folder of this test."""

    def run(job, *args):
        made = new_ranks(FRAMEJIT_CACHE_DIR=str(tmp_path / "cache"))
        try:
            return made.run(job, *args)
        finally:
            made.stop()

    return run
