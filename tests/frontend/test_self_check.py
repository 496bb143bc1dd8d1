"""With a torch or Python that is newer than the tested ones: what works is used, what does not is
off, and one line says so."""

from __future__ import annotations

import ast
import json
import sys
import threading
from functools import partial

import pytest
import torch
from framejit.errors import FramejitWarning
from framejit.frontend import api, self_check, support
from framejit.frontend.pycode import dialect
from framejit.torch_compat import MODE_FINGERPRINT, TENSOR_LAYOUT

from ..fork_server import ForkServer

PRETEND = """
import importlib.metadata, sys
real = importlib.metadata.version
importlib.metadata.version = lambda name: "2.99.0" if name == "torch" else real(name)
import torch
{missing}
import framejit

class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3
    @staticmethod
    def backward(ctx, grad):
        return grad * 7

def work(x, kept):
    y = Tripled.apply(x)
    for factor in (1, 2):
        kept.append(y * factor)
    if y.sum() > 0:
        y = y + 1
    return y.sum()

def results(function):
    found = []
    for rows in (2, 3, 4, 5):
        x, kept = torch.arange(rows * 3.0).reshape(rows, 3).requires_grad_(), []
        y = function(x, kept)
        y.backward()
        found += [y.item(), x.grad.tolist(), [one.tolist() for one in kept]]
    return found

handle = framejit.compile(work, backend={backend!r})
print("equal", results(handle) == results(work))
print("compiles", handle.framejit.compiles)
for name in ("native", "inductor"):
    print(name, framejit.list_backends()[name].reason)
print("off", sorted(framejit.torch_compat.SWITCHED_OFF))
"""
ASKED_FOR = "backend inductor"  # not imported before
# What is missing, and the feature that is off for it.
WITHOUT = {
    MODE_FINGERPRINT: "from framejit.guards.native import fingerprint; fingerprint.GETTERS = (('c10', 'gone'), *fingerprint.GETTERS[1:])",
    TENSOR_LAYOUT: "from framejit.guards.native import layout; layout.REQUIRES_GRAD = 'gone'",
    "what torch.foreach does": "del torch._C._group_tensors_by_device_and_dtype",
    ASKED_FOR: "import torch._inductor; del torch._inductor.list_mode_options",
    "backend native": (
        "import framejit.backends.native.registration; from framejit.backends import registry; from dataclasses import replace\n"
        "def fails(*a, **k): raise RuntimeError('torch.gone')\n"
        "registry._backends['native'] = replace(registry._backends['native'], function=fails)"
    ),
}


@pytest.fixture(scope="module")
def server():
    with ForkServer("torch", "torch._dynamo", "torch._inductor.compile_fx") as server:
        yield server


@pytest.fixture
def run(server, tmp_path):
    return partial(run_in_child, server, tmp_path)


