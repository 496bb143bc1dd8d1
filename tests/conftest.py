"""Every test runs strict: what would be a warning and a fall-back to eager in production raises here. Nothing is remembered
from one test to the next."""
from __future__ import annotations

import pytest
from framejit.options import config, strict


@pytest.fixture(autouse=True)
def _strict():
    with strict():
        yield


@pytest.fixture(autouse=True)
def _own_cache_dir(tmp_path_factory):
    with config.patch(cache_dir=tmp_path_factory.getbasetemp() / "framejit_cache", progress=False):
        yield


@pytest.fixture
def cache_dir(tmp_path):
    """An empty one."""
    with config.patch(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"
