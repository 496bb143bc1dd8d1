"""Twenty planted breaks of different kinds in a program of 500 lines: all are found, at their
lines, and nothing else."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from framejit.frontend.observation import Observation
from framejit.options import config

from . import planted


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("planted") / "planted_program.py"
    path.write_text(planted.text())
    spec = importlib.util.spec_from_file_location("planted_program", path)
    return path, spec, importlib.util.module_from_spec(spec)


def test_all_are_found(program):
    path, spec, module = program
    observation = Observation()
    at_values = {"capture_scalar_outputs": False, "capture_dynamic_output_shape_ops": False}
    with config.patch(**at_values), observation:
        spec.loader.exec_module(module)
        result = module.main(3)
    report = observation.report("planted")
    assert len(path.read_text().splitlines()) > 500
    assert [(one.place, one.id) for one in report.breaks] == [
        (f"{path}:{line}", id_) for line, id_ in planted.places()
    ]
    assert len({one.id for one in report.breaks}) >= 10
    lines = path.read_text().splitlines()
    for one, plant in zip(report.breaks, planted.PLANTS, strict=True):
        assert one.passes in (3, 6) and one.lost is not None and one.work is not None
        name, _, line = one.place.rpartition(":")
        assert lines[int(line) - 1].strip() == plant.statement
        if one.where == one.place:
            assert (
                one.caret.strip("^ ") == ""
                and one.source[one.caret.index("^") : len(one.caret)] in plant.statement
            )
    namespace = {"__name__": "without"}
    exec(
        compile(
            planted.text(planted=False).replace("planted::", "unplanted::"), "without.py", "exec"
        ),
        namespace,
    )
    assert torch.equal(result, namespace["main"](3))
