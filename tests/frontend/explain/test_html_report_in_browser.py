"""The HTML report in a real browser: it draws itself, answers clicks, and complains of nothing."""

from __future__ import annotations

import os
import shutil

import framejit
import pytest
import torch
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = (
    "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1300,900",
)  # fmt: skip


def broken(x):
    y = x.sin()
    print("first")
    z = y + 1
    if z.sum() > 100:
        z = z * 2
    return z.cos()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        if os.environ.get("FRAMEJIT_NEEDS_BROWSER"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=DRIVER)
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    framejit.explain(broken, backend="native")(torch.arange(3.0)).to_html(path)
    browser.get(path.as_uri())
    return browser


def line_of(text):
    """file:line of a line of `broken`."""
    code = broken.__code__
    lines = open(code.co_filename).read().splitlines()
    return f"{code.co_filename}:{next(n for n in range(code.co_firstlineno, len(lines) + 1) if text in lines[n - 1])}"


def in_view(page, element):
    top, height = page.execute_script(
        "return [arguments[0].getBoundingClientRect().top, innerHeight]", element
    )
    return 0 <= top < height


def test_a_click_on_a_break_shows_its_source_line(page):
    rows = page.find_elements(By.CSS_SELECTOR, "tr.break")
    assert [row.get_attribute("data-line") for row in rows] == [
        line_of('print("first")'),
        line_of("if z.sum()"),
    ]
    for row, text in zip(rows, ('print("first")', "if z.sum() > 100:"), strict=True):
        row.click()
        (shown,) = page.find_elements(By.CSS_SELECTOR, ".source .target")
        assert (
            shown.get_attribute("data-line") == row.get_attribute("data-line")
            and text in shown.text
        )
        WebDriverWait(page, 10).until(lambda _, shown=shown: in_view(page, shown))
        assert "chosen" in row.get_attribute("class")


def test_captured_lines_have_the_colours_of_their_graphs(page):
    def background(text):
        (row,) = page.find_elements(By.CSS_SELECTOR, f'.source .row[data-line="{line_of(text)}"]')
        return row.value_of_css_property("background-color")

    colours = [background(text) for text in ("y = x.sin()", "z = y + 1", "return z.cos()")]
    assert len(set(colours)) == 3 and background("def broken") not in colours


def test_graphs_kernels_and_the_timeline_are_drawn(page):
    page.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    drawn = page.find_elements(By.CSS_SELECTOR, "svg.graph")
    assert len(drawn) == 3 and all(
        one.rect["width"] > 0 and one.rect["height"] > 0 for one in drawn
    )
    assert {"sin", "cos"} <= {
        node.text for node in page.find_elements(By.CSS_SELECTOR, "svg.graph .op text")
    }
    kernels = [
        one.text
        for one in page.find_elements(By.CSS_SELECTOR, "pre.code")
        if "void kernel_" in one.text
    ]
    assert len(kernels) == 3 and any("sin" in text for text in kernels)
    assert page.find_elements(By.CSS_SELECTOR, "pre.code span"), "kernels are highlighted"
    assert len(page.find_elements(By.CSS_SELECTOR, ".timeline rect")) > 3


def test_it_can_be_dark_and_light(page):
    def colours():
        body = page.find_element(By.TAG_NAME, "body")
        return body.value_of_css_property("background-color"), body.value_of_css_property("color")

    before = colours()
    page.find_element(By.ID, "theme").click()
    after = colours()
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_it_asks_for_nothing_and_complains_of_nothing(page):
    assert (
        page.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
        == []
    )
    assert [
        entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ] == []
