"""The root frame of a capture."""

import framejit
import pytest
import torch
from framejit.frontend.runtime import pipeline


def weighted(x, weights):
    if weights is None and not torch.compiler.is_compiling():
        weights = torch.ones(x.shape[0])
    return weights[:, None] * x


def test_what_raises_only_because_it_is_compiled():
    """The program learns the truth there."""

    def f(x, weights):
        return weighted(x.sin(), weights).cos()

    compiled = framejit.compile(f, backend="eager")
    x = torch.rand(3, 2)
    for weights in (None, torch.rand(3), None):
        assert torch.equal(compiled(x, weights), f(x, weights))


def test_what_raises_in_eager_too():
    def f(x, weights):
        if torch.compiler.is_compiling():
            x = x + 0
        if weights is None:
            raise ValueError("no weights")
        return x * weights

    compiled = framejit.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="no weights"):
            compiled(torch.ones(3), None)
    assert torch.equal(compiled(torch.ones(3), torch.ones(3)), torch.ones(3))


class Kept:
    def __init__(self):
        self.items = [1]


def branch(x, kept):
    y = x.sin()
    if y.sum() > 0:
        y = y + 1
    return y * 2


def deeper(x, kept):
    with torch.no_grad():
        y = branch(x * 2, kept)
    return branch(y, kept) + len(kept.items)


def printed(x, kept):
    kept.items.append(2)
    print("half way")
    return x * 2 + len(kept.items)


def printed_in_a_loop(x, kept):
    for item in kept.items:
        print(item)
        x = x + item
    return x


def stored_in_the_breaking_call(x, kept):
    return x + takes_and_prints(kept, kept.items.append(5), [print(kept.items), x.sum() > 0][1])


def takes_and_prints(kept, _, flag):
    return len(kept.items) + bool(flag)


@pytest.mark.parametrize(
    "f", [branch, deeper, printed, printed_in_a_loop, stored_in_the_breaking_call]
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_break_in_a_call_goes_back_to_its_instruction(f, whole, monkeypatch, capsys):
    """A capture starts over only if the instruction has changed something. Nothing that the call
    did before is lost or made twice."""
    captures = []
    for name in ("capture_call", "capture_rest"):
        capture = getattr(pipeline, name)
        monkeypatch.setattr(
            pipeline,
            name,
            lambda *args, capture=capture, name=name: captures.append(name) or capture(*args),
        )

    def outer(x, kept):
        kept.items.append(0)
        result = f(x.cos(), kept) if whole else f(f(x, kept), kept)
        return result - 1, list(kept.items)

    compiled = framejit.compile(outer, backend="eager")
    for x in (torch.ones(3), torch.full((3,), -2.0), torch.ones(3)):
        got = compiled(x, Kept()), capsys.readouterr().out
        want = outer(x, Kept()), capsys.readouterr().out
        assert str(got) == str(want)
    compiles = compiled.framejit.compiles
    starts_over = f is stored_in_the_breaking_call
    assert (len(captures) > compiles) is starts_over and compiles > 1
