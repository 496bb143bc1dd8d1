"""Weak references: asked behind changes that take the last reference to their object, they lead
nowhere; what they are equal to."""

from __future__ import annotations

import weakref

import framejit
import pytest
import torch

from ...semantics.harness import check, strict_compile, vec


class Node:
    pass


class Slotted:
    __slots__ = ("__weakref__", "child")


HELD = Node()


def attribute_replaced(x, node, r):
    node.child = None
    return x + 1, r() is None


def slot_replaced(x, node, r):
    node.child = None
    return x + 1, r() is None


def another_attribute_replaced(x, node, r):
    node.other = [1]
    node.count = 3
    return x + 1, r() is None


def above_replaced(x, node, r):
    node.child.child = 1
    node.child = node.child.child
    return x + 1, r() is None


@framejit.disable
def is_gone(r):
    return r() is None


def gone_at_a_break(x, node, r):
    node.child.child = 1
    node.child = None
    gone = is_gone(r)
    return x + 1, gone


def tensor_replaced(x, node, r):
    x = x * 2
    return x + 1, r() is None


def list_emptied(x, items, r):
    items.clear()
    return x + 1, r() is None


def list_added_to(x, items, r):
    items.append(3)
    return x + 1, r() is None


def list_reordered(x, items, r):
    items.insert(0, len(items))
    return x + 1, r() is None


def key_deleted(x, found, r):
    del found["a"]
    return x + 1, r() is None


def key_set(x, found, r):
    found["b"] = 1
    return x + 1, r() is None


def iterator_advanced(x, items, r):
    next(items)
    return x + 1, r() is None


def iterator_exhausted(x, items, r):
    for _ in items:
        pass
    return x + 1, r() is None


def global_replaced(x, _, r):
    global HELD
    HELD = 1
    return x + 1, r() is None


def variable_deleted(x, _, r):
    node = Node()
    r = weakref.ref(node)
    y = x + 1
    del node
    return y, r() is None


def variable_kept(x, _, r):
    node = Node()
    r = weakref.ref(node)
    y = x + 1
    return y, r() is None


def container(make, get):
    def made():
        it = make()
        return it, weakref.ref(get(it))

    return made


def node(cls=Node):
    made = cls()
    made.child = Node()
    return made


def in_a_global():
    global HELD
    HELD = Node()
    return None, weakref.ref(HELD)


a_node = container(node, lambda it: it.child)
a_list = container(lambda: [Node()], lambda it: it[0])


def an_iterator():
    items = [Node(), Node()]
    return iter(items), weakref.ref(items[0])


a_dict = container(lambda: {"a": Node()}, lambda it: it["a"])


@pytest.mark.parametrize(
    ("f", "make", "whole"),
    [(attribute_replaced, a_node, False), (slot_replaced, container(lambda: node(Slotted), lambda it: it.child), False),
     (another_attribute_replaced, a_node, True), (above_replaced, a_node, False), (gone_at_a_break, a_node, False),
     (tensor_replaced, a_node, True), (list_emptied, a_list, False), (list_added_to, a_list, True), (list_reordered, a_list, True), (key_deleted, a_dict, False), (key_set, a_dict, True), (global_replaced, in_a_global, False),
     (iterator_advanced, an_iterator, True), (iterator_exhausted, an_iterator, False),
     (variable_deleted, a_list, False), (variable_kept, a_list, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_asked_behind_a_change(f, make, whole):
    handle = strict_compile(f, backend="eager", fullgraph=whole)
    for _ in range(3):
        assert str(handle(vec(2), *make())) == str(f(vec(2), *make()))


def test_a_module_that_counts_and_keeps_stays_whole():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls, self.history = torch.nn.LSTM(3, 3), 0, []

        def forward(self, x):
            self.calls += 1
            self.history.append(self.calls)
            return self.layer(x)[0]

    model = Model()
    handle = framejit.compile(
        model, backend="eager", fullgraph=True
    )  # an LSTM looks at its weights through weak references
    for _ in range(3):
        handle(torch.ones(2, 1, 3))
    assert model.history == [1, 2, 3]


class Kept:
    pass


KEPT = Kept()
PLAIN, CALLING = weakref.ref(KEPT), weakref.ref(KEPT, lambda ref: None)


def test_weak_references_are_equal_as_what_they_lead_to():
    def f(x):
        both = [weakref.ref(KEPT), weakref.ref(KEPT)]
        return (
            x + 1,
            PLAIN == CALLING,
            PLAIN is CALLING,
            PLAIN != CALLING,
            PLAIN in [CALLING],
            PLAIN == 3,
            both[0] is both[1],
            both[0] == CALLING,
        )

    check(f, vec(2))


def new_of_a_global(x, node):
    made = weakref.ref(KEPT)
    return x + 1, made, made is PLAIN, made is weakref.ref(KEPT), made() is KEPT, {"a": made}


def new_of_an_argument(x, node):
    made = weakref.ref(node)
    return x + 1, made() is node, made is weakref.ref(node), made == PLAIN


def new_behind_a_change(x, node):
    made = weakref.ref(node.child)
    node.child = None
    return x + 1, made() is None


def new_of_what_is_made(x, node):
    made = Node()
    reference = weakref.ref(made)
    return x + 1, reference() is made


def new_of_a_list(x, node):
    try:
        weakref.ref(ITEMS)
    except TypeError as error:
        return x + 1, str(error)


def new_with_a_callback(x, node):
    return x + 1, weakref.ref(node, print)() is node


ITEMS = [1]


@pytest.mark.parametrize(
    ("f", "breaks"),
    [(new_of_a_global, 0), (new_of_an_argument, 0), (new_behind_a_change, 1),
     (new_of_what_is_made, 1), (new_of_a_list, 0), (new_with_a_callback, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_made_in_the_frame(f, breaks):
    handle = strict_compile(f, backend="eager")
    for _ in range(3):
        given, other = node(), node()
        want, got = f(vec(2), given), handle(vec(2), other)
        assert torch.equal(got[0], want[0]) and str(got[1:]) == str(want[1:])
    assert len(handle.framejit.explain().breaks) == breaks


def registered_and_removed(x, layer):
    handle = layer.register_forward_hook(lambda module, args, result: result * 2)
    first = layer(x)
    handle.remove()
    return first, layer(x), len(layer._forward_hooks)


def registered(x, layer):
    layer.register_forward_hook(doubled)
    return layer(x), len(layer._forward_hooks)


@pytest.mark.parametrize("f", [registered_and_removed, registered])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_hooks_of_modules(f, backend):
    handle = strict_compile(f, backend=backend, fullgraph=True)
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    other.load_state_dict(one.state_dict())
    for _ in range(2):
        want, got = f(vec(2), one), handle(vec(2), other)
        for left, right in zip(want, got, strict=True):
            torch.testing.assert_close(right, left)
        want[0].sum().backward()
        got[0].sum().backward()
        torch.testing.assert_close(other.weight.grad, one.weight.grad)


def doubled(module, args, result):
    return result * 2


def test_a_weak_reference_that_leads_nowhere():
    gone = weakref.ref(Kept())

    def f(x):
        return x + 1, gone() is None, gone == PLAIN, gone == gone, gone != PLAIN

    check(f, vec(2))
