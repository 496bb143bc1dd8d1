"""What Python asks of objects on the way: each question is asked as often as in eager, in the same
order, and never while compiling."""

from __future__ import annotations

import collections
import enum
import functools
import types
import typing
from typing import ClassVar

import pytest

from ...semantics.harness import check, vec


class Sized:
    """Counts what it is asked."""

    def __init__(self, log):
        self.log = log

    def __len__(self):
        self.log.append("len")
        return 2

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2])


class Hinted:
    def __init__(self, log):
        self.log = log

    def __length_hint__(self):
        self.log.append("hint")
        return 3

    def __iter__(self):
        return iter([1, 2])


class Items:
    def __init__(self, log):
        self.log = log

    def __len__(self):
        self.log.append("len")
        return 2

    def __getitem__(self, index):
        if index > 1:
            raise IndexError
        return index


def test_making_a_list_asks_for_the_length():
    def f(x, log):
        made = [
            list(Sized(log)),
            tuple(Sized(log)),
            [*Sized(log)],
            sorted(Sized(log)),
            list(Hinted(log)),
            list(Items(log)),
            (lambda *a: a)(*Sized(log)),
        ]
        first, second = Sized(log)
        grown = [0]
        grown.extend(Sized(log))
        grown[1:1] = Sized(log)
        return x + first + second, made, [i for i in Sized(log)], set(Sized(log)), grown

    check(f, vec(2), [], fullgraph=True)


class Given:
    """A descriptor that gives what it is called with."""

    def __init__(self, made):
        self.made = made

    def __get__(self, obj, cls=None):
        return functools.partial(self.made, obj)


class Described(Hinted):
    __length_hint__ = Given(lambda self: self.log.append("described") or NotImplemented)


def test_lengths_that_descriptors_give():
    check(lambda x, log: (x + 1, list(Described(log))), vec(2), [], graphs=None, breaks=None)


class Missing(dict):
    __missing__ = Given(lambda self, key: len(self.asked.append(key) or self.asked))
    asked: ClassVar[list[str]] = []


def test_missing_keys_that_descriptors_answer():
    def f(x):
        Missing.asked.clear()
        return x + Missing()["a"] + Missing()["b"], list(Missing.asked)

    check(f, vec(2), graphs=None, breaks=None)


def test_a_length_that_fails():
    class Wrong(Sized):
        def __len__(self):
            raise TypeError("none")

    class Negative(Sized):
        def __len__(self):
            return -1

    def f(x, log):
        made = list(Wrong(log))
        try:
            list(Negative(log))
        except ValueError as error:
            made.append(str(error))
        return x + 1, made

    check(f, vec(2), [], graphs=None, breaks=None)


def test_unpacking_takes_one_item_too_many():
    def f(x, items):
        walked = iter(items)
        try:
            a, b = walked
        except ValueError as error:
            return x + 1, str(error), list(walked)
        return x, a, b

    check(f, vec(2), [1, 2, 3, 4, 5])


class Teller:
    """Its class is anybody's guess."""

    asked: ClassVar[list[str]] = []

    @property
    def __class__(self):
        Teller.asked.append("class")
        return int


class Asking(type):
    log: ClassVar[list[str]] = []

    def __instancecheck__(cls, obj):
        Asking.log.append("instance")
        return obj == 3

    def __subclasscheck__(cls, other):
        Asking.log.append("subclass")
        return other is int


class Three(metaclass=Asking):
    pass


def test_isinstance_asks_as_python_does():
    def f(x):
        Asking.log.clear()
        Teller.asked.clear()
        answers = [
            isinstance(3, Three),
            isinstance(4, (str, Three)),
            isinstance("a", (str, Three)),
            issubclass(int, Three),
            issubclass(str, Three),
        ]
        told = Teller()
        answers += [isinstance(told, int), isinstance(told, Teller), isinstance(told, str)]
        return x + 1, answers, list(Asking.log), list(Teller.asked)

    check(f, vec(2), graphs=None, breaks=None)


@typing.runtime_checkable
class Located(typing.Protocol):
    x: int
    y: int


@typing.runtime_checkable
class Closes(typing.Protocol):
    def close(self): ...


class Unchecked(typing.Protocol):
    def close(self): ...


class Closing:
    def close(self):
        pass


class Bare:
    pass


