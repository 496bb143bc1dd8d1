"""Entries on disk with collectives: processes that start again use them where the groups have the
same ranks and names."""

from __future__ import annotations

import pytest

STORED = ("in_place", "functional", "over_a_mesh")
KNOWN, ANEW = [True, 0, 1], [True, 1, 0]  # equal to eager, captured, taken from disk


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_processes_that_start_again(restarted, backend):
    together, alone = True, False
    for groups, wanted in ((together, ANEW), (together, KNOWN), (alone, ANEW), (alone, KNOWN)):
        for found in restarted("stored_entries.run", groups, backend):
            assert [found[name] for name in STORED] == [wanted] * len(STORED)
            assert found["by_name"] == ANEW  # a name may be another group's


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_distributed_tensors(restarted, backend):
    together, alone = True, False
    for groups, wanted in ((together, ANEW), (together, KNOWN), (alone, ANEW), (alone, KNOWN)):
        for found in restarted("stored_entries.run_sharded", groups, backend):
            assert len(found) == 3 and all(outcome == wanted for outcome in found.values()), found
