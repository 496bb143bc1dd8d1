"""Under a Python or torch that framejit is too new for: one warning, and everything runs in
eager."""

import functools
import importlib.metadata
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import framejit
import pytest
import torch
from framejit.frontend import control, eager_only, framejit_attribute, support


@pytest.fixture
def old_torch(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.9.1+cpu")
    support.usable.cache_clear()
    yield
    support.usable.cache_clear()


def test_one_warning_names_the_supported_ones(old_torch):
    with pytest.warns(
        UserWarning, match=r"CPython 3.11, 3.12, 3.13 with torch 2.11 to 2.15"
    ) as caught:
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

    assert (
        f(1) == 2
        and eager_only.compile(f) is f
        and eager_only.disable(f) is f
        and not eager_only.is_compiling()
    )
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
    assert (report.graphs, report.breaks, control.compiles, control.generated_code()) == (
        (),
        (),
        0,
        [],
    )
    control.wait()
    control.reset()
    with control.measure():
        compiled(torch.ones(()))


def public_names(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_handle_can_be_asked_the_same():
    assert public_names(control.Control) == public_names(framejit_attribute.ControlGroup)


def test_a_modules_handle_measures_and_lists():
    module = framejit.compile(
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), backend="eager"
    )
    module(torch.ones(1, 3))
    with module.framejit.measure():
        module(torch.ones(1, 3))
    assert (
        module.framejit.is_compiled
        and module.framejit.generated_code()
        and module.framejit.explain().graphs
    )
    module.framejit.reset()
    assert not module.framejit.generated_code()


PRETENDED = {
    "old torch": "import importlib.metadata as m\nreal = m.version\nm.version = lambda name: '2.4.1' if name == 'torch' else real(name)\n",
    "unknown Python": "import sys, torch\nsys.version_info = (3, 19, 0, 'final', 0)\n",
    "other implementation": "import sys, torch, types\nsys.implementation.name = 'other'\n",
}
USED = """
import functools, json, torch, framejit

class Callee:
    def method(self, x):
        return x * 2
    __call__ = method
    @staticmethod
    def alone(x):
        return x * 2

class Doubling(torch.nn.Module):
    def forward(self, x):
        return x * 2

def double(x):
    return x * 2

@framejit.register_backend("mine", training=False, devices=("cpu",))
def mine(gm, examples):
    return gm

@framejit.compile(backend="mine", mode="default", fullgraph=True, verify=2, options={"a": 1})
def decorated(x):
    return x * 2

x = torch.ones(2)
given = {"function": double, "lambda": lambda x: x * 2, "module": Doubling(), "bound": Callee().method, "object": Callee(),
         "static": Callee.alone, "partial": functools.partial(torch.mul, other=2), "sequential": torch.nn.Sequential(Doubling())}
for name, target in {**given, "decorated": decorated}.items():
    compiled = framejit.compile(target, backend="native", dynamic=True, verify=1)
    handle = compiled.framejit
    assert torch.equal(compiled(x), x * 2), name
    for report in (handle.explain(), framejit.explain(target, backend="eager", calls=2)(x)):
        (skipped,) = report.skipped
        assert "is supported; this is" in skipped.reason and "is supported; this is" in str(report), name
        assert not report.graphs and not report.breaks and not report.captures and json.loads(report.to_json()), name
    assert torch.equal(report.result, x * 2)
    with handle.measure():
        compiled(x)
    assert handle.compiles == 0 and not handle.is_compiled and handle.generated_code() == [] and "eager" in repr(handle), name
    handle.wait(), handle.reset()
    if not isinstance(target, torch.nn.Module):
        compiled.explain(), compiled.wait()
with framejit.set_stance("force_eager"), framejit.debug(), framejit.config.patch(strict=True):
    double(x)
framejit.set_stance("default")
framejit.disable(double)(x), framejit.disable()(double)(x), framejit.allow_in_graph(double)(x)
framejit.mark_dynamic(x, 0, min=1), framejit.mark_static(x), framejit.maybe_mark_dynamic(x, 0)
framejit.graph_break("here"), framejit.reset()
assert not framejit.is_compiling() and not framejit.stats().functions
(mine_info,) = framejit.list_backends().values()
assert mine_info.name == "mine" and not mine_info.usable and "is supported; this is" in str(mine_info)
print("used all of", len(framejit.__all__))
"""


@pytest.mark.parametrize("pretended", PRETENDED)
def test_programs_run_where_nothing_is_supported(pretended, torch_server, tmp_path):
    done = torch_server.run(PRETENDED[pretended] + USED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.startswith("used all of")
        and done.stderr.count("so everything runs in eager") == 1
    )


EXAMPLES = (
    "custom_backend",
    "dynamic_shapes",
    "graph_breaks",
    "decode_loop",
    "train",
    "quickstart",
)


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.sweep(3)
def test_our_own_examples_run_where_nothing_is_supported(example, torch_server, tmp_path):
    path = Path(__file__).parents[2] / "examples" / f"{example}.py"
    program = (
        PRETENDED["old torch"].replace("2.4.1", "2.10.0")
        + f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    )
    done = torch_server.run(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_importing_it_raises_nothing_where_warnings_are_errors():
    program = (
        "import importlib.metadata as m; real = m.version; m.version = lambda name: '1.9' if name == 'torch' else real(name)\n"
        "import framejit, torch\n"
        "print(framejit.compile(torch.nn.Identity()).framejit.explain())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert "so everything runs in eager" in done.stderr and "torch 1.9" in done.stdout
