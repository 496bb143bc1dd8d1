"""Backends that a test registers."""
from __future__ import annotations

import framejit
import pytest
from framejit.backends import registry


@pytest.fixture
def register():
    """Registers a backend until the test ends."""
    before = set(registry._backends)
    yield framejit.register_backend
    for name in set(registry._backends) - before - set(registry.SHIPPED):
        del registry._backends[name]
