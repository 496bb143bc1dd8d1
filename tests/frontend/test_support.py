"""Under a Python or torch that framejit is too new for: one warning, and everything runs in eager."""
import functools
import importlib.metadata
import inspect
import subprocess
import sys
import warnings

import framejit
import pytest
import torch
from framejit.frontend import eager_only, support


@pytest.fixture
def old_torch(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.9.1+cpu")
    support.usable.cache_clear()
    yield
    support.usable.cache_clear()


def test_one_warning_names_the_supported_ones(old_torch):
    with pytest.warns(UserWarning, match=r"CPython 3.11, 3.12, 3.13 with torch 2.11 to 2.15") as caught:
        assert not support.usable()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not support.usable()


def test_the_eager_face_has_every_public_function():
    public = [name for name in framejit.__all__ if inspect.isfunction(getattr(framejit, name))]
    assert [name for name in public if not callable(getattr(eager_only, name, None))] == []


def test_the_eager_face_runs_what_it_is_given():
    @eager_only.compile(backend="anything", fullgraph=True)
    def f(x):
        eager_only.graph_break()
        return x + 1

    assert f(1) == 2 and eager_only.compile(f) is f and eager_only.disable(f) is f and not eager_only.is_compiling()
    report = eager_only.explain(f)(1)
    assert report.result == 2 and not report.captures


class Callee:
    def method(self, x):
        return x + 1

    def __call__(self, x):
        return x + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Identity(), lambda: lambda x: x, lambda: Callee().method, Callee, lambda: torch.sin,
        lambda: functools.partial(torch.add, other=1),
    ],
    ids=["module", "function", "method", "object", "builtin", "partial"],
)  # fmt: skip
def test_the_eager_face_answers_why_nothing_is_compiled(old_torch, make):
    given = make()
    compiled = eager_only.compile(given, backend="native")
    assert compiled(torch.ones(())).equal(given(torch.ones(())))
    control = compiled.framejit
    report = control.explain()
    assert "torch 1.9.1+cpu" in report.skipped[0].reason and "torch 1.9.1+cpu" in str(report)
    assert (report.graphs, report.breaks, control.compiles, control.generated()) == ((), (), 0, [])
    control.wait()
    control.reset()
    with control.measure():
        compiled(torch.ones(()))


def test_importing_it_raises_nothing_where_warnings_are_errors():
    program = (
        "import importlib.metadata as m; real = m.version; m.version = lambda name: '1.9' if name == 'torch' else real(name)\n"
        "import framejit, torch\n"
        "print(framejit.compile(torch.nn.Identity()).framejit.explain())"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "so everything runs in eager" in done.stderr and "torch 1.9" in done.stdout
