"""A compile may import modules or count something, and so change what the program reads."""

import importlib
import sys

import framejit
import torch
from framejit.frontend.runtime import cache

REGISTRY = {"tuple": 1}
COUNTED = {"compiles": 0}


def scale(x):
    return x * sum(REGISTRY.values())


def test_a_call_is_captured_again_if_an_import_changed_what_it_reads(tmp_path, monkeypatch):
    (tmp_path / "late_registration.py").write_text(
        f"import sys\nsys.modules[{__name__!r}].REGISTRY['late'] = 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def backend(graph, inputs):
        importlib.import_module("late_registration")
        return graph.forward

    compiled = framejit.compile(scale, backend=backend)
    try:
        with framejit.config.patch(strict=True):
            for _ in range(2):
                assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    finally:
        sys.modules.pop("late_registration", None)


def test_a_number_that_each_compile_changes_is_not_compiled_for(monkeypatch):
    monkeypatch.setitem(COUNTED, "compiles", 3)

    def backend(graph, inputs):
        COUNTED["compiles"] += 1
        return graph.forward

    def look_up(x):
        y = x.sin()
        return y * {COUNTED["compiles"]: 2.0}[COUNTED["compiles"]]

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(look_up, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin() * 2)
    assert compiled.framejit.compiles == 3


def test_the_guards_of_a_new_entry_are_checked_once(monkeypatch):
    checked = []

    def failure(entry, call):
        checked.append(entry)
        return guard_failure(entry, call)

    guard_failure = cache.guard_failure
    monkeypatch.setattr(cache, "guard_failure", failure)
    compiled = framejit.compile(lambda x: x.sin(), backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())
    assert len(checked) == compiled.framejit.compiles == 1
