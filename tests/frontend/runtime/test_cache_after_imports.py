"""A capture may import modules, and these may change what the program reads."""

import importlib
import sys

import framejit
import torch

REGISTRY = {"tuple": 1}


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
