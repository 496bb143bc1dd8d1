"""The one command runs, and its tables hold what they should."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done, [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")]


def test_a_model_under_two_systems(tmp_path):
    out = tmp_path / "table.md"
    command = "models --models syn:mlp-tiny,syn:breaks --systems eager-again,framejit-eager --seconds 0.05"
    done, rows = run(*command.split(), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert out.read_text().strip() == done.stdout.strip()
    head, _, mlp, breaks = rows[:4]
    assert head == ["model", "eager ms", "eager-again", "framejit-eager"]
    assert "1 / 3, equal" in mlp[3] and "equal" in breaks[3] and "later" not in breaks[3]
    assert rows[-1][:2] == ["framejit-eager", "2 of 2"]


def test_training():
    done, rows = run(*"models --models syn:mlp-tiny --systems framejit-aot --train --seconds 0.05".split())
    assert done.returncode == 0, done.stderr
    assert rows[-1][:2] == ["framejit-aot", "1 of 1"]


def test_what_guards_cost():
    done, rows = run("guards")
    assert done.returncode == 0, done.stderr
    counts, hits = rows[2:5], rows[7:]
    assert [row[0] for row in counts] == ["10", "100", "1000"]
    assert all(float(row[column].split()[0]) > 0 for row in counts for column in (1, 2))
    assert [row[:3] for row in hits][0] == ["200 modules", "202", "2"]
    assert all(float(hits[0][column].split()[0]) > 0 for column in (4, 5))


def test_an_unknown_system_is_refused():
    done, _ = run("models", "--systems", "eager,other")
    assert done.returncode == 2 and "known ones" in done.stderr


def test_a_model_that_cannot_be_built_is_a_failed_row():
    done, rows = run(*"models --models syn:none --systems eager".split())
    assert done.returncode == 1 and "KeyError" in rows[2][1]


def test_the_cost_of_capture():
    done, rows = run(*"trace --models syn:mlp-tiny".split())
    assert done.returncode == 0, done.stderr
    head, _, mlp, mean = rows
    assert head[0] == "capture" and len(head) == 5 and mean[0] == "geometric mean"
    assert all(cell.endswith("ms, 1 / 3") for cell in mlp[1:]), mlp
