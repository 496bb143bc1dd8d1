"""Entries on disk with collectives, and with distributed tensors: processes that start again use
them where the groups have the same ranks and names."""

from __future__ import annotations

import pytest

KNOWN, ANEW = [True, 0, 1], [True, 1, 0]  # equal to eager, captured, taken from disk


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.sweep(2)
def test_processes_that_start_again(restarted, backend):
    together, alone = True, False
    for groups, wanted in ((together, ANEW), (together, KNOWN), (alone, ANEW), (alone, KNOWN)):
        for found in restarted("stored_entries.run", groups, backend):
            assert found.pop("by_name") == ANEW  # a name may be another group's
            assert len(found) == 6 and all(outcome == wanted for outcome in found.values()), found
