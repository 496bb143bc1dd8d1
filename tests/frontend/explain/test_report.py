"""Reports of captures and breaks: what they hold, and how they read."""

from __future__ import annotations

import io
import linecache
from dataclasses import replace

import framejit
import pytest
import torch
from framejit.events import Break, Captured, Change, Miss, Recorder, Skipped
from framejit.frontend.explain.gather import make_report
from framejit.frontend.explain.html_report import lines_of
from framejit.frontend.explain.source_text import source_parts
from rich.console import Console

X = torch.arange(3.0)


def two_breaks(x, more=1):
    y = x.sin()
    print("first")
    z = y + 1
    print("second")
    return z * 2


def whole(x):
    return x.sin() + 1


def rich_text(report):
    console = Console(file=io.StringIO(), width=160)
    console.print(report)
    return console.file.getvalue()


def test_a_function_in_one_graph():
    report = framejit.explain(whole)(X)
    assert torch.equal(report.result, whole(X))
    assert (len(report.graphs), report.ops, report.breaks) == (1, 2, ())
    assert "sin" in report.graphs[0].graph
    assert report.graphs[0].where.endswith(f"{__file__}:{whole.__code__.co_firstlineno}")
    assert any("float32[3]" in line for line in report.guards)
    assert {"trace", "fake_tensors", "codegen", "backend", "guards"} <= set(report.seconds)
    assert all(spent >= 0 for spent in report.seconds.values())


def test_breaks_tell_place_text_reason_and_hint():
    report = framejit.explain(two_breaks)(X)
    assert torch.equal(report.result, two_breaks(X))
    assert (len(report.graphs), report.ops) == (3, 3)
    first, second = report.breaks
    assert first.source == 'print("first")' and second.source == 'print("second")'
    assert first.id == second.id == "output" and first.hint and first.times == 1
    assert first.where == f"{__file__}:{two_breaks.__code__.co_firstlineno + 2}"


@pytest.mark.parametrize("render", [str, rich_text])
def test_it_prints_well(render):
    text = render(framejit.explain(two_breaks)(X))
    assert "3 graphs, 3 ops, 2 breaks" in text
    assert 'print("second")' in text and "[output]" in text and "hint: move it out" in text


def test_backend_and_keyword_arguments():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    assert framejit.explain(two_breaks, backend=backend)(X, more=1).ops == 3 and len(graphs) == 3


def test_a_module_is_left_as_it_was():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    report = framejit.explain(module)(X)
    assert torch.equal(report.result, module(X)) and report.ops == 2
    assert module._compiled_call_impl is None
    compiled = framejit.compile(module)
    compiled(X)
    before = compiled.framejit.compiles
    assert framejit.explain(compiled)(X).ops == 2 and compiled.framejit.compiles == before


def test_a_method_and_a_handle():
    class Scale:
        def by(self, x):
            return x * 3

    assert torch.equal(framejit.explain(Scale().by)(X).result, X * 3)
    assert framejit.explain(framejit.compile(whole))(X).ops == 2


def test_what_a_handle_did_so_far():
    handle = framejit.compile(whole)
    assert handle.framejit.explain().captures == ()
    handle(X)
    handle(X)
    assert len(handle.framejit.explain().captures) == 1
    handle(torch.ones(4))
    report = handle.framejit.explain()
    assert len(report.captures) == 2 and "was 3 when compiled" in report.misses[0].failures[0]
    assert "compiled again: whole" in str(report)
    handle.framejit.reset()
    assert handle.framejit.explain().captures == ()


def test_a_compiled_module_tells_too():
    module = framejit.compile(torch.nn.Linear(3, 3))
    module(X)
    assert module.framejit.explain().ops == 1


def test_an_exception_of_the_call_passes_through():
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        framejit.explain(fails)(X)


def test_what_cannot_be_explained():
    with pytest.raises(TypeError, match="takes a function, a method, a torch.nn.Module"):
        framejit.explain(3)(X)
    with pytest.raises(ValueError, match="unknown backend"):
        framejit.explain(whole, backend="no such")


def test_without_framejit_only_the_result_is_there():
    with framejit.config.patch(disable=True):
        report = framejit.explain(whole)(X)
    assert torch.equal(report.result, whole(X)) and report.captures == ()


