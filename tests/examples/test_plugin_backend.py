"""The plugin of the examples, installed beside framejit, and plugins that are broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
USE = """
import framejit, torch
info = framejit.list_backends()["counting"]
assert info.usable and info.devices == ("cpu", "cuda") and "framejit-plugin-example 0.1.0" in info.origin, info
compiled = framejit.compile(lambda x: x.sin() + x.cos(), backend="counting", options={"limit": 2})
assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + torch.ones(3).cos())
assert "3 operations are more than 2" in str(compiled.framejit.explain())
import framejit_plugin_example
assert framejit_plugin_example.counted == [3]
"""
BROKEN = """
import warnings
import framejit, torch
info = framejit.list_backends()["broken"]
assert not info.usable and "the plugin broken 1.0 could not be imported" in info.reason and "no such module" in info.reason, info
f = framejit.compile(lambda x: x + 1, backend="broken")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert torch.equal(f(torch.ones(3)), torch.ones(3) + 1)  # the frame still runs
assert any("the plugin broken 1.0 could not be imported" in str(one.message) for one in said), said
with framejit.config.patch(strict=True):
    f = framejit.compile(lambda x: x + 1, backend="broken")
try:
    f(torch.ones(3))
except framejit.BackendError as error:
    assert "broken 1.0" in str(error)
else:
    raise AssertionError
"""
CLASH = """
import framejit, torch
info = framejit.list_backends()["broken"]
assert not info.usable and "more than one plugin" in info.reason and "broken 1.0" in info.reason and "other 2.0" in info.reason, info
"""


@pytest.fixture
def run(torch_server, tmp_path):
    """Runs a program that finds what is installed in a folder."""

    def run(site, code):
        script = tmp_path / "use.py"
        script.write_text(f"import sys\nsys.path.insert(0, {str(site)!r})\n{code}")
        done = torch_server.run(script, tmp_path, FRAMEJIT_STRICT="0")
        assert done.returncode == 0, done.stderr

    return run


def fake_install(site, name, version, entry):
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(f"[framejit.backends]\n{entry}\n")


def test_an_installed_plugin_is_found(tmp_path, run):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(ROOT / "examples" / "plugin_backend", source)
    options = [
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--target",
        str(site),
    ]
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(source)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    run(site, USE)


@pytest.mark.parametrize("code", [BROKEN, CLASH], ids=["import fails", "two of a name"])
def test_broken_plugins_are_named(code, tmp_path, run):
    site = tmp_path / "site"
    fake_install(site, "broken", "1.0", "broken = broken_plugin:backend")
    (site / "broken_plugin.py").write_text("raise ImportError('no such module')\n")
    if code is CLASH:
        fake_install(site, "other", "2.0", "broken = other_plugin:backend")
    run(site, code)
