"""What is installed, promised and documented fits together."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
from pathlib import Path

import framejit
import pytest
from framejit.errors import FramejitError
from framejit.frontend import public
from framejit.frontend.pycode.dialect import VERSIONS
from framejit.frontend.support import TORCH_VERSIONS

ROOT = Path(__file__).parent.parent
FOLDERS = ("frontend", "guards", "backends", "cli")


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert [
        str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()
    ] == []


def test_all_c_files_are_built():
    setup = (ROOT / "setup.py").read_text()
    patterns = re.findall(r'"([\w/*]+\.[ch])"', setup)
    files = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.[ch]")}
    assert files <= {path for pattern in patterns for path in ROOT.glob(pattern)}


def test_the_build_needs_no_torch():
    tree = ast.parse((ROOT / "setup.py").read_text())
    assert "torch" not in {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }


@pytest.mark.parametrize("name", [
    "py.typed", "frontend/runtime/_hook.pyi", "guards/native/_guards.pyi", "frontend/explain/templates/report.html.j2",
    "frontend/explain/report.schema.json",
])  # fmt: skip
def test_what_is_no_code_is_installed_too(name):
    assert (Path(framejit.__file__).parent / name).exists()


def test_the_supported_torch_is_said_once():
    (torch,) = (
        line
        for line in importlib.metadata.requires("framejit")
        if line.startswith("torch") and "extra" not in line
    )
    low, high = (f"{major}.{minor}" for major, minor in TORCH_VERSIONS)
    assert (
        re.sub("^torch", "", torch) == f">={low}"
    )  # a newer one than the tests' has to pass the self-check
    assert any(f"torch=={high}." in line for line in (ROOT / "tox.ini").read_text().splitlines())


def test_each_supported_python_has_a_tox_environment():
    first, *_ = (
        line for line in (ROOT / "tox.ini").read_text().splitlines() if line.startswith("env_list")
    )
    assert re.findall(r"py(\d)(\d+)", first) == [
        (str(major), str(minor)) for major, minor in sorted(VERSIONS)
    ]


def test_the_package_has_the_public_functions_the_errors_and_config():
    errors = {
        name
        for name, cls in vars(framejit).items()
        if isinstance(cls, type) and issubclass(cls, FramejitError)
    }
    assert set(framejit.__all__) == {*public.__all__, *errors, "config"}


def test_public_names_exist_and_are_documented():
    assert [name for name in framejit.__all__ if not hasattr(framejit, name)] == []
    assert [name for name in framejit.__all__ if not inspect.getdoc(getattr(framejit, name))] == []


@pytest.mark.parametrize(
    "block", re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
)
def test_the_readmes_code_runs(block, capsys, tmp_path, monkeypatch):
    path = tmp_path / "readme.py"
    path.write_text(block)
    exec(compile(block, str(path), "exec"), {"__name__": "readme"})
    assert "graph" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["longest_first.txt", "on_each_python.txt", "with_sanitizers.txt"])
def test_lists_of_tests_name_files_and_folders(name):
    paths = (ROOT / "tests" / name).read_text().splitlines()
    assert len(paths) == len(set(paths))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert any(name in (ROOT / user).read_text() for user in ("tox.ini", "tests/fixtures.py"))


def test_tests_that_a_python_skips_run_on_another():
    skipping = re.compile(r"skipif\((?:PYTHON|sys\.version_info) < ")
    skip = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if skipping.search(path.read_text())
    }
    listed = (ROOT / "tests" / "on_each_python.txt").read_text().splitlines()
    assert skip and [path for path in sorted(skip) if not path.startswith(tuple(listed))] == []
