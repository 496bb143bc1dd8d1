"""The one command runs, and its tables and plots hold what they should."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from framejit.__main__ import main
from framejit.benchmarks import (
    compiling,
    distributed,
    graphs,
    guards,
    kernels,
    launches,
    measure,
    nested,
    plots,
    tables,
)
from framejit.benchmarks.programs.child import PAIRS, Measured, compare
from framejit.benchmarks.programs.run import row_of
from framejit.benchmarks.programs.tables import summary, table

from ..fork_server import ForkServer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server():
    with ForkServer(
        "framejit.benchmarks.command", "torch._inductor.compile_fx", "matplotlib.pyplot"
    ) as server:
        yield server


@pytest.fixture
def run(server, tmp_path):
    """Runs the command in a process of its own, behind some code; its rows too."""

    def bench(*arguments, before=""):
        program = f"{before}\nimport sys\nfrom framejit.__main__ import main\nsys.exit(main({['bench', *arguments]}))"
        done = server.run(program, tmp_path)
        return done, [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in done.stdout.splitlines()
            if line.startswith("|")
        ]

    return bench


@pytest.mark.sweep(2)
def test_a_model_under_two_systems(run, tmp_path):
    command = "models --models syn:mlp-tiny,syn:breaks --systems eager-again,framejit-eager --seconds 0.05"
    done, rows = run(*command.split(), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results.md").read_text().strip() == done.stdout.strip()
    plots = ("speed", "first_call")
    assert all(
        (tmp_path / f"{name}.svg").read_text().count("<path") > 10
        and f"]({name}.svg)" in done.stdout
        for name in plots
    )
    head, _, mlp, breaks = rows[:4]
    assert head == ["model", "eager ms", "eager-again", "framejit-eager"]
    assert "1 / 3, equal" in mlp[3] and "equal" in breaks[3] and "later" not in breaks[3]
    assert rows[-1][:2] == ["framejit-eager", "2 of 2"]
    first, settled = (float(cell.removesuffix(" s")) for cell in rows[-1][5:7])
    assert 0 < first <= settled


def test_an_interrupted_run_prints_what_it_measured(tmp_path, monkeypatch, capsys):
    def measured(plan, name, say):
        if name == "syn:breaks":
            signal.raise_signal(signal.SIGTERM)
        return {system: measure.Result(steady_ms=2.0) for system in plan.systems}

    monkeypatch.setattr(measure, "measure", measured)
    old = signal.getsignal(signal.SIGTERM)
    try:
        code = main(
            [
                "bench",
                "all",
                "--models",
                "syn:mlp-tiny,syn:breaks,hf:bert",
                "--systems",
                "eager",
                "--out",
                str(tmp_path),
            ]
        )
    finally:
        signal.signal(signal.SIGTERM, old)
    text = (tmp_path / "results.md").read_text()
    assert code == 130 and text in capsys.readouterr().out + "\n"
    assert (
        "| syn:mlp-tiny | 2.00 |" in text
        and "syn:breaks" not in text
        and "Interrupted in `models`" in text
    )


@pytest.mark.sweep(2)
def test_programs_in_whole(run):
    """One program, since each system takes a process that imports all of them."""
    system, name = "framejit (eager)", "mixture of experts, routed by value"
    only = ["--only", "mixture", "--only", "no such thing"]
    done, rows = run("programs", *only, "--steps", "2", "--systems", system)
    assert done.returncode == 0, done.stderr
    head, _, row = rows[:3]
    assert head[1] == f"seconds: eager, {system}" and head[4] == f"compiles: {system}"
    assert row[0] == name and len(row[1].split(", ")) == 2 and row[2] == "yes" and int(row[4]) > 0
    assert [row[:4] for row in rows[-2:]] == [["eager", "1", "0", "0"], [system, "1", "0", "0"]]


def test_programs_of_unknown_names(run):
    done, _ = run("programs", "--only", "no such thing")
    assert done.returncode == 2 and "GAN with a gradient penalty" in done.stderr


def test_steps_in_turn_do_the_same_work():
    """Each side has taken the same steps before, and draws the same numbers."""
    took = {"eager": [], "compiled": []}

    def step(side):
        return lambda number: took[side].append((number, torch.rand(()).item()))

    compiled = step("compiled")
    for number in range(5):
        compiled(number)
    list(compare(compiled, step("eager"), 5, lambda: 0.0))
    assert (
        [number for number, _ in took["eager"]]
        == [number for number, _ in took["compiled"]]
        == list(range(5 + PAIRS))
    )
    assert took["eager"][5:] == took["compiled"][5:]


def test_rows_of_programs():
    eager = Measured([1.0] * 30, [(1.0, 1.0)] * 3, [[1.0]] * 30, [0] * 30)
    pairs = [(1.0, 4.0), (2.0, 8.0), (9.0, 1.0)]
    slow = row_of(
        "p",
        "s",
        Measured([2.0] * 20 + [4.0] * 10, pairs, [[1.0]] * 29 + [[2.0]], [1] * 29 + [2], 7),
        eager,
    )
    assert (
        slow.equal,
        slow.seconds,
        slow.last,
        slow.compiles,
        slow.late_compiles,
        slow.report,
    ) == (False, 80.0, 0.25, 2, 1, 7)
    nan = Measured([1.0] * 30, [], [[float("nan"), 1.0 + 1e-7]] * 30)
    assert row_of("p", "s", nan, Measured([1.0] * 30, [], [[float("nan"), 1.0]] * 30)).equal
    failed = row_of("p", "s", Measured(error="a\nValueError: b"), eager)
    assert failed.equal is None
    lines = summary(
        [slow, failed, row_of("p", "torch.compile (aot_eager)", eager, eager)]
    ).splitlines()
    assert lines[2] == "| s | 2 | 1 | 1 | 1 | 1 | 80.0 | 1 |"
    text = table([failed])
    assert "| p | failed | failed |" in text and "p, s: failed: ValueError: b" in text


@pytest.mark.parametrize(
    ("calls", "wanted"), [([1, 1, 1, 1], 0), ([9, 4, 1, 1, 1.04, 1], 13), ([2, 1, 5, 1, 1, 1], 2)]
)
def test_calls_are_counted_until_they_are_steady(calls, wanted):
    assert measure.until_settled(calls) == wanted


@pytest.mark.sweep(2)
def test_torchscript_and_lazy_tensors(run):
    done, rows = run(
        *"models --models syn:mlp-tiny --systems torchscript,lazy --seconds 0.05".split()
    )
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in rows[-2:]] == [["torchscript", "1 of 1"], ["lazy", "1 of 1"]]


@pytest.mark.parametrize(
    "measure_one, render, words",
    [
        (compiling.phases, tables.phases_table, ("ms an op): ",)),
        (graphs.measure_capture, tables.graphs_table, ("3 / 8, 80.0 % of 20", "mean share")),
    ],
    ids=("compiling", "graphs"),
)
def test_parts_of_one_process(measure_one, render, words):
    found = measure_one(measure.Plan(("eager",)), "syn:breaks", "framejit-eager")
    text = render({"syn:breaks": {"framejit-eager": found}})
    assert all(word in text for word in words), text


@pytest.mark.sweep(2)
def test_memory_in_a_process_of_its_own(server, tmp_path):
    code = (
        "from framejit.benchmarks import measure, memory, tables\n"
        "found = memory.peak(measure.Plan(('eager',)), 'syn:breaks', 'framejit-eager')\n"
        "print(tables.memory_table({'syn:breaks': {'framejit-eager': found}}))"
    )
    done = server.run(code, tmp_path)
    assert "peak " in done.stdout and "+0 tensors" in done.stdout, done.stdout + done.stderr


def test_what_a_graph_does_not_hold_is_counted():
    found = graphs.measure_capture(measure.Plan(("eager",)), "syn:breaks", "framejit-eager")
    assert (
        found["called"] > found["share"] * found["called"] > found["called"] / 2
    )  # item() stays outside


def test_what_a_launch_costs(monkeypatch):
    for name, value in (("SHORT", 2), ("LONG", 12), ("ROUNDS", 3)):
        monkeypatch.setattr(launches, name, value)
    found = {
        system: launches.measure_system(system, "cpu") for system in ("eager", "framejit-native")
    }
    assert all(figures["link"] > 0 for figures in found.values())
    assert tables.launches_table(found | {"other": "no | result"}).count(" us a call") == 2


def test_kernels_one_by_one(monkeypatch):
    for name, value in (
        ("SYSTEMS", ("eager", "framejit-native")),
        ("ROUNDS", 1),
        ("SECONDS", 0.0),
        ("ELEMENTS", {"cpu": 1 << 16}),
    ):
        monkeypatch.setattr(kernels, name, value)
    found = {
        name: kernels.measure_case(name, "cpu") for name in ("softmax, 1024", "mean and variance")
    }
    assert found["softmax, 1024"]["bytes"] == 2 * 4 * (1 << 16)
    table = tables.kernels_table(found | {"other": "no | result"}, kernels.SYSTEMS)
    assert table.count(" GB/s") == 2 and "framejit-native beside eager" in table


def test_nested_tensors(monkeypatch):
    monkeypatch.setattr(nested, "CASES", {"small": (2, 6)})
    monkeypatch.setattr(nested, "SETTLING", 0.0)
    monkeypatch.setattr(nested, "EXAMPLE", ROOT / "examples" / "nested_tensor.py")
    for layout in ("jagged", "the example"):
        monkeypatch.delitem(nested.SYSTEMS, f"{layout}, torch.compile")
    found = nested.measure_case("small", "cpu", 0.0)
    assert set(found) == set(nested.SYSTEMS)
    assert all(milliseconds > 0 and error < 1e-5 for milliseconds, error in found.values()), found
    wrong = {"C++": (1.0, 0.5), "jagged": "Error: a | b"}
    table = tables.nested_table({"small": {**found, **wrong}})
    assert "| small | 1.00, error 5.0e-01 | Error: a / b |" in table


@pytest.mark.sweep(2)
def test_distributed_training():
    name = "gpt2, fsdp"
    assert name in distributed.cases(2) and "llama, fsdp+tp" in distributed.cases(4)
    found = distributed.measure_case(
        name, ("eager", "framejit-native"), 2, "cpu", "float32", "small", 2, 120.0
    )
    assert all(len(one.losses) == 2 and one.step_ms > 0 for one in found.values()), found
    failed = distributed.measure_case(name, ("eager",), 2, "cpu", "none", "small", 2, 60.0)
    table = tables.distributed_table({name: found, "another": {**found, "eager": failed["eager"]}})
    assert "x1.00" in table and "AttributeError: module 'torch' has no attribute 'none'" in table
    assert distributed.difference(found["framejit-native"], found["eager"]) < 1e-5


@pytest.mark.sweep(2)
def test_training(run):
    done, rows = run(
        *"models --models syn:mlp-tiny --systems framejit-aot --train --seconds 0.05".split()
    )
    assert done.returncode == 0, done.stderr
    assert rows[-1][:2] == ["framejit-aot", "1 of 1"]


@pytest.mark.sweep(2)
def test_what_guards_cost(run):
    done, rows = run(
        "guards",
        before="from framejit.benchmarks import guards\nguards.SECONDS, guards.SIZES = 0.01, (2, 12, 22)",
    )
    assert done.returncode == 0, done.stderr
    counts, hits = rows[2:5], rows[7:]
    assert [row[0] for row in counts] == ["10", "100", "1000"]
    assert all(float(row[column].split()[0]) > 0 for row in counts for column in (1, 2))
    assert [row[:3] for row in hits][0] == ["200 modules", "202", "2"]
    assert all(float(hits[0][column].split()[0]) > 0 for column in (4, 5))
    assert [row[0] for row in rows[-3:]] == list(guards.GROWING)
    assert all(float(row[column].split()[0]) > 0 for row in rows[-3:] for column in (1, 2, 3))


def test_what_makes_no_sense_is_refused(capsys, monkeypatch):
    assert (
        main(["bench", "models", "--systems", "eager,other"]) == 2
        and "known ones" in capsys.readouterr().err
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", "--device", "cuda"]) == 2 and "framejit doctor" in capsys.readouterr().err


def test_without_matplotlib_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(plots.importlib.util, "find_spec", lambda name: None)
    (said,) = plots.write([plots.Picture("x", "X", lambda axes: None)], tmp_path)
    assert "pip install 'framejit[bench]'" in said


def test_a_model_that_cannot_be_built_is_a_failed_row(run):
    done, rows = run(*"models --models syn:none --systems eager".split())
    assert done.returncode == 1 and "KeyError" in rows[2][1]


@pytest.mark.sweep(2)
def test_the_cost_of_capture(run):
    done, rows = run(*"trace --models syn:mlp-tiny".split())
    assert done.returncode == 0, done.stderr
    head, _, mlp, mean = rows
    assert head[0] == "capture" and len(head) == 5 and mean[0] == "geometric mean"
    assert all(cell.endswith("ms, 1 / 3") for cell in mlp[1:]), mlp
