"""Where objects keep their attributes."""

import threading

import framejit
import pytest
import torch


class Munch(dict):
    """A dictionary with its items as attributes, whose `__dict__` is a copy (munch has this)."""

    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, name)
        except AttributeError:
            return self[name]

    @property
    def __dict__(self):
        return {**self, "copied": True}


def test_a_dict_attribute_of_the_classs_own():
    config = Munch(scale=0.5, inner=Munch(shift=2.0))

    def function(x):
        named = config.__dict__
        return x * config.scale + config.inner.shift, sorted(named), vars(config)["copied"]

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert str(compiled(x)) == str(function(x))
    config["scale"] = 3.0
    assert str(compiled(x)) == str(function(x))


class PerThread(threading.local):
    shift = 1.0


class StartsInEachThread(threading.local):
    def __init__(self, scale):
        self.starts, self.scale, self.calls = threading.get_ident(), scale, 0


def test_attributes_of_each_thread():
    plain, derived = threading.local(), PerThread()
    plain.scale = 2.0

    def function(x):
        y = x * plain.__dict__.get("scale", 3.0) + derived.shift
        plain.calls = getattr(plain, "calls", 0) + 1
        if hasattr(derived, "gone"):
            del derived.gone
        return y, sorted(vars(plain)), plain.calls, vars(derived) is derived.__dict__

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    results = []

    def run():
        for setting in ({}, {"shift": 5.0, "gone": 1}):
            vars(derived).update(setting)
            state = dict(vars(plain))
            got = str(compiled(torch.ones(2)))
            left = dict(vars(plain)), dict(vars(derived))
            vars(plain).clear()
            vars(plain).update(state)
            vars(derived).update(setting)
            results.append((got, left))
            results.append((str(function(torch.ones(2))), (dict(vars(plain)), dict(vars(derived)))))

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(results) == 8
    assert results[::2] == results[1::2]
    assert "scale" in results[0][0] and "scale" not in results[4][0]


def test_a_thread_local_object_that_python_fills():
    filled = StartsInEachThread(2.0)

    def function(x):
        filled.calls += 1
        return x * filled.scale, filled.starts, filled.calls

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    found = []

    def run():
        for calls in (1, 2):
            found.append(compiled(torch.ones(2)))
            assert str(found[-1]) == str((torch.ones(2) * 2, threading.get_ident(), calls))

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(found) == 4


class RefusesThreads(threading.local):
    def __init__(self, allowed):
        if threading.get_ident() not in allowed:
            raise RuntimeError("not in this thread")
        self.scale = 2.0


def test_a_thread_local_object_that_raises_in_a_thread():
    refuses = RefusesThreads([threading.get_ident()])

    def function(x):
        return x * refuses.scale

    compiled = framejit.compile(function, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    found = []

    def run():
        with pytest.raises(RuntimeError, match="not in this thread"):
            compiled(torch.ones(2))
        found.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found


def test_a_new_thread_local_object_is_left_to_python():
    def function(x):
        created = StartsInEachThread(3.0)
        created.calls = 5
        return x * created.scale, created

    compiled = framejit.compile(function, backend="eager")
    result, created = compiled(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 3.0))
    found = []
    thread = threading.Thread(target=lambda: found.append((created.scale, created.calls)))
    thread.start()
    thread.join()
    assert (created.calls, found) == (5, [(3.0, 0)])
