"""Entries as bytes."""

from __future__ import annotations

import torch
from framejit.frontend.runtime.stored.entry_pickle import EntryUnpickler, ProgramObjects, pickle_of


def test_the_text_of_a_graph_is_written_once():
    """Python makes `gm.forward` anew each time that it is read."""
    graph = torch.fx.Graph()
    graph.output(graph.call_method("sin", (graph.placeholder("x"),)))
    gm = torch.fx.GraphModule({}, graph)
    objects = ProgramObjects()
    data = pickle_of([gm.forward, gm.forward], {}, objects)
    found = [description.find(None) for description in objects.descriptions]
    first, second = EntryUnpickler(data, {}, found).load()
    assert first is second and data.count(b"def forward") == 1
    assert torch.equal(first(torch.ones(2)), torch.ones(2).sin())
