"""`framejit tune`, in a process of its own."""

import os
import subprocess
import sys

import framejit
import pytest
import torch


def tune(folder, *args):
    command = [sys.executable, "-m", "framejit", "tune", *args]
    environment = os.environ | {"FRAMEJIT_CACHE_DIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def test_decisions_are_shown_and_forgotten(cache_dir, register):
    register("tune_shown", lambda gm, inputs: gm.forward)
    framejit.compile(
        lambda x: (x @ x).sin().sum(0), backend="autotune", options={"candidates": ["tune_shown"]}
    )(torch.randn(32, 32))
    shown = tune(cache_dir, "--show")
    assert (
        shown.returncode == 0
        and "tune_shown" in shown.stdout
        and "float32[32x32]" in shown.stdout
        and "1 decisions" in shown.stdout
    )
    assert "1 decisions forgotten" in tune(cache_dir, "--clear").stdout
    assert "0 decisions" in tune(cache_dir, "--show").stdout


def test_a_file_that_is_none(cache_dir):
    cache_dir.mkdir()
    (cache_dir / "decisions.sqlite").write_text(
        "this is no database, and long enough to be one" * 100
    )
    shown = tune(cache_dir, "--show")
    assert shown.returncode == 1 and "decisions.sqlite" in shown.stderr
    with pytest.warns(UserWarning, match="decisions cannot be kept"):
        compiled = framejit.compile(
            lambda x: (x @ x).sin().sum(0),
            backend="autotune",
            options={"candidates": ["aot_eager"]},
        )
        compiled(torch.randn(32, 32))


def test_what_is_no_command():
    asked = subprocess.run(
        [sys.executable, "-m", "framejit", "nonsense"], capture_output=True, text=True, timeout=120
    )
    assert asked.returncode == 2 and "tune" in asked.stderr
