"""Decisions on disk, and two processes that tune the same graph at once."""

import os
import subprocess
import sys
import textwrap

import framejit
import pytest
import torch
from framejit.backends.autotune.decisions import Decision, Decisions

PROGRAM = """
import sys, time, torch, framejit
from framejit.events import Chosen

def slow_to_build(gm, inputs):
    time.sleep(0.5)
    return gm.forward

framejit.register_backend("other", slow_to_build)

@framejit.compile(options={"candidates": ["other"], "isolate": False})
def f(x):
    return (x @ x).sin().sum(0)

print("ready", flush=True)
sys.stdin.readline()
x = torch.ones(64, 64)
assert torch.equal(f(x), (x @ x).sin().sum(0))
(choice,) = f.framejit.explain().choices
print(choice.why, choice.backend, choice.timings)
"""


def test_two_processes_at_once_come_to_one_decision(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    environment = os.environ | {
        "FRAMEJIT_CACHE_DIR": str(tmp_path / "cache"),
        "FRAMEJIT_STRICT": "1",
    }

    def start():
        pipes = dict(
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return subprocess.Popen([sys.executable, str(script)], env=environment, **pipes)

    both = [start(), start()]
    for one in both:
        assert one.stdout.readline() == "ready\n", one.stderr.read()
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert "locked" not in said[0][1] + said[1][1]
    (why, first), (other_why, second) = (output.split(" ", 1) for output, _ in said)
    assert first == second
    # where one starts after the other has ended, it reads the decision
    assert "measured" in {why, other_why} <= {"measured", "remembered"}
    (decision,) = Decisions(tmp_path / "cache").all()
    assert first.startswith(decision.chosen)
    third = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        input="go\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"remembered {decision.chosen}" in third.stdout


def decision(key, chosen):
    return Decision(
        key,
        "graph",
        "shapes",
        "device",
        "versions",
        "mode",
        chosen,
        ((chosen, 1e-3),),
        (("other", "is wrong"),),
        0.5,
    )


def test_the_first_decision_stands(tmp_path):
    decisions = Decisions(tmp_path)
    assert decisions.find("a") is None and decisions.all() == [] and decisions.clear() == 0
    first = decisions.keep(decision("a", "eager"))
    assert first.chosen == "eager" and decisions.keep(
        decision("a", "native")
    ) == first == decisions.find("a")
    decisions.keep(decision("b", "native"))
    assert [one.key for one in decisions.all()] == ["b", "a"]
    decisions.drop("a")
    assert decisions.find("a") is None and decisions.clear() == 1


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path, register):
    register("same", lambda gm, inputs: gm.forward)
    (tmp_path / "cache").write_text("a file where a folder should be")
    with framejit.config.patch(cache_dir=tmp_path / "cache"):
        compiled = framejit.compile(
            lambda x: (x @ x).cos().sum(0), backend="autotune", options={"candidates": ["same"]}
        )
        x = torch.randn(16, 16)
        with pytest.warns(UserWarning, match="cannot be kept"):
            assert torch.equal(compiled(x), (x @ x).cos().sum(0))


def test_what_a_decision_depends_on(cache_dir, register):
    register("same", lambda gm, inputs: gm.forward)
    x = torch.randn(16, 16)

    def decide(f, x=x, **options):
        compiled = framejit.compile(
            f, backend="autotune", options={"candidates": ["same"], **options}
        )
        compiled(x)
        (choice,) = compiled.framejit.explain().choices
        return choice.why

    assert decide(lambda x: (x @ x).cos().sum(0)) == "measured"
    assert decide(lambda y: (y @ y).cos().sum(0)) == "remembered"  # names do not matter
    assert decide(lambda x: (x @ x).cos().sum(1)) == "measured"
    assert decide(lambda x: (x @ x).cos().sum(0), torch.randn(8, 8)) == "measured"
    assert decide(lambda x: (x @ x).cos().sum(0), x.double()) == "measured"
    assert decide(lambda x: (x @ x).cos().sum(0), x.clone().requires_grad_()) == "measured"
    assert decide(lambda x: (x @ x).cos().sum(0), remember=False) == "measured"
