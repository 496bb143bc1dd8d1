"""Every kind of break has a page, and the page's examples do what it says: one breaks so, the other
is one graph."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from framejit.errors import REASONS

PAGES = Path(__file__).parents[2] / "docs" / "breaks"
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FOUND = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


def section(page, title):
    """What stands under a heading of a page."""
    return (PAGES / f"{page}.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def report_of(page, title, tmp_path):
    """Runs an example, and asks what became of its `step`."""
    (code,) = CODE.findall(section(page, title))
    path = tmp_path / f"{page.replace('-', '_')}.py"
    path.write_text(code)
    namespace = {"__name__": "example"}
    exec(compile(code, str(path), "exec"), namespace)
    return namespace["step"].framejit.explain()


def test_every_break_has_a_page_and_every_page_a_break():
    assert sorted(REASONS) == FOUND


def test_the_index_names_every_break():
    index = (PAGES / "README.md").read_text()
    rows = re.findall(
        r"^\| \[`([\w-]+)`\]\(([\w-]+)\.md\) \| (.*?) \| (.*?) \|$", index, re.MULTILINE
    )
    assert [
        (one.id, one.id, one.sentence.format("…").strip(), one.hint) for one in REASONS.values()
    ] == rows


@pytest.mark.parametrize("page", FOUND)
def test_a_page_says_what_a_report_says(page):
    reason = REASONS[page]
    text = (PAGES / f"{page}.md").read_text()
    assert text.startswith(
        f"# `{page}`\n\n> {reason.sentence.format('…').strip()}\n>\n> hint: {reason.hint}\n"
    )


@pytest.mark.parametrize("page", FOUND)
def test_the_first_example_breaks_so(page, tmp_path):
    assert {item.id for item in report_of(page, "Breaks", tmp_path).breaks} == {page}


@pytest.mark.parametrize("page", FOUND)
def test_the_second_example_is_one_graph(page, tmp_path):
    report = report_of(page, "One graph", tmp_path)
    assert (report.breaks, report.skipped, len(report.graphs)) == ((), (), 1)