def test_a_protocol_looks_at_what_an_object_has_by_now():
    def f(x):
        bare = Bare()
        answers = [
            isinstance(bare, Located),
            isinstance(Closing(), Closes),
            isinstance(3, Located),
            issubclass(Closing, Closes),
        ]
        bare.x, bare.y = 1, 2
        answers += [isinstance(bare, Located), isinstance(bare, Closes), isinstance(x, Located)]
        match bare:
            case Closes():
                answers.append("closes")
            case Located(x=found):
                answers.append(found)
        try:
            answers.append(isinstance(bare, Unchecked))
        except TypeError as error:
            answers.append(str(error))
        return x + 1, answers

    check(f, vec(2), graphs=None, breaks=None)


@pytest.mark.parametrize("pattern", [Unchecked, 3])
def test_a_pattern_that_names_no_class_to_ask(pattern):
    def f(x):
        match Closing():
            case pattern():
                x = x + 1
        return x + 2

    check(f, vec(2), graphs=None, breaks=None)


def test_reversed():
    class Both(Items):
        def __reversed__(self):
            return iter("ab")

    def f(x, log):
        try:
            odd = reversed(3)
        except TypeError as error:
            odd = str(error)
        return (
            x + 1,
            list(reversed("abc")),
            list(reversed(Both(log))),
            list(reversed(Items(log))),
            odd,
        )

    check(f, vec(2), [], graphs=None, breaks=None)


class Emptying:
    """Comparing it empties a list."""

    def __init__(self, of):
        self.of = of

    def __eq__(self, other):
        self.of.clear()
        return NotImplemented


def test_comparing_lists_that_comparing_empties():
    def f(x):
        left, right = [], []
        left.append(Emptying(right))
        right.append(Emptying(left))
        equal = left == right
        third = []
        third.append(Emptying(third))
        return x + 1, equal, third == [1], left, right, third

    def searched(x):
        items = []
        items += [Emptying(items), 1, 2]
        return x + 1, 2 in items, items.count(1), items

    check(f, vec(2), fullgraph=True)
    check(searched, vec(2), fullgraph=True)


def test_sets_that_grow_under_a_loop():
    def f(x, members):
        seen = []
        try:
            for member in members:
                seen.append(member)
                members.update([4])
        except RuntimeError as error:
            return x + 1, seen, str(error)
        return x * 2, seen

    def broken(x, members):
        seen = []
        try:
            for member in members:
                seen.append(member)
                print(member)
                members.add(9)
        except RuntimeError as error:
            return x + 1, seen, str(error)
        return x, seen

    check(f, vec(2), {1, 2, 3}, graphs=None, breaks=None)
    check(f, vec(2), {4}, graphs=None, breaks=None)
    check(broken, vec(2), {1, 2, 3}, graphs=None, breaks=None)


def test_a_very_long_repetition_is_pythons():
    def f(x):
        try:
            [0] * (1 << 62)
        except MemoryError:
            x = x + 1
        try:
            return [0] * 1.5
        except TypeError as error:
            return x, str(error), len([0] * (1 << 17))

    check(f, vec(2), graphs=None, breaks=None)


class Clearing(str):
    of: ClassVar[dict] = {}
    __slots__ = ()

    def __eq__(self, other):
        Clearing.of.clear()
        return NotImplemented

    def __hash__(self):
        return hash("test")


def test_keys_that_compare_themselves():
    def f(x):
        Clearing.of.clear()
        Clearing.of[Clearing()] = 1
        found = "test" in Clearing.of
        return x + 1, found, len(Clearing.of)

    check(f, vec(2), graphs=None, breaks=None, lines=False)


def test_names_that_are_no_strings():
    class Key:
        def __hash__(self):
            return hash("attr")

        def __eq__(self, other):
            raise ValueError("asked")

    made = type("Made", (), {Key(): 5, "other": 3})

    def of_class(x):
        return x + made.attr

    def of_object(x):
        obj = types.SimpleNamespace()
        obj.__dict__[Key()] = 0
        return x + obj.attr

    check(of_class, vec(2), graphs=None, breaks=None)
    check(of_object, vec(2), graphs=None, breaks=None)


def test_classes_whose_bases_change():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    def f(x, to):
        was = C.__bases__, C.__mro__, C.__name__
        C.__bases__, C.__name__ = (to,), to.__name__
        now = told()
        C.__bases__, C.__name__ = (A,), "C"
        return x + 1, was, now, told()

    def told():
        return C.__bases__, C.__mro__, C.__name__

    check(f, vec(2), B, graphs=None, breaks=None)


