"""Under a Python or torch that framejit does not know: one warning, and everything runs in eager."""
import importlib.metadata
import inspect
import warnings

import framejit
import pytest
from framejit.frontend import eager_only, support


@pytest.fixture
def unknown_torch(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9.1+cpu")
    support.usable.cache_clear()
    yield
    support.usable.cache_clear()


def test_one_warning_names_the_supported_ones(unknown_torch):
    with pytest.warns(UserWarning, match=r"CPython 3.11, 3.12, 3.13 with torch 2.11 to 2.13") as caught:
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
    with pytest.raises(RuntimeError, match="nothing to explain"):
        eager_only.explain(f)(1)
