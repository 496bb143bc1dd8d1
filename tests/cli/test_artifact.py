"""`framejit artifact show`."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.__main__ import main
from framejit.frontend.runtime.stored import artifact_file


@pytest.fixture
def path(tmp_path, cache_dir):
    compiled = framejit.compile(lambda x: x + 1, backend="native", options={"store": True})
    compiled(torch.ones(3))
    framejit.save(compiled, tmp_path / "file")
    return str(tmp_path / "file")


def test_it_tells_what_a_file_needs(path, capsys):
    assert main(["artifact", "show", path]) == 0
    shown = capsys.readouterr().out
    assert f"torch: {torch.__version__}" in shown and "kernels: 1 compiled libraries" in shown
    assert "path.<locals>.<lambda>" in shown and shown.endswith("can be used here\n")


def test_it_tells_why_a_file_cannot_be_used(path, capsys, monkeypatch):
    monkeypatch.setattr(artifact_file, "machine", lambda: "another one")
    assert main(["artifact", "show", path]) == 1
    assert "cannot be used here: " in capsys.readouterr().out


def test_a_file_that_is_none(tmp_path, capsys):
    (tmp_path / "file").write_text("nothing")
    assert main(["artifact", "show", str(tmp_path / "file")]) == 1
    assert "is no artifact of framejit" in capsys.readouterr().err
