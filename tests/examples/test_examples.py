"""The examples run, say what they should, and fail where a result differs from eager's."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
import torch
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
    assert (
        "graph breaks     │ 0" in printed
        and "equal to eager   │ yes, to within" in printed
        and "runs on          │" in printed
    )
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
    losses = itertools.chain((1.0, 1.1), itertools.repeat(1.0))
    monkeypatch.setattr(module.Training, "step", lambda self, *batch: (next(losses), 0.1))
    assert module.main() == 1


def test_dynamic_shapes(monkeypatch, capsys):
    module = run("dynamic_shapes", monkeypatch)
    monkeypatch.setattr(module, "LENGTHS", (7, 12, 5))
    assert module.main() == 0
    rows = [
        line.split("│")[2].strip()
        for line in capsys.readouterr().out.splitlines()
        if "│ yes" in line
    ]
    assert rows == ["2", "1", "3", "3"]


def test_graph_breaks(monkeypatch, capsys):
    assert run("graph_breaks", monkeypatch).main() == 0
    told = capsys.readouterr().out
    assert "3 graphs" in told and "4 breaks" in told and "1 graph, 8 ops, 0 breaks" in told


def test_custom_backend(monkeypatch, capsys, register):
    assert run("custom_backend", monkeypatch).main() == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "2 operations that do nothing were dropped" in told
        and "def forward(self, x): sin = x.sin()" in told
    )


def test_decode_loop(monkeypatch, capsys):
    assert run("decode_loop", monkeypatch, "--tokens", "8").main() == 0
    told = capsys.readouterr().out
    assert "1 compile(s)" in told and "the tokens are equal" in told
    assert torch.cuda.is_available() or "no CUDA device is usable here" in told


def test_hf_generate(monkeypatch, capsys):
    assert run("hf_generate", monkeypatch, "--tokens", "5").main() == 0
    told = capsys.readouterr().out
    assert "2 compiles, 0 graph breaks" in told and "the tokens are equal" in told


def test_nested_tensor(monkeypatch, capsys, recwarn):
    assert run("nested_tensor", monkeypatch, "--units", "2", "--seconds", "0").main() == 0
    told = capsys.readouterr().out
    assert "equal to the sequences one by one" in told
    assert "2 graphs for 3 batches, 0 breaks" in told and "nested, compiled" in told
    assert not [warning for warning in recwarn if "raised" in str(warning.message)]


def test_nested_tensor_fails_on_a_wrong_gradient(monkeypatch):
    module = run("nested_tensor", monkeypatch, "--units", "1", "--seconds", "0")
    right = module.one_by_one
    monkeypatch.setattr(
        module, "one_by_one", lambda *given: tuple(value * 1.01 for value in right(*given))
    )
    assert module.main() == 1


def test_every_example_is_run_here():
    tested = Path(__file__).read_text()
    assert [path.stem for path in EXAMPLES.glob("*.py") if f'run("{path.stem}"' not in tested] == []
