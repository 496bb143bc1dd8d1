"""FRAMEJIT_LOG: which names exist, and what each logs."""

from __future__ import annotations

import logging

import framejit
import pytest
import torch
from framejit import events
from framejit.frontend.explain.log import LINES
from framejit.options import LOGS, Config, config

X = torch.arange(3.0)


def step(x, scale):
    y = x.sin() * scale
    print("a break")
    return y + 1


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, "framejit")

    def run(name):
        caplog.clear()
        with config.patch(log=name):
            handle = framejit.compile(
                step, backend="autotune", options={"candidates": ["aot_eager"]}
            )
            handle(X, 2.0)
            handle(X.double(), 2.0)
        assert {record.name for record in caplog.records} <= {
            f"framejit.{one}" for one in name.split(",")
        }
        return caplog.text

    return run


@pytest.mark.parametrize(
    "name, told",
    [
        ("breaks", "print() writes output [output]\n    hint: move it out"),
        (
            "recompiles",
            "nothing compiled serves this call\n    x.dtype is torch.float64, was torch.float32 when compiled",
        ),
        ("guards", "is_tensor(x, Tensor float32[3] on cpu, strides=[1])"),
        ("graphs", "2 ops\ndef forward(self, "),
        ("tune", "runs on eager"),
        ("breaks,tune", "[output]"),
    ],
)
def test_what_a_name_tells(name, told, logged):
    assert told in logged(name)


def test_nothing_is_logged_unasked(caplog):
    caplog.set_level(logging.INFO, "framejit")
    framejit.compile(step)(X, 2.0)
    assert caplog.text == ""


def test_every_name_has_lines_for_records_that_exist():
    assert tuple(LINES) == LOGS
    assert all(issubclass(kind, events.Event) for lines in LINES.values() for kind in lines)


def test_names_are_checked(monkeypatch):
    monkeypatch.setenv("FRAMEJIT_LOG", "guards, tune")
    assert Config().log == ("guards", "tune")
    monkeypatch.setenv("FRAMEJIT_LOG", "all")
    assert Config().log == LOGS
    monkeypatch.setenv("FRAMEJIT_LOG", "breaks,brakes")
    with pytest.raises(
        ValueError,
        match="FRAMEJIT_LOG: unknown names 'brakes'; allowed are breaks, recompiles, guards, graphs",
    ):
        Config()
    with pytest.raises(ValueError, match="config.log: unknown names 'x'"), config.patch(log="x"):
        pass


def test_a_program_without_logging_sees_it_on_stderr(monkeypatch, capsys):
    root = logging.getLogger("framejit")
    monkeypatch.setattr(root, "propagate", False)
    monkeypatch.setattr(root, "handlers", [])
    with config.patch(log="breaks"):
        framejit.compile(step)(X, 2.0)
    assert capsys.readouterr().err.startswith(
        f"[framejit.breaks] step at {__file__}:{step.__code__.co_firstlineno + 2}: print() writes"
    )
