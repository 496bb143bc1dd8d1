"""framejit.save and framejit.load: an artifact serves another cache folder, as on another machine."""

from __future__ import annotations

import json
import zipfile

import framejit
import pytest
import torch
from framejit.backends.native.toolchain import compile_c
from framejit.events import Captured, Stored
from framejit.frontend.runtime.stored.artifact_file import read_manifest
from framejit.options import config
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 8), nn.LayerNorm(8)

    def forward(self, x):
        y = self.norm(self.linear(x)).tanh() * 2
        print(end="")
        return y.sum(-1)


def function(x, by=2.0):
    return (x * by).sin() + 1


def order_of_a_set(x):
    for name in {"sin", "cos"}:
        x = getattr(x, name)()
    return x


@pytest.fixture(autouse=True)
def _stores(cache_dir):
    with config.patch(store=True):
        yield


def make(program):
    torch.manual_seed(3)
    return program() if isinstance(program, type) else program


def results(run, training):
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(training)
    with torch.set_grad_enabled(training):
        made = run(x)
    if training:
        made.sum().backward()
    return made.detach(), x.grad


@pytest.fixture
def artifact(tmp_path):
    """Compiles a program in this cache folder, and saves it."""

    def save(program, training=False, **options):
        compiled = framejit.compile(make(program), **{"backend": "native"} | options)
        results(compiled, training)
        framejit.save(compiled, tmp_path / "net.framejit")
        return tmp_path / "net.framejit"

    return save


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty cache folder, and no compiler."""

    def refuse(*args):
        pytest.fail("a kernel was compiled")

    def change():
        monkeypatch.setattr(config, "cache_dir", tmp_path / "elsewhere")
        monkeypatch.setattr(compile_c, "_compile", refuse)

    return change


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("program", [Net, function], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
def test_what_is_loaded_captures_and_compiles_nothing(
    program, training, backend, artifact, elsewhere
):
    path = artifact(program, training, backend=backend)
    elsewhere()
    events = []
    with config.patch(sinks=(events.append,)):
        loaded = framejit.load(path, make(program))
    torch.testing.assert_close(results(loaded, training), results(make(program), training))
    assert not any(isinstance(one, Captured) and not one.from_disk for one in events)
    assert any(isinstance(one, Stored) and one.taken for one in events)
    assert loaded.framejit.compiles == 0


def test_other_calls_compile_as_usual(artifact):
    loaded = framejit.load(artifact(function, backend="eager"), function)
    x = torch.ones(3, dtype=torch.float64)
    assert torch.equal(loaded(x), function(x))
    assert loaded.framejit.compiles == 1


def test_what_is_loaded_can_be_saved_again(artifact, elsewhere, tmp_path):
    path = artifact(function)
    elsewhere()
    loaded = framejit.load(path, function)
    results(loaded, False)
    framejit.save(loaded, tmp_path / "again")
    assert read_manifest(tmp_path / "again") == read_manifest(path)


def changed(path, **manifest):
    """The file with other facts in its manifest."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    found = json.loads(files["manifest.json"])
    for name, value in manifest.items():
        known = found.get(name)
        found[name] = known | value if isinstance(known, dict) else value
    files["manifest.json"] = json.dumps(found).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "manifest, told",
    [
        ({"made_with": {"torch": "1.0"}}, "torch: '1.0' there, '"),
        ({"made_with": {"machine": "a Z80"}}, "machine: 'a Z80' there, '"),
        ({"made_with": {"framejit": "x"}}, "framejit: 'x' there, '"),
        ({"format": 7}, "has format 7"),
        ({"compiled_with": {"dynamic": True}}, "not of function as it is now"),
        ({"unknown": 1}, "is no artifact of framejit"),
    ],
)
def test_an_artifact_for_something_else_is_refused(manifest, told, artifact):
    path = artifact(function, backend="eager")
    changed(path, **manifest)
    with pytest.raises(framejit.ArtifactError, match=told):
        framejit.load(path, function)


def test_another_program_is_refused(artifact):
    path = artifact(function, backend="eager")
    with pytest.raises(framejit.ArtifactError, match=r"has code of function .*, not of .*lambda"):
        framejit.load(path, lambda x: x + 1)


def test_an_edited_callee_is_captured_anew(artifact, monkeypatch):
    path = artifact(Net, backend="eager")
    monkeypatch.setattr(nn.functional, "layer_norm", lambda x, *rest: x * 3)
    loaded = framejit.load(path, make(Net))
    torch.testing.assert_close(results(loaded, False), results(make(Net), False))
    assert loaded.framejit.compiles > 0


@pytest.mark.parametrize(
    "damage, told",
    [
        (lambda path: path.write_bytes(b"nothing"), "is no artifact of framejit"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "is no artifact of framejit"),
    ],
)
def test_a_damaged_file_is_refused(damage, told, artifact):
    path = artifact(function, backend="eager")
    damage(path)
    with pytest.raises(framejit.ArtifactError, match=told):
        framejit.load(path, function)


def call(program, **options):
    compiled = framejit.compile(program, backend="eager", **options)
    compiled(torch.ones(2))
    return compiled


@pytest.mark.parametrize(
    "make_compiled, told",
    [
        (lambda: function, "function is not compiled"),
        (lambda: framejit.compile(function, backend="eager"), "nothing is compiled yet"),
        (lambda: framejit.compile(function, disable=True), "is not compiled"),
        (lambda: call(function, options={"store": False}), "the store is off"),
        (lambda: call(order_of_a_set), "cannot be saved: not stored on disk: the order of a set"),
    ],
)
def test_what_cannot_be_saved_raises_with_the_reason(make_compiled, told, tmp_path):
    with pytest.raises(framejit.ArtifactError, match=told):
        framejit.save(make_compiled(), tmp_path / "file")
    assert not (tmp_path / "file").exists()
