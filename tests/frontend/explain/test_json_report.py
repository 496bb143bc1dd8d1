"""Reports as JSON: valid by the schema that is shipped, and telling what the report tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import framejit
import jsonschema
import pytest
import torch
from framejit.events import (
    Break,
    Captured,
    Change,
    Chosen,
    KernelRecord,
    Kernels,
    Miss,
    Recorded,
    Skipped,
    Specialised,
)
from framejit.frontend.explain import json_report as document
from framejit.frontend.explain.gather import make_report

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads(Path(document.__file__).with_name("report.schema.json").read_text())


def broken(x, n):
    y = x.sin() * n
    print("out")
    return y.cos()


def valid(report):
    data = json.loads(report.to_json())
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert data == report.to_dict()
    return data


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
def test_a_real_report(backend, tmp_path):
    handle = framejit.compile(broken, backend=backend)
    with handle.framejit.measure():
        for n in (1, 2):
            handle(torch.ones(64, 64), n)
    report = handle.framejit.explain()
    data = valid(report)
    assert (
        data["schema"] == "framejit.explain/1"
        and data["summary"]["breaks"] == 1
        and data["summary"]["recompiles"] >= 1
    )
    first = data["captures"][0]
    assert first["inputs"][0] == {
        "source": "x",
        "dtype": "float32",
        "sizes": ["64", "64"],
        "device": "cpu",
    }
    assert {"sin", "mul"} <= {node["target"] for node in first["nodes"]}
    if backend == "native":
        (made,) = first["kernels"]
        assert [set(kernel["ops"]) for kernel in made["kernels"]] == [{"sin", "mul.Tensor"}]
        assert (
            "kernel_0(" in made["kernels"][0]["text"] and made["kernels"][0]["name"] == "kernel_0"
        )
    path = tmp_path / "report.json"
    assert report.to_json(path) + "\n" == path.read_text()


def test_records_of_all_kinds():
    kernel = KernelRecord("kernel_0", "c", ("sin",), "text")
    kernels = Kernels(
        "f", "a.py:1", "forward", (kernel,), (("mm", 2),), (("a", "b", "too far"),), "def", 5
    )
    events = [
        Break(
            "f", "a.py:2", ("a.py:2",), "output", "print() writes", "move it", (2, 2, 4, 8), 0, 5
        ),
        kernels,
        Recorded("f", "a.py:1", False, "CUDA graphs: not recorded: it waits", 5),
        Chosen(
            "f",
            "a.py:1",
            "native",
            "measured",
            (("native", 1e-5), ("eager", 2e-5)),
            (("inductor", "fails"),),
            0.5,
            5,
        ),
        Captured("f", "a.py:1", 1, None, ("x == 1",), {"trace": 1.0}, 5),
        Skipped("g", "b.py:4", "a generator"),
        Specialised("f", "a.py:3", "n", "3"),
        Miss("f", "a.py:3", (Change("x == 1", "x", "1", "2", "a.py:4"),)),
    ]
    data = valid(make_report(events, str, title="f"))
    (capture,) = data["captures"]
    assert capture["backend"] == "native" and capture["choices"][0]["struck"] == [
        {"backend": "inductor", "reason": "fails"}
    ]
    assert (
        capture["kernels"][0]["called"] == [{"operator": "mm", "times": 2}]
        and not capture["cuda_graphs"][0]["recorded"]
    )
    assert capture["guards"] == [{"text": "x == 1", "line": "", "seconds": None, "watched": False}]
    assert (
        data["recompiles"][0]["changes"][0]["new"] == "2"
        and data["specialised"][0]["source"] == "n"
    )


def test_an_empty_report():
    assert valid(make_report((), str))["captures"] == []


def test_the_page_tells_every_field():
    text = (ROOT / "docs" / "explain.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`", text))
    fields = {name for part in walk(SCHEMA) for name in part.get("properties", {})}
    assert fields - named == set()
    assert document.SCHEMA in text


def walk(schema):
    yield schema
    for value in schema.values() if isinstance(schema, dict) else ():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield from walk(item)
