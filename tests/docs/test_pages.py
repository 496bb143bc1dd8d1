"""The documentation: its code runs, its commands exist, its links are valid, its recipes work, and
the worked example is up to date."""

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
# First lines of the code blocks of a recipe: a file to be created in a copy of the package, and a
# program that runs with the changed copy.
NEW_FILE = "# new file: "
IN_COPY = "# in the changed copy\n"
DIFF = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(<!-- made: \w+ -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"^    (?:[A-Z_]+=\S+ )*(?:python -m )?framejit ([a-z].*)$|`framejit ([a-z][^`]*)`",
    re.MULTILINE,
)


def blocks(page):
    """The code of a page, except generated listings and code for the changed copy."""
    return [
        code
        for made, code in BLOCK.findall(page.read_text())
        if not made and not code.startswith((NEW_FILE, IN_COPY))
    ]


WITH_CODE = [page for page in PAGES if page.parent.name != "breaks" and blocks(page)]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def as_before():
    """Unregisters the backends that a page registers."""
    before = set(registry._backends)
    yield
    for name in set(registry._backends) - before - set(registry.SHIPPED):
        del registry._backends[name]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_runs(page, tmp_path, capsys, as_before, cache_dir, monkeypatch):
    """The blocks of a page in their order, as one program, with stored entries as by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(framejit.config, "store", True)
    namespace = {"__name__": "page"}
    for number, code in enumerate(blocks(page)):
        path = tmp_path / f"block_{number}.py"
        path.write_text(code)
        exec(compile(code, str(path), "exec", dont_inherit=True), namespace)


RECIPES = (ROOT / "docs" / "recipes.md").read_text().split("\n## ")[1:]
RECIPES_ON_A_COPY = {recipe.partition("\n")[0]: recipe for recipe in RECIPES if IN_COPY in recipe}


@pytest.fixture(scope="module")
def changed_copy(tmp_path_factory):
    """The folder of a copy of the package, with the new files and the diffs of all recipes."""
    folder = tmp_path_factory.mktemp("recipes")
    copy = folder / "framejit"
    left_out = (".*", "build", "tests", "docs", "__pycache__", "*.egg-info")
    shutil.copytree(Path(framejit.__file__).parent, copy, ignore=shutil.ignore_patterns(*left_out))
    for recipe in RECIPES:
        for _, code in BLOCK.findall(recipe):
            if code.startswith(NEW_FILE):
                name = code.partition("\n")[0].removeprefix(NEW_FILE)
                assert not (copy / name).exists()
                (copy / name).write_text(code)
        for number, diff in enumerate(DIFF.findall(recipe)):
            path = folder / f"{number}.diff"
            path.write_text(diff)
            command = ["git", "apply", "-p1", str(path)]
            subprocess.run(command, cwd=copy, check=True)
    # the recipe for a new Python version starts from the newest one; the test from the running one
    version = copy / "frontend" / "pycode" / "py399.py"
    version.write_text(version.read_text().replace("py313", f"py3{sys.version_info[1]}"))
    return folder


@pytest.mark.parametrize("title", RECIPES_ON_A_COPY)
@pytest.mark.sweep(5)
def test_recipes_on_a_copy(title, changed_copy, tmp_path):
    (program,) = (
        code for _, code in BLOCK.findall(RECIPES_ON_A_COPY[title]) if code.startswith(IN_COPY)
    )
    path = tmp_path / "program.py"
    path.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(changed_copy)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_each_kind_of_extension_has_a_recipe_that_runs():
    titles = {recipe.partition("\n")[0] for recipe in RECIPES if "```python\n" in recipe}
    assert titles == {
        "A builtin or a library function",
        "A family of values",
        "An operator of the native compiler",
        "A guard source",
        "A kind of guard",
        "A backend",
        "A version of Python",
    }


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


PATH = re.compile(r"`([\w-]+(?:/[\w-]+)*(?:\.(?:py|c|h)|/))`")  # a file, or a folder with a slash
OF_THE_USER = {"script.py", "sitecustomize.py"}
PRODUCT = {
    str(path.relative_to(ROOT)) + ("/" if path.is_dir() else "")
    for place in ("*", "frontend", "guards", "backends", "cli", "docs", "examples", "tests")
    for found in ROOT.glob(place)
    for path in (found, *found.rglob("*"))
    if "__pycache__" not in path.parts
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_folders_exist(page):
    """Named from the root of the package, or by the last parts of their path."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    named = set(PATH.findall(prose)) - OF_THE_USER
    assert [
        name
        for name in sorted(named)
        if name not in PRODUCT and not any(path.endswith("/" + name) for path in PRODUCT)
    ] == []


STEP = re.compile(r"^\| [^|`]*`(?:\w+\.)?(\w+)` \| `([\w/.]+)` \|", re.MULTILINE)


def test_each_step_of_a_call_is_in_the_file_named():
    page = (ROOT / "docs" / "architecture.md").read_text()
    steps = STEP.findall(page.partition("## One call")[2].partition("## ")[0])
    assert len(steps) > 10
    assert [step for step, file in steps if f"{step}(" not in (ROOT / file).read_text()] == []


def test_the_worked_example_is_up_to_date(capsys):
    spec = importlib.util.spec_from_file_location(
        "worked_example", ROOT / "docs" / "worked_example.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text()
    assert module.update_page(page) == page, "python docs/worked_example.py --update"
    assert {name for _, name, _, _ in module.BLOCK.findall(page)} == set(module.listings())
