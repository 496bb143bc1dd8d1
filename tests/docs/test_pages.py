"""Code on the pages runs, commands on them exist, the worked example is what the code does now (on 3.11); links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import framejit
import pytest
from framejit.__main__ import parse_command_line
from framejit.backends import registry

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
COPY = "# in the changed copy\n"  # begins code that needs the changes which a page shows as diffs
DIFF = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(<!-- made: \w+ -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"^    (?:[A-Z_]+=\S+ )*(?:python -m )?framejit ([a-z].*)$|`framejit ([a-z][^`]*)`",
    re.MULTILINE,
)


def blocks(page):
    """Its code, but what a script has made."""
    return [
        code
        for made, code in BLOCK.findall(page.read_text())
        if not made and not code.startswith(COPY)
    ]


WITH_CODE = [page for page in PAGES if page.parent.name != "breaks" and blocks(page)]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def as_before():
    """What pages register goes with the test."""
    before = set(registry._backends)
    yield
    for name in set(registry._backends) - before - set(registry.SHIPPED):
        del registry._backends[name]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_runs(page, tmp_path, capsys, as_before):
    """The blocks of a page in their order, as one program."""
    namespace = {"__name__": "page"}
    for number, code in enumerate(blocks(page)):
        path = tmp_path / f"block_{number}.py"
        path.write_text(code)
        exec(compile(code, str(path), "exec", dont_inherit=True), namespace)


def test_changes_that_recipes_show(tmp_path):
    """Applied to a copy of the package, they do what the recipe says."""
    page = (ROOT / "docs" / "recipes.md").read_text()
    programs = [code for _, code in BLOCK.findall(page) if code.startswith(COPY)]
    package = Path(framejit.__file__).parent
    copy = tmp_path / "framejit"
    shutil.copytree(
        package,
        copy,
        ignore=shutil.ignore_patterns(".*", "build", "tests", "docs", "__pycache__", "*.egg-info"),
    )
    (tmp_path / "changes.diff").write_text("".join(DIFF.findall(page)))
    subprocess.run(
        ["git", "apply", "--unidiff-zero", "-p1", str(tmp_path / "changes.diff")],
        cwd=copy,
        check=True,
    )
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "startswith('layer')" in done.stdout
    assert programs


def test_pages_with_code_are_found():
    assert {"README.md", "docs/backends.md", "docs/recipes.md", "docs/dynamic_shapes.md"} <= set(
        map(name_of, WITH_CODE)
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    for line in (first or second for first, second in COMMAND.findall(page.read_text())):
        words = shlex.split(line.partition(" #")[0])
        if words[-1].isupper() or "COMMAND" in words:
            continue
        try:
            parse_command_line(words)
        except SystemExit as end:
            assert end.code == 0, f"{name_of(page)}: framejit {line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)|<img src=\"([^\"]+)\"", page.read_text())
    local = [one or other for one, other in targets if "://" not in (one or other)]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_worked_example_is_up_to_date(capsys):
    spec = importlib.util.spec_from_file_location(
        "worked_example", ROOT / "docs" / "worked_example.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text()
    assert module.updated(page) == page, "python docs/worked_example.py --update"
    assert {name for _, name, _, _ in module.BLOCK.findall(page)} == set(module.listings())
