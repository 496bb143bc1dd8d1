"""`framejit doctor` and `framejit cache`: what they tell, and their exit codes."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.__main__ import main
from framejit.cli import doctor
from framejit.cli.doctor import Finding
from framejit.options import config


def test_a_machine_where_it_works(cache_dir, capsys):
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert (
        "framejit compiles here" in told
        and torch.__version__ in told
        and str(cache_dir) in told
        and "\x1b" not in told
    )


def test_what_is_needed_and_unusable_is_an_exit_code(monkeypatch, capsys):
    broken = Finding("torch", "unusable", "too old", "install another", True)
    monkeypatch.setattr(
        doctor, "CHECKS", (lambda: broken, lambda: Finding("GPU", "unusable", "strange", "none"))
    )
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "install another" in told and "cannot compile here: torch\n" in told


def test_a_hook_that_does_not_work(monkeypatch):
    def fail(*args, **more):
        raise RuntimeError("no hook")

    monkeypatch.setattr(framejit, "compile", fail)
    found = doctor.hook()
    assert (found.state, found.said, found.needed) == ("unusable", "RuntimeError: no hook", True)
    assert "install framejit again" in found.remedy


def test_it_says_when_it_is_switched_off(monkeypatch):
    with config.patch(disable=True):
        assert doctor.hook().remedy == "unset it"


def test_a_cache_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=tmp_path / "file"):
        found = doctor.cache_folder()
    assert found.state == "unusable" and "FRAMEJIT_CACHE_DIR" in found.remedy and not found.needed


@pytest.fixture
def filled(cache_dir, register):
    """A cache with a decision, the script of a candidate and some kernels."""

    def wrong(gm, example_inputs):
        return lambda *args: tuple(one + 1 for one in gm.forward(*args))

    register("cache_wrong", wrong)
    framejit.compile(
        lambda x: (x @ x).sin().sum(0), backend="autotune", options={"candidates": ["cache_wrong"]}
    )(torch.randn(32, 32))
    (cache_dir / "c" / "ab").mkdir(parents=True)
    (cache_dir / "c" / "ab" / "abc").write_bytes(b"x" * 2000)
    return cache_dir


def shown(capsys):
    assert main(["cache", "--show"]) == 0
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
    ]
    return {row[0]: row[1:3] for row in rows if len(row) == 4}


def test_the_cache_by_kind(filled, capsys):
    rows = shown(capsys)
    assert rows["kernels"] == ["1", "2.0 kB"] and rows["decisions"][0] == rows["repros"][0] == "1"
    assert (
        main(["cache", "--clear", "kernels"]) == 0
        and "kernels: 1 deleted (2.0 kB)" in capsys.readouterr().out
    )
    rows = shown(capsys)
    assert rows["kernels"] == ["0", "0 bytes"] and rows["decisions"][0] == rows["repros"][0] == "1"
    assert main(["cache", "--clear"]) == 0
    rows = shown(capsys)
    assert rows["decisions"][0] == rows["repros"][0] == "0"


def test_an_unknown_kind_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["cache", "--clear", "everything"])
    assert ended.value.code == 2 and "kernels" in capsys.readouterr().err


def test_a_file_that_is_no_database(cache_dir, capsys):
    cache_dir.mkdir()
    (cache_dir / "decisions.sqlite").write_text(
        "this is no database, and long enough to be one" * 100
    )
    assert main(["cache"]) == 1 and "not a database" in capsys.readouterr().err


def test_commands_are_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    told = capsys.readouterr().out
    assert ended.value.code == 0 and all(
        name in told for name in ("bench", "cache", "doctor", "minify", "tune")
    )


@pytest.mark.parametrize("command", ["bench", "cache", "doctor", "minify", "tune"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0 and f"usage: framejit {command}" in capsys.readouterr().out


def test_the_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert framejit.__version__ in capsys.readouterr().out
