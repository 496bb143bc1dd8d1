import contextlib
import importlib
import logging
import sys
import textwrap
import types

import framejit
import pytest
import torch
from framejit.frontend.values.functions.trace_rules import (
    TraceRule,
    may_work_on_tensors,
    package_of,
    rule_of_function,
    trace_rule,
)
from torch import nn

LOGGER = """
import os, time

class Record:
    def __init__(self, text):
        self.when, self.process, self.text = time.time(), os.getpid(), text

    def __format__(self, spec):
        return f"{self.process:d} {self.text}"

class Logger:
    def __init__(self):
        self.lines = []

    def info(self, text, *values):
        record = Record(text.format(*values))
        started = time.perf_counter()
        self.emit(record)
        return time.perf_counter() - started

    def emit(self, record):
        time.sleep(0)
        self.lines.append(f"{record}")
        time.sleep(0)

def call(function, *args):
    time.sleep(0)
    return function(*args)
"""


@pytest.fixture(params=["", "from torch import Tensor\n"], ids=["plain", "torch"])
def logger(request, tmp_path, monkeypatch):
    """A logging library, one without and one with something of torch."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    name = f"logger_of_{request.node.callspec.id}".replace("-", "_")
    (folder / f"{name}.py").write_text(request.param + LOGGER)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module(name)
    del sys.modules[name]


def test_a_library_without_tensor_work_is_one_break(logger):
    log = logger.Logger()

    @framejit.compile(backend="eager")
    def step(x):
        y = x.sin()
        log.info("mean {:.2f}", 0.5)
        return y * 2

    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(step(x), x.sin() * 2)
    assert [line.split(" ", 1)[1] for line in log.lines] == ["mean 0.50"] * 3
    uses_torch = hasattr(logger, "Tensor")
    assert may_work_on_tensors(package_of(logger.__file__)) == uses_torch
    assert (step.framejit.compiles > 2) == uses_torch


def test_a_function_that_such_a_library_calls_is_compiled(logger):
    events = []

    def inner(x):
        return x.sin() + 1

    with framejit.config.patch(sinks=(events.append,)):

        @framejit.compile(backend="eager")
        def step(x):
            return logger.call(inner, x * 2) * 2

    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(step(x), inner(x * 2) * 2)
    captured = {event.function for event in events if type(event).__name__ == "Captured"}
    assert any(name.endswith("inner") for name in captured) or hasattr(logger, "Tensor")


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("shape", ["module", "package"])
def test_a_package_installed_into_another_folder(shape, installed, tmp_path, monkeypatch):
    """As by pip install --target. A folder of the program's own modules has no descriptions of
    packages."""
    name = f"logger_elsewhere_{shape}_{installed}"
    if installed:
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
    if shape == "package":
        (tmp_path / name).mkdir()
    path = tmp_path / (f"{name}.py" if shape == "module" else f"{name}/__init__.py")
    path.write_text(LOGGER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    log = sys.modules[name].Logger()

    def step(x):
        y = x.sin()
        log.info("mean {:.2f}", 0.5)
        return y * 2

    compiled = framejit.compile(step, backend="eager")
    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x.sin() * 2)
    assert [line.split(" ", 1)[1] for line in log.lines] == ["mean 0.50"] * 3
    assert (compiled.framejit.compiles == 2) == installed


def test_package_of():
    assert package_of("/a/lib/python3.11/site-packages/loguru/_logger.py") == "loguru"
    assert package_of("/a/site-packages/six.py") == "six"
    assert package_of("/home/me/site.py") == package_of("<string>") == ""


def module_like(module):
    return types.FunctionType(module_like.__code__, {"__name__": module})


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (module_like, "COMPILE"),
        (module_like("framejit.benchmarks.programs"), "COMPILE"),
        (module_like("framejit.cli.bench"), "INLINE"),
        (module_like("framejit.frontend.api"), "SKIP"),
        (nn.functional.relu, "INLINE"),
        (nn.Module.__call__, "INLINE"),
        (contextlib.contextmanager, "INLINE"),
        (module_like("torch.fx.graph"), "SKIP"),
        (module_like("torch.fx_of_mine"), "INLINE"),
        (module_like("joblib.parallel"), "BREAK_AT_CALL"),
        (module_like("joblibrary"), "COMPILE"),
        (textwrap.dedent, "BREAK_AT_CALL"),
        (logging.info, "OUTPUT"),
    ],
    ids=lambda item: item if isinstance(item, str) else f"{item.__module__}.{item.__name__}",
)
def test_rule_of_function(function, rule):
    assert rule_of_function(function) is TraceRule[rule]


@pytest.mark.parametrize(
    ("filename", "rule"),
    [
        ("/home/me/site.py", "COMPILE"),
        ("/a/site-packages/not_imported_at_all/a.py", "COMPILE"),
        ("/a/site-packages/wandb/sdk.py", "SKIP"),
        ("<frozen os>", "BREAK_AT_CALL"),
        ("<eval_with_key>.3", "INLINE"),
        ("<string>", "COMPILE"),
    ],
)
def test_rule_of_a_file(filename, rule):
    """Of a function whose globals name no known module."""
    for module in (None, "other"):
        assert trace_rule(module, "f", filename) is TraceRule[rule]


def test_a_step_with_sparse_gradients_is_one_break():
    def trained(compiled):
        tables = nn.ModuleList(nn.EmbeddingBag(6, 2, sparse=True) for _ in range(2))
        for table in tables:
            nn.init.ones_(table.weight)
        optimizer = torch.optim.SparseAdam(tables.parameters())

        def step(rows):
            loss = sum(table(rows).sin().sum() for table in tables)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step = framejit.compile(step, backend="eager") if compiled else step
        for _ in range(3):
            step(torch.tensor([[1, 2], [2, 3]]))
        return [*tables.parameters()], step

    assert torch.equal(*(torch.cat(trained(compiled)[0]) for compiled in (False, True)))
    places = [brk.where for brk in trained(True)[1].framejit.explain().breaks]
    assert not any("sparse_adam" in place or "_functional" in place for place in places), places
