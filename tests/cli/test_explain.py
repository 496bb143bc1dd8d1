"""`framejit explain`: what it runs, writes and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import framejit
import pytest
from framejit.__main__ import main
from framejit.cli.explain import our_options_first

PROGRAM = """\
import sys
import framejit
import torch

@framejit.compile
def step(x):
    y = x.sin()
    print("given", sys.argv[1:])
    return y + 1

def plain(x):
    return x * 2

class Net:
    def forward(self, x):
        return x * 3

if __name__ == "__main__":
    for n in (3, 4, 5):
        step(torch.ones(n))
        plain(torch.ones(n))
        Net().forward(torch.ones(n))
    if "fail" in sys.argv:
        raise KeyError("mine")
    if "seven" in sys.argv:
        sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "nothing.py").write_text("import os\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("def double(x):\n    return x * 2\n\nnumber = 3\n")
    (package / "__main__.py").write_text(
        "import torch\nfrom .inner import double\n\ndouble(torch.ones(3))\nprint('ran', __package__)\n"
    )
    return tmp_path


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def explain(folder, monkeypatch, capfd):
    """Runs the command in this process, as a new one would in `folder`."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    known = set(sys.modules)

    def run(*args):
        capfd.readouterr()
        try:
            status = main(["explain", *args])
        except SystemExit as leaving:
            status = leaving.code
        for name in set(sys.modules) - known:
            if name.split(".")[0] == "package":
                del sys.modules[name]
        return Done(status, *capfd.readouterr())

    return run


def test_in_a_process_of_its_own(folder):
    environment = os.environ | {"FRAMEJIT_BACKEND": "eager"}
    command = [sys.executable, "-m", "framejit", "explain", "program.py", "fail", "--fail-on-break"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=120
    )
    assert (
        done.returncode == 1
        and "KeyError: 'mine'" in done.stderr
        and "given ['fail']" in done.stdout
        and "[output]" in done.stdout
    )


def test_a_script_with_options_before_and_behind_its_name(folder, explain):
    done = explain(
        "--html",
        "page.html",
        "program.py",
        "one",
        "--json",
        "data.json",
        "--lr",
        "3",
        "--",
        "--json",
        "mine",
    )
    assert done.returncode == 0, done.stderr
    assert "given ['one', '--lr', '3', '--json', 'mine']" in done.stdout
    assert "4 graphs" in done.stdout and "[output]" in done.stdout and "\x1b[" not in done.stdout
    data = json.loads((folder / "data.json").read_text())
    assert (
        data["title"] == "program.py"
        and data["summary"]["breaks"] == 1
        and data["breaks"][0]["passes"] == 3
    )
    assert (
        data["breaks"][0]["caret"].strip() == "^" * len('print("given", sys.argv[1:])')
        and data["time"]["wall_seconds"] > 0
    )
    assert "<html" in (folder / "page.html").read_text()


def test_what_is_found_and_what_the_program_returns(folder, explain):
    found = explain("--quiet", "--fail-on-break", "--max-recompiles", "0", "program.py")
    assert (
        found.returncode == 3
        and "1 graph breaks (--fail-on-break) and 2 recompiles (--max-recompiles 0)" in found.stderr
    )
    assert found.stdout.splitlines() == ["given []"] * 3
    failed = explain("--quiet", "--fail-on-break", "--json", "data.json", "program.py", "fail")
    assert (
        failed.returncode == 1
        and failed.stderr.startswith("Traceback")
        and "KeyError: 'mine'" in failed.stderr
    )
    assert (
        "framejit/cli" not in failed.stderr
        and json.loads((folder / "data.json").read_text())["summary"]["breaks"] == 1
    )
    assert explain("--quiet", "program.py", "seven").returncode == 7


def test_functions_that_are_not_decorated(folder, explain):
    done = explain(
        "--json",
        "data.json",
        "--function",
        "__main__:plain",
        "--function",
        "__main__:Net.forward",
        "program.py",
    )
    assert done.returncode == 0, done.stderr
    assert {"step", "plain", "Net.forward"} == {
        one["function"] for one in json.loads((folder / "data.json").read_text())["captures"]
    }
    done = explain("--function", "package.inner:double", "--json", "data.json", "-m", "package")
    assert done.returncode == 0 and "ran package" in done.stdout, done.stderr
    (capture,) = json.loads((folder / "data.json").read_text())["captures"]
    assert capture["function"] == "double" and capture["where"].endswith("inner.py:1")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("missing.py",), "no script 'missing.py'"),
        (("broken.py",), "invalid syntax"),
        (("-m", "no.such.module"), "no module 'no.such.module'"),
        (("--function", "nonsense", "program.py"), "'nonsense' is not of the form pkg.mod:fn"),
        (
            ("--function", "__main__:nobody", "program.py"),
            "program.py defines no function 'nobody'",
        ),
        (
            ("--function", "no.such:fn", "program.py"),
            "--function no.such:fn: cannot import 'no.such'",
        ),
        (("--function", "package.inner:nobody", "-m", "package"), "has no attribute 'nobody'"),
        (("--function", "package.inner:number", "-m", "package"), "not a int"),
        (("--max-recompiles", "-1", "program.py"), "--max-recompiles"),
        (("--html", "nowhere/page.html", "program.py"), "cannot write nowhere/page.html"),
        (("--unknown", "program.py"), "unrecognized arguments: --unknown"),
        ((), "a script is needed"),
    ],
)
def test_wrong_usage(explain, args, said):
    done = explain(*args)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "given" not in done.stdout


def test_stored_entries_are_not_used(explain, folder):
    """They have no graphs and kernels to show."""
    (folder / "asks.py").write_text("import framejit\nprint('store:', framejit.config.store)\n")
    with framejit.config.patch(store=True):
        assert "store: False" in explain("asks.py").stdout


def test_a_program_that_compiles_nothing(explain):
    done = explain("nothing.py", "--fail-on-break")
    assert done.returncode == 0 and "nothing was compiled" in done.stderr


def test_help(explain):
    done = explain("--help")
    assert (
        done.returncode == 0 and "exit status" in done.stdout and "--fail-on-break" in done.stdout
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["a.py"], ["--", "a.py"]),
        (["a.py", "-h", "-m", "x"], ["--", "a.py", "-h", "-m", "x"]),
        (["-m", "a.b", "--lr", "3", "--html=x"], ["-m", "a.b", "--html=x", "--", "--lr", "3"]),
        (
            ["a.py", "--html", "x", "--quiet", "--", "--quiet", "--"],
            ["--html", "x", "--quiet", "--", "a.py", "--quiet", "--"],
        ),
        (["--html"], ["--html", "--"]),
    ],
)
def test_whose_arguments_are_whose(given, wanted):
    assert our_options_first(given) == wanted
