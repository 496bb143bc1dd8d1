"""A program with products in tf32 is not called once torch's setting forbids them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from framejit.backends.native import gpu
from framejit.backends.native.ir.program import Program
from framejit.backends.native.printers.host import Namespace
from framejit.backends.native.printers.products import precision

from . import products


@pytest.fixture(autouse=True)
def setting(monkeypatch):
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr(
        torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False
    )  # torch for the CPU has none
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def program_of(case):
    (found,) = products.found(case)
    buffers = {
        name: replace(buffer, device=torch.device("cuda", 0))
        for name, buffer in products.program(case).buffers.items()
    }
    return Program(buffers, ["x", "w"], [found.product], [])


@pytest.mark.parametrize("boxed", [False, True])
def test_the_graph_is_compiled_again_once(boxed):
    made, namespace = [], Namespace()

    def again():
        made.append(again)
        return (lambda args: ["untuned", *args]) if boxed else (lambda *args: ["untuned", *args])

    lines = gpu.prologue(program_of(products.JOINED["a number"]), namespace, again, boxed=boxed)
    exec("\n    ".join(["def call(x, w):", *lines, "return ['tuned', x, w]"]), namespace.objects)
    call = namespace.objects["call"]
    assert call(1, 2) == ["tuned", 1, 2] and made == []
    torch.set_float32_matmul_precision("highest")
    assert [call(1, 2), call(3, 4)] == [["untuned", 1, 2], ["untuned", 3, 4]] and len(made) == 1
    torch.set_float32_matmul_precision("high")
    assert call(1, 2) == ["tuned", 1, 2]


@pytest.mark.parametrize(("name", "asked"), [("a cast", "high"), ("a number", "highest")])
def test_others_do_not_ask(name, asked):
    torch.set_float32_matmul_precision(asked)
    lines = gpu.prologue(program_of(products.JOINED[name]), Namespace(), lambda: None, boxed=False)
    assert lines == ["stream = current_stream(0)"]


def test_the_newer_setting_is_seen_too():
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert precision(torch.float32) == "ieee"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert precision(torch.float32) == "tf32"
