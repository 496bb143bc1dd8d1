"""What each process that runs tests needs: conftest.py registers this as a plugin.

Every test runs strict: what would be a warning and a fall-back to eager in production raises here.
Graphs run as they were captured where a test asks for no backend, or on what FRAMEJIT_BACKEND says;
decisions of one run of the tests end with it. Entries are not stored, since tests count captures;
with FRAMEJIT_STORE=1 they are, in a folder for each test."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from pathlib import Path

import framejit
import pytest
import torch
from framejit.backends import registry
from framejit.frontend.runtime.shared_handles import shared_handles
from framejit.options import config, strict

from . import sweep_slice
from .fork_server import ForkServer

# The files that take longest. A worker that begins one of them last would end alone.
LONGEST_FIRST = Path(__file__).with_name("longest_first.txt").read_text().split()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Without garbage collections, which would look at all modules again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Tests that need a CUDA device are left out where there is none, and the cases of long tables
    that are not of this run's slice. The longest files come first."""
    left_out = sweep_slice.left_out(items, config.args)
    left_out |= set(items) - set(sweep_slice.one_of(config.getoption("--one-of"), items))
    if not torch.cuda.is_available():
        left_out |= {item for item in items if item.get_closest_marker("gpu")}
    if importlib.util.find_spec("torchao") is None:
        left_out |= {item for item in items if item.get_closest_marker("torchao")}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    root = Path(__file__).parent.parent
    files = {str(root / name): at for at, name in enumerate(LONGEST_FIRST)}
    kept = [item for item in items if item not in left_out]
    items[:] = sorted(kept, key=lambda item: files.get(str(item.path), len(files)))


def pytest_unconfigure():
    """What `_collections_look_at_what_tests_made` kept from collections is collected at the end, as
    always."""
    gc.unfreeze()


@pytest.fixture
def golden(request):
    """Compares generated text with a file under `golden` beside the test."""

    def compare(name, text):
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), (
            f"{name} is other text now; if that is meant, run pytest with --update-golden"
        )

    return compare


@pytest.fixture(autouse=True, scope="module")
def _collections_look_at_what_tests_made():
    """Not at torch and all else that is imported and stays, in which each collection takes half a
    second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _strict():
    with strict():
        yield


@pytest.fixture(autouse=True)
def _no_exception_goes_on_being_handled():
    yield
    assert sys.exc_info()[1] is None


@pytest.fixture(autouse=True)
def _plain_defaults(tmp_path_factory):
    backend = os.environ.get("FRAMEJIT_BACKEND") or "eager"
    store = os.environ["FRAMEJIT_STORE"] == "1"
    folder = tmp_path_factory.getbasetemp() / "framejit_cache"
    with config.patch(
        backend=backend,
        cache_dir=tmp_path_factory.mktemp("cache") if store else folder,
        progress=False,
        store=store,
    ):
        yield


@pytest.fixture(autouse=True)
def _handles_are_shared_within_a_test_only(monkeypatch):
    """A module that another test compiled, and that still lives, serves none of this one."""
    monkeypatch.setattr(shared_handles, "_handles", {})


@pytest.fixture(autouse=True)
def _settings_of_torch_end_with_a_test():
    """Benchmarks set them for a process, and tests run parts of benchmarks."""
    parts = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    precisions, threads = [part.fp32_precision for part in parts], torch.get_num_threads()
    yield
    for part, precision in zip(parts, precisions, strict=True):
        if part.fp32_precision != precision:
            part.fp32_precision = precision
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def torch_server():
    """Runs programs in processes of their own, in which torch is imported and framejit is not."""
    with ForkServer("torch") as server:
        yield server


@pytest.fixture
def cache_dir(tmp_path):
    """An empty one."""
    with config.patch(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture
def register():
    """Registers a backend until the test ends."""
    before = set(registry._backends)
    yield framejit.register_backend
    for name in set(registry._backends) - before - set(registry.SHIPPED):
        del registry._backends[name]


@pytest.fixture
def process_group(tmp_path):
    """A gloo group of this process alone."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch is built without gloo")
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()