def test_records_of_all_kinds_have_words():
    events = [
        Break(
            "f",
            f"{__file__}:1",
            (f"{__file__}:1", f"{__file__}:2"),
            "output",
            "print() writes",
            "move it",
        ),
        Break(
            "f",
            f"{__file__}:1",
            (f"{__file__}:1", f"{__file__}:2"),
            "output",
            "print() writes",
            "move it",
        ),
        Captured("f", "a.py:3", 0, None, tuple(range(20)), {"trace": 1.0}),
        Skipped("g", "b.py:4", "a generator"),
        Miss("f", "a.py:3", (Change("x == 1", "x", "1", "2", "a.py:4"),)),
    ]
    report = make_report(events, lambda guard: f"guard {guard}")
    text = str(report)
    assert report.graphs == () and report.breaks[0].times == 2
    assert "0 graphs, 0 ops, 1 break;" in text and "12 more in report.captures[0].checks" in text
    assert (
        "(2 times)" in text
        and "called from" in text
        and "left to Python: g" in text
        and "x is 2" in text
    )
    assert "left to Python: g" in rich_text(report)


def test_a_long_report_fits_a_screen_and_begins_with_what_costs_most():
    lines = [f"{__file__}:{number}" for number in range(1, 30)]
    events = [
        *(
            Break("f", line, (line,), "output", f"print() number {place} writes", "move it")
            for place, line in enumerate(lines)
        ),
        *[Break("f", lines[7], (lines[7],), "output", "print() number 7 writes", "move it")] * 3,
        *(
            Captured(
                "f", line, 4, None, tuple(range(20)), {"trace": float(place == 5)}, number=place + 1
            )
            for place, line in enumerate(lines)
        ),
        *(
            Miss("g", "b.py:1", (Change("n == 1", "n", "1", str(place), "b.py:2"),))
            for place in range(12)
        ),
        *(
            Miss("f", lines[0], (Change("m == 1", "m", "1", str(place), lines[3]),))
            for place in range(3)
        ),
        *(Skipped(f"skipped_{place}", "c.py:1", "a generator") for place in range(12)),
    ]
    report = replace(make_report(events, lambda guard: f"guard {guard}", wall=1.0), calls=12)
    text = str(report).splitlines()
    assert len(text) <= 40 and text[0].startswith("29 graphs") and text[1] == "12 calls took 1 s"
    assert (
        next(line for line in text if line.startswith("break:"))
        == "break: print() number 7 writes [output] (4 times)"
    )
    again = [line for line in text if line.startswith("compiled again")]
    assert [line.split(":")[0] for line in again] == [
        "compiled again 3 times",
        "compiled again 12 times",
    ]  # f took a second
    captured = next(line for line in text if line.startswith("captured:"))
    assert captured.startswith(f"captured: f from {lines[5]}: 4 ops, 20 guards, compiled in 1 s")
    assert "report.details()" in text[-1] and "... and 8 more in report.details()" in text
    everything = report.details()
    assert all(f"number {place} writes" in everything for place in range(29))
    assert all(f"left to Python: skipped_{place} at c.py:1" in everything for place in range(12))
    assert everything.count("guard 3") == 29


def test_an_excerpt_that_begins_inside_a_docstring_is_highlighted_as_text(tmp_path):
    file = tmp_path / "documented.py"
    file.write_text(
        'def f(x):\n    """Words.\n'
        + "\n    for all of it, if not less\n" * 20
        + '    """\n    return x\n'
    )
    (part,) = source_parts([(f"{file}:30", 1)], [])
    assert part.lines[0].number > 10
    marked = [line for line in lines_of(part) if "for all" in line]
    assert marked and all('class="k"' not in line and 'class="s' in line for line in marked)
    assert len(lines_of(part)) == len(part.lines)
    file.write_text("return 1\n")
    linecache.checkcache(str(file))
    assert any('class="k"' in line for line in lines_of(part))  # the file has changed: by itself


def test_a_recorder_may_be_bounded():
    recorder = Recorder(2)
    for n in range(3):
        recorder(Skipped("f", str(n), ""))
    assert [event.where for event in recorder.events] == ["1", "2"]