def run_in_child(server, folder, program):
    """What a program prints, by first word, and framejit's warnings."""
    done = server.run(program, folder, FRAMEJIT_CACHE_DIR=str(folder), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    told = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    return told, [line for line in done.stderr.splitlines() if "framejit: " in line]


def off(told):
    return ast.literal_eval(told["off"])


def test_a_torch_that_lacks_nothing_works(run):
    told, lines = run(PRETEND.format(missing="", backend="autotune"))
    assert told == {
        "equal": "True",
        "compiles": told["compiles"],
        "off": "[]",
        "native": "",
        "inductor": "",
    }
    assert int(told["compiles"]) >= 2
    assert len(lines) == 1 and "its self-check passed, so it is used" in lines[0]


def test_all_but_what_is_missing_works(run):
    """Graphs of a backend that is off run as they were captured. The next process remembers what
    the first has found."""
    for backend, warned in (("native", 1), ("inductor", 0)):
        told, lines = run(PRETEND.format(missing="\n".join(WITHOUT.values()), backend=backend))
        assert told["equal"] == "True" and int(told["compiles"]) >= 2
        assert off(told) == sorted(WITHOUT)
        assert "torch.gone" in told["native"] and "list_mode_options" in told["inductor"]
        lines = [line for line in lines if "was tested with" in line]
        assert len(lines) == warned and all(
            feature in line for feature in WITHOUT if feature != ASKED_FOR for line in lines
        )


def test_without_what_every_capture_needs_everything_runs_in_eager(run):
    missing = (
        "import framejit.frontend.tracing.graph_builder as builder\n"
        "def gone(*a, **k): raise AttributeError('torch.gone')\n"
        "builder.GraphBuilder.call = gone"
    )
    told, lines = run(PRETEND.format(missing=missing, backend="eager"))
    assert (
        told["equal"] == "True"
        and told["compiles"] == "0"
        and len(lines) == 1
        and "runs in eager" in lines[0]
    )


def test_what_importing_framejit_needs_leaves_everything_to_eager_and_raises_nothing(run):
    program = PRETEND.format(
        missing="import torch.utils.checkpoint; del torch.utils.checkpoint._StopRecomputationError",
        backend="eager",
    )
    program = program.replace("for name in (", "sys.exit()\nfor name in (")
    told, lines = run(program)
    assert told == {"equal": "True", "compiles": "0"}
    assert (
        len(lines) == 1
        and "_StopRecomputationError" in lines[0]
        and "everything runs in eager" in lines[0]
    )


def test_a_check_that_ends_the_process_is_off_in_the_next(run):
    missing = (
        "import os; from framejit.guards.native import layout; layout.samples = lambda: os._exit(0)"
    )
    program = PRETEND.format(missing=missing, backend="eager")
    assert run(program) == ({}, [])
    told, lines = run(program)
    assert (
        told["equal"] == "True" and off(told) == [TENSOR_LAYOUT] and "ended the process" in lines[0]
    )


@pytest.fixture
def newer(monkeypatch, cache_dir):
    """This Python is a patch release that the tests have not run with."""
    monkeypatch.setitem(dialect.NEWEST_TESTED, sys.version_info[:2], -1)
    support.is_tested_here.cache_clear()
    monkeypatch.setattr(self_check, "_failed", [])
    monkeypatch.setattr(self_check, "SWITCHED_OFF", {})
    monkeypatch.setattr(self_check, "switch_off", lambda feature, why: None)
    yield cache_dir / self_check.FOLDER
    monkeypatch.undo()
    support.is_tested_here.cache_clear()


def passes(compile_function):
    """A check."""


def fails(compile_function):
    raise self_check.CheckFailed("reason")


@pytest.mark.parametrize(
    "patch", [sys.version_info[2] - 1, sys.version_info[2], sys.version_info[2] + 1]
)
def test_a_newer_patch_release_of_python_is_not_tested(patch, monkeypatch):
    monkeypatch.setitem(dialect.NEWEST_TESTED, sys.version_info[:2], patch)
    assert dialect.is_tested() is (patch >= sys.version_info[2])


@pytest.mark.parametrize(
    ("check", "needed", "refused"),
    [(passes, True, ""), (fails, False, ""), (fails, True, "feature: reason")],
)
def test_what_a_check_decides(newer, check, needed, refused, monkeypatch):
    monkeypatch.setattr(self_check, "CHECKS", (self_check.Check("feature", check, needed),))
    with pytest.warns(FramejitWarning, match="newer than what framejit was tested with"):
        found = self_check.refusal(api.compile_checked)
    assert refused in found and bool(found) is bool(refused)
    (record,) = newer.glob("*.json")
    assert json.loads(record.read_text()) == ({} if check is passes else {"feature": "reason"})
    handle = api.compile(lambda x: x + 1, backend="eager")
    assert handle(torch.ones(1)).item() == 2 and bool(handle.framejit.compiles) is not bool(refused)


def test_all_checks_pass_here_whatever_modes_the_program_has_on(newer):
    passed = pytest.warns(FramejitWarning, match="self-check passed, so it is used")
    with torch.no_grad(), torch.device("meta"), torch.autocast("cpu"), passed:
        assert self_check.refusal(api.compile_checked) == ""


def test_checks_draw_none_of_the_programs_random_numbers(newer):
    before = torch.get_rng_state()
    with pytest.warns(FramejitWarning, match="self-check passed, so it is used"):
        assert not self_check.refusal(api.compile_checked)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_that_cannot_be_written_to_costs_a_check_in_each_process(newer, monkeypatch):
    newer.parent.mkdir()
    newer.write_text("a file, where the folder should be")
    monkeypatch.setattr(self_check, "CHECKS", (self_check.Check("feature", passes),))
    with pytest.warns(FramejitWarning):
        assert self_check.refusal(api.compile_checked) == ""
    assert newer.is_file()


def test_threads_check_once(newer, monkeypatch):
    runs = []
    monkeypatch.setattr(self_check, "CHECKS", (self_check.Check("feature", runs.append),))
    monkeypatch.setattr(self_check, "warn_user", lambda *args, **named: None)
    threads = [
        threading.Thread(target=self_check.refusal, args=(api.compile_checked,)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (torch.ones(2), torch.zeros(2)), (torch.ones(2), torch.ones(2).double()), (torch.ones(2, 2).t(), torch.ones(1, 2).expand(2, 2)),
        (torch.ones(2), torch.ones(2, requires_grad=True)), ([torch.ones(2)], [torch.zeros(2)]), (1, 2),
    ],
)  # fmt: skip
def test_differences_are_seen(ours, theirs):
    self_check.assert_same(ours, ours)
    with pytest.raises(self_check.CheckFailed):
        self_check.assert_same(ours, theirs)
