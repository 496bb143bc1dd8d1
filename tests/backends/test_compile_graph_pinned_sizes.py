"""Sizes that vary, but that a backend needs as numbers: they are counted apart from those of the
program, and reported with the operator and its line."""

import inspect

import framejit
import torch
from framejit.events import Specialised
from torch.fx import Interpreter


def work(x):
    y = x.sin()
    return y.cos() * 2


class Pinning(Interpreter):
    """Asks for a size as a number at one operator."""

    def call_method(self, target, args, kwargs):
        if target == "cos":
            int(args[0].shape[0])
        return super().call_method(target, args, kwargs)


def pins(gm, example_inputs):
    Pinning(gm).run(*(node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")))
    return gm.forward


def specialised(compiled):
    return [event for event in compiled.framejit.history.events if isinstance(event, Specialised)]


def test_sizes_that_a_backend_pins_are_reported():
    compiled = framejit.compile(work, backend=pins)
    for size in (3, 4, 5):
        compiled(torch.ones(size))
    line = f"{__file__}:{inspect.getsourcelines(work)[1] + 2}"
    told = [
        (event.source, event.number, event.where, event.backend, event.operator)
        for event in specialised(compiled)
    ]
    assert told == [("x.size(0)", size, line, "pins", "cos") for size in ("4", "5")]
    assert f"backend pins pinned x.size(0) == 4 at cos ({line})" in str(compiled.framejit.explain())
    assert compiled.framejit.compiles == 3


def test_what_the_program_pins_is_not_the_backends():
    def f(x):
        for _ in range(x.shape[0]):
            x = x * 2
        return x

    compiled = framejit.compile(f, backend=pins, dynamic=True)
    compiled(torch.ones(3))
    assert [(event.source, event.backend) for event in specialised(compiled)] == [("x.size(0)", "")]


def test_a_guard_of_a_backend_has_the_line_of_its_operator():
    def asks(gm, example_inputs):
        Asking(gm).run(
            *(node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder"))
        )
        return gm.forward

    class Asking(Interpreter):
        def call_method(self, target, args, kwargs):
            if target == "cos" and args[0].shape[0] > 7:
                raise AssertionError
            return super().call_method(target, args, kwargs)

    compiled = framejit.compile(work, backend=asks, dynamic=True)
    compiled(torch.ones(3))
    try:
        compiled(torch.ones(9))
    except framejit.BackendError:
        pass
    (miss,) = compiled.framejit.explain().misses
    assert f"{__file__}:{inspect.getsourcelines(work)[1] + 2}" in miss.failures[0]