def test_super_objects_that_outlive_a_break():
    class Base:
        @property
        def named(self):
            return "base"

        def told(self):
            return "told"

    class Derived(Base):
        @classmethod
        def of_class(cls):
            return super().named

        def told(self):
            above = super()
            print("here")
            return above.told(), above.named

    def f(x):
        return x + 1, Derived.of_class() is Base.named, Derived().told()

    check(f, vec(2), graphs=None, breaks=None)


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


def test_named_tuples_refuse_and_are_pickled():
    def f(x):
        p = Point(1, 2)
        try:
            p._replace(x=1, error=2)
        except (ValueError, TypeError) as error:
            return x + 1, str(error), p._replace(y=5), p.__reduce_ex__(2)[1:]
        return x

    check(f, vec(2), graphs=None, breaks=None)


def test_modules_whose_class_changes():
    class Kind(types.ModuleType):
        a = 1

    def f(x):
        m = types.ModuleType("m")
        seen = [hasattr(m, "a")]
        m.__class__ = Kind
        seen += [m.__class__ is Kind, hasattr(m, "a")]
        m.__class__ = types.ModuleType
        return x + 1, seen, m.__class__ is types.ModuleType, hasattr(m, "a")

    check(f, vec(2), graphs=None, breaks=None, again=False)


def test_modules_that_hide_their_dictionaries():
    class Kind(types.ModuleType):
        @property
        def __dict__(self):
            return "no dictionary"

    m = Kind("m")
    m.a = 3

    def f(x):
        return x + m.a, vars(m)

    check(f, vec(2), graphs=None, breaks=None)


def test_enums_are_made():
    def f(x):
        class Colour(enum.Flag):
            RED = 1
            BLUE = 2

            def __repr__(self):
                return "c:" + self._name_

        return x + 1, repr(Colour.RED), str(Colour.BLUE | Colour.RED), [m.value for m in Colour]

    check(f, vec(2), graphs=None, breaks=None, again=False)


@pytest.mark.parametrize("bad", [["a"], [("a", 1, 2)], [3], [{1, 2}, {3}]])
def test_dictionaries_refuse_pairs(bad):
    def f(x, bad):
        made = {}
        try:
            made.update([("first", 1), *bad])
        except (TypeError, ValueError) as error:
            return x + 1, str(error), made
        return x

    check(f, vec(2), bad, graphs=None, breaks=None)


class Meta(type):
    def __eq__(cls, other):
        return cls is other


class Unhashable(metaclass=Meta):
    kept = 3

    def told(self):
        return self.kept


def test_classes_without_a_hash():
    check(lambda x: (x + Unhashable().told(), Unhashable.kept), vec(2), graphs=None, breaks=None)


def test_methods_of_a_metaclass_through_super_of_a_class():
    class Outer(type):
        pass

    def f(x):
        made = Outer("made", (), {})
        super(Outer, type(made)).__setattr__(made, "bar", 1)
        return x + made.bar

    check(f, vec(2), graphs=None, breaks=None, again=False)


class Called:
    pass


Called.__call__ = Called()


def test_calls_without_an_end():
    def f(x):
        try:
            Called()()
        except RecursionError:
            return x + 1
        return x

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


class ReadOnly:
    def __init__(self, made):
        self.made = made

    def __get__(self, obj, cls=None):
        return obj.__dict__.setdefault("kept", self.made(obj))

    def __set__(self, obj, value):
        raise AttributeError("read only")


class Keeping:
    kept = ReadOnly(lambda self: 5)


def test_what_is_stored_behind_a_descriptor():
    def f(x, keeping):
        return x + keeping.kept + keeping.kept, keeping

    check(f, vec(2), Keeping(), graphs=None, breaks=None)


def test_very_long_lists_are_pythons():
    check(
        lambda x, items: (x + 1, len(repr(items))), vec(2), [0] * 300_000, graphs=None, breaks=None
    )


def closing():
    try:
        yield 1
    except GeneratorExit:
        return 2


def test_what_a_closed_generator_returns():
    def f(x):
        waiting = closing()
        return x + next(waiting), waiting.close(), waiting.close()

    check(f, vec(2), fullgraph=True)
