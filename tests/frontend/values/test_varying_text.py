"""Texts that vary: names and tags that are formatted, stored or passed on. Two compiles are enough
for any number of them."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict

import framejit
import pytest
import torch

NAMES = [f"run{k}" for k in range(10)]


class Tagged:
    def __init__(self, tag=""):
        self.tag = tag
        self.logged = {}

    def log(self, name, value):
        self.logged[name] = value


def formatted(x, name):
    return x + 1, f"{name}: {x.dim()}", f"<{name!r:>12}|{name:<9}>", "{}/{:>8}".format(name, 2)


def filled_in(x, name):
    return x + 1, "%s" % name, "%s-%d" % (name, 3), "%-9s|%%" % name  # noqa: UP031


def concatenated(x, name):
    return x + 1, name + "/loss", "train/" + name + ("!" + name)


def joined(x, name):
    return x + 1, "/".join([name, "loss"]), name.join(("a", "b", "c"))


def changed(x, name):
    return x + 1, name.upper() + name.replace("n", "k").strip("r"), name.removeprefix("ru").title()


def converted(x, name):
    return x + 1, str(name), repr(name), format(name), isinstance(name, str)


def given_back(x, name):
    return x + 1, name, [name], {"name": name}, (name, 1)


def stored_as_attribute(x, name):
    run = Tagged(f"[{name}]")
    run.last = name
    return x + 1, run.tag, run.last


def none_or_empty(x, name=None):
    prefix = "" if name is None else name
    return x + 1, f"{prefix}/loss" if prefix else "loss"


def compared(x, name):
    if name == "test" or "val" != name:
        x = x + 1
    return x * 2 if name.startswith("run") and "/" not in name else x, name.endswith("k")


def key_of_a_display(x, name):
    return {f"{name}_loss": x.sum(), f"{name}_max": x.max(), "loss": x.mean()}


def key_of_a_comprehension(x, name):
    found = {"loss": x.sum(), "max": x.max()}
    return {f"{name}/{key}": value for key, value in found.items()}


def key_in_a_tuple(x, name):
    return {(name, 1): x + 1, (name, "a"): x}


def key_of_stores(x, name):
    found = OrderedDict()
    found[name] = x.sum()
    found["loss"] = x.mean()
    found[name] = x.max()
    return found


def key_of_an_update(x, name):
    found = {"loss": 0}
    found.update({name + "/loss": x.sum(), name + "/max": x.max()})
    return {**found, name: 1}


def same_text_twice(x, name):
    return x + 1, name is name, {name: 1, name + "": 2}


CASES = (
    formatted, filled_in, concatenated, joined, changed, converted, given_back,
    stored_as_attribute, none_or_empty, compared, key_of_a_display, key_of_a_comprehension,
    key_in_a_tuple, key_of_stores, key_of_an_update, same_text_twice,
)  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_two_compiles_are_enough(f):
    handle = framejit.compile(f, backend="eager")
    for name in NAMES:
        x = torch.randn(3)
        assert repr(handle(x, name)) == repr(f(x, name))
    assert handle.framejit.compiles <= 2, handle.framejit.explain()
    assert not handle.framejit.explain().breaks


def first_letter(x, name):
    return x + 1, name[0]


def number_of_letters(x, name):
    return x + 1, len(name)


def parts(x, name):
    return x + 1, name.split("u"), [letter for letter in name]  # noqa: C416


def looked_up(x, name):
    return x + {"run1": 1, "run2": 2}.get(name, 0)


def in_a_set(x, name):
    return x + (name in {"run1", "run2"}), {name, "run3"}


def equal_to_another(x, name):
    return (x if f"{name}!" == "run3!" else x + 1), name == f"run{x.dim()}"


def read_after_a_store(x, name):
    found = {"run3": x, "run5": x + 5}
    found[name] = x + 1
    return found["run3"], len(found), list(found), found


def stored_before_and_after(x, name):
    found = {name: x, "run4": x + 4}
    found[name] = x + 1
    found["run4"] = x + 2
    return found, found.pop(name)


def deleted_after_a_store(x, name):
    found = {"run3": x}
    found[name] = x + 1
    del found["run3"]
    return found


DECIDING = (
    first_letter, number_of_letters, parts, looked_up, in_a_set, equal_to_another,
    read_after_a_store, stored_before_and_after, deleted_after_a_store,
)  # fmt: skip


@pytest.mark.parametrize("f", DECIDING, ids=lambda f: f.__name__)
def test_a_text_that_decides_is_that_of_each_call(f):
    handle = framejit.compile(f, backend="eager")
    for name in NAMES[:7]:
        x = torch.randn(3)
        try:
            expected = f(x, name)
        except KeyError as error:
            with pytest.raises(KeyError, match=str(error)):
                handle(x, name)
            continue
        assert repr(handle(x, name)) == repr(expected)


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda: defaultdict(list)])
def test_an_existing_dictionary_is_written_under_names_that_vary(kind):
    def f(x, found, name, step):
        found[name] = x.sum()
        found[step] = name
        found[name, step] = 1
        return x + 1

    handle = framejit.compile(f, backend="eager")
    mine, its = kind(), kind()
    for step, name in enumerate((*NAMES, *NAMES)):
        x = torch.full((3,), step)
        assert handle(x, mine, name, step).equal(f(x, its, name, step))
    assert repr(mine) == repr(its)
    assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_a_dictionary_may_grow_before_an_item_is_stored():
    def f(x, found):
        found["loss"] = x.sum()
        return x + 1

    handle = framejit.compile(f, backend="eager")
    for found in ({}, {"loss": 1}, {"a": 1}, {1: 2, "loss": 3, (): 4}):
        mine, its = dict(found), dict(found)
        handle(torch.ones(3), mine)
        f(torch.ones(3), its)
        assert repr(mine) == repr(its)
    assert handle.framejit.compiles == 1


def test_what_was_stored_is_read_without_its_dictionary():
    def f(x, found, name):
        found["a"] = x + 1
        found["b"] = found["a"] * 2 + found["c"]
        present = "a" in found, "d" in found
        found[name] = found.get("a")
        return present, found["b"], len(found)

    handle = framejit.compile(f, backend="eager")
    for name in ("a", "b", "c", "k"):
        for found in ({"c": 3}, {"c": 3, "d": 4}, {"a": 1, "c": 2}):
            mine, its = dict(found), dict(found)
            assert repr(handle(torch.ones(3), mine, name)) == repr(f(torch.ones(3), its, name))
            assert repr(mine) == repr(its)


def test_stores_before_a_break_are_made_once():
    def f(x, found, name):
        found[name] = x + 1
        print(name, len(found))
        found[name + "!"] = found[name] * 2
        return found

    handle = framejit.compile(f, backend="eager")
    mine, its = {}, {}
    for name in NAMES:
        handle(torch.ones(2), mine, name)
        f(torch.ones(2), its, name)
        assert repr(mine) == repr(its)


def test_an_unhashable_key_raises_where_it_is_stored():
    def f(x, found, name):
        try:
            found[name, []] = 1
        except TypeError as error:
            return x + 1, str(error)
        return x

    handle = framejit.compile(f, backend="eager")
    for name in NAMES[:4]:
        expected, got = f(torch.ones(2), {}, name), handle(torch.ones(2), {}, name)
        assert repr(got) == repr(expected)


def test_a_module_logs_under_names_that_vary():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.run = Tagged()

        def forward(self, x, stage):
            self.run.log(stage + "/loss", x.mean())
            self.run.log(f"{self.run.tag}/max", x.max())
            return x * 2

    model = Model()
    handle = framejit.compile(model.forward, backend="eager")
    for name in NAMES:
        model.run.tag = name.upper()
        handle(torch.ones(3), name)
    keys = [key for name in NAMES for key in (f"{name}/loss", f"{name.upper()}/max")]
    assert list(model.run.logged) == keys
    assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_a_logger_writes_the_text_of_each_call(caplog):
    logger = logging.getLogger("framejit_test_varying_text")
    logger.setLevel(logging.INFO)

    def f(x, name, step):
        y = x * 2
        logger.info(f"{name} {step}")
        logger.info("%s has %d", name, step)
        return y + 1

    handle = framejit.compile(f, backend="eager")
    with caplog.at_level(logging.INFO, logger=logger.name):
        for step, name in enumerate(NAMES):
            handle(torch.ones(3), name, step)
    expected = [text for step, n in enumerate(NAMES) for text in (f"{n} {step}", f"{n} has {step}")]
    assert caplog.messages == expected
    assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_the_code_after_a_break_takes_texts_that_vary():
    def f(x, name):
        text = f"{name}/loss"
        name = name + "!"
        y = x * 2
        print("")
        return y + 1, text, name

    handle = framejit.compile(f, backend="eager")
    for name in NAMES:
        assert repr(handle(torch.ones(3), name)) == repr(f(torch.ones(3), name))
    assert handle.framejit.compiles <= 4, handle.framejit.explain()


def test_no_text_varies_where_nothing_is_dynamic():
    def f(x, name):
        return x + 1, f"{name}!"

    handle = framejit.compile(f, backend="eager", dynamic=False)
    for name in NAMES[:4]:
        assert handle(torch.ones(3), name)[1] == f"{name}!"
    assert handle.framejit.compiles == 4
