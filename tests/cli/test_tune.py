"""`framejit tune`: what another process has decided, and what it deletes."""

import framejit
import pytest
import torch
from framejit.__main__ import main


def test_decisions_are_shown_and_forgotten(cache_dir, register, capsys, torch_server, tmp_path):
    register("tune_shown", lambda gm, inputs: gm.forward)
    framejit.compile(
        lambda x: (x @ x).sin().sum(0), backend="autotune", options={"candidates": ["tune_shown"]}
    )(torch.randn(32, 32))
    show = "import sys; from framejit.__main__ import main; sys.exit(main(['tune', '--show']))"
    shown = torch_server.run(show, tmp_path, FRAMEJIT_CACHE_DIR=str(cache_dir))
    assert (
        shown.returncode == 0
        and "tune_shown" in shown.stdout
        and "float32[32x32]" in shown.stdout
        and "1 decisions" in shown.stdout
    )
    assert main(["tune", "--clear"]) == 0
    assert "1 decisions forgotten" in capsys.readouterr().out
    assert main(["tune", "--show"]) == 0
    assert "0 decisions" in capsys.readouterr().out


def test_a_file_that_is_none(cache_dir, capsys):
    cache_dir.mkdir()
    (cache_dir / "decisions.sqlite").write_text(
        "this is no database, and long enough to be one" * 100
    )
    assert main(["tune", "--show"]) == 1
    assert "decisions.sqlite" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="decisions cannot be kept"):
        compiled = framejit.compile(
            lambda x: (x @ x).sin().sum(0),
            backend="autotune",
            options={"candidates": ["aot_eager"]},
        )
        compiled(torch.randn(32, 32))


def test_what_is_no_command(capsys):
    with pytest.raises(SystemExit) as end:
        main(["nonsense"])
    assert end.value.code == 2 and "tune" in capsys.readouterr().err
