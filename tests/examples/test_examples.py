"""The examples run, say what they should, and fail where a result differs from eager's."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from framejit.options import Options, config

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _as_users_run_them():
    """With the backend that framejit chooses where nobody says which."""
    with config.patch(backend=Options().backend):
        yield


def run(name, monkeypatch, *arguments):
    """Runs an example's main() in this process, with a module made from its file."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return module


def test_quickstart(monkeypatch, capsys):
    assert run("quickstart", monkeypatch, "--seconds", "0.1").main() == 0
    printed = capsys.readouterr().out
    assert "graph breaks     │ 0" in printed and "equal to eager   │ yes, to within" in printed and "runs on          │" in printed
    assert "3 graphs, " in printed and "2 breaks" in printed and "if largest > 1:" in printed


def test_quickstart_fails_on_a_wrong_result(monkeypatch, capsys):
    module = run("quickstart", monkeypatch, "--seconds", "0.1")
    monkeypatch.setattr(module, "show_model", lambda budget: False)
    assert module.main() == 1


def test_train(monkeypatch, capsys):
    assert run("train", monkeypatch, "--steps", "3").main() == 0
    assert "the losses are equal" in capsys.readouterr().out


def test_train_fails_on_a_wrong_loss(monkeypatch, capsys):
    module = run("train", monkeypatch, "--steps", "1")
    losses = iter((1.0, 1.1))
    monkeypatch.setattr(module.Training, "step", lambda self, *batch: (next(losses), 0.0))
    assert module.main() == 1
