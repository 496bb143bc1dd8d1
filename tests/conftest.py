"""Every test runs strict: what would be a warning and a fall-back to eager in production raises here."""
from __future__ import annotations

import pytest
from framejit.options import strict


@pytest.fixture(autouse=True)
def _strict():
    with strict():
        yield
