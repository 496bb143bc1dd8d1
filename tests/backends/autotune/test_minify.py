"""Repros of planted faults get small, go on failing in the same way, and run alone."""

from __future__ import annotations

import sys

import framejit
import pytest
import torch
from framejit.__main__ import main
from framejit.backends.autotune.minify import (
    MAIN,
    Minifier,
    NoReproError,
    Repro,
    failure_kind,
    reduce_list,
)

PLANTED = """
import ctypes
import framejit


def uses(gm, name):
    return any(name in str(node.target) and node.op.startswith("call") for node in gm.graph.nodes)


@framejit.register_backend("planted_wrong")
def planted_wrong(gm, example_inputs):
    \"\"\"Adds a little wherever a hyperbolic tangent is followed by anything.\"\"\"
    if not uses(gm, "tanh"):
        return gm.forward
    return lambda *args: tuple(one + 0.1 for one in gm.forward(*args))


@framejit.register_backend("planted_crash")
def planted_crash(gm, example_inputs):
    \"\"\"Ends the process where a cumulative sum is multiplied.\"\"\"
    if not (uses(gm, "cumsum") and uses(gm, "mul")):
        return gm.forward
    return lambda *args: ctypes.string_at(0)
"""


def work(x, y, scale):
    a = x.sin() + y
    first, second = torch.split(a, 4)
    b = (first * second).tanh()
    c = b.cumsum(0) * scale
    d = c @ y.t()
    e = torch.relu(d) - d.mean()
    return e, b + 1, c.sum()


@pytest.fixture
def planted(tmp_path, monkeypatch, cache_dir):
    """Strikes a planted backend out and gives the script that was left."""
    (tmp_path / "framejit_planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "framejit_planted", raising=False)
    __import__("framejit_planted")

    def strike_out(name):
        compiled = framejit.compile(
            work, backend="autotune", options={"candidates": [name], "tune_budget_s": 30.0}
        )
        with torch.no_grad():
            compiled(torch.randn(8, 6), torch.randn(8, 6), torch.randn(6))
        (repro,) = (cache_dir / "struck_out").iterdir()
        return repro

    yield strike_out
    for name in ("planted_wrong", "planted_crash"):
        framejit.backends.registry._backends.pop(name, None)


@pytest.fixture
def alone(torch_server, tmp_path):
    """Runs a script as a user would."""

    def run(script):
        found = f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r})"
        program = f"{found}; runpy.run_path({str(script)!r}, run_name='__main__')"
        return torch_server.run(program, tmp_path)

    return run


def test_a_wrong_result(planted, alone, tmp_path, capsys):
    script = planted("planted_wrong")
    assert main(["minify", str(script.parent), "--out", str(tmp_path / "small")]) == 0
    (small,) = (tmp_path / "small").iterdir()
    repro = Repro.parse(small.read_text())
    assert (
        len(repro.lines) == 1
        and "tanh" in repro.lines[0]
        and len(repro.inputs) == len(repro.outputs) == 1
    )
    assert "it is wrong: result 0" in capsys.readouterr().out
    done = alone(small)
    assert done.returncode == 1 and done.stderr.startswith("is wrong: result 0"), done.stderr


def test_a_crash(planted, alone, tmp_path, capsys):
    script = planted("planted_crash")
    assert main(["minify"]) == 0
    small = script.with_name(script.stem + ".min.py")
    repro = Repro.parse(small.read_text())
    assert len(repro.lines) == 2 and all(
        any(word in line for line in repro.lines) for word in ("cumsum", "*")
    )
    assert "it crashed: SIGSEGV" in capsys.readouterr().out
    assert alone(small).returncode == -11


RIGHT = (
    """
import sys
import torch
backend = "eager"
def forward(self, x):
    y = x + 1; x = None
    return (y,)
inputs = [torch.ones(2)]
"""
    + MAIN
)


def test_what_does_not_fail_is_said(tmp_path, capsys, cache_dir):
    good, none = tmp_path / "good.py", tmp_path / "none.py"
    good.write_text(RIGHT)
    none.write_text("print('no repro')")
    assert main(["minify", str(good)]) == 1 and "does not fail here" in capsys.readouterr().err
    assert (
        main(["minify", str(none)]) == 1 and "has no function `forward`" in capsys.readouterr().err
    )
    assert (
        main(["minify", str(tmp_path / "empty.py")]) == 1
        and "No such file" in capsys.readouterr().err
    )
    assert main(["minify"]) == 1 and "nothing was struck out" in capsys.readouterr().err


def test_an_exception_of_another_kind_is_another_failure():
    kinds = [
        failure_kind(one)
        for one in (
            "is wrong: result 0 is off",
            "is wrong: result 1",
            "fails: TypeError: x",
            "fails: ValueError: x",
            "",
        )
    ]
    assert kinds == ["is wrong", "is wrong", "fails: TypeError", "fails: ValueError", ""]


@pytest.mark.parametrize("needed", [[3], [0, 9], [2, 3, 7], []])
def test_lists_are_reduced_to_what_is_needed(needed):
    assert reduce_list(list(range(10)), lambda kept: set(needed) <= set(kept)) == needed


def test_a_repro_that_does_not_run_in_eager():
    with pytest.raises(NoReproError, match="does not run in eager: eager fails: RuntimeError"):
        Minifier(RIGHT.replace("x + 1", "x.view(7)"), 30, print)
