"""Regular expressions and their matches, which are left to Python."""

import re

import framejit
import torch

from .harness import check, vec

RELEASE = re.compile(r"(?P<major>\d+)\.(?P<minor>\d+)(?P<rest>.*)")


def test_the_parts_of_a_text():
    def f(x):
        found = RELEASE.fullmatch("5.24rc1")
        if not found or RELEASE.match("none"):
            return x
        major, minor = map(int, found.groups()[:2])
        return x * major + minor, found.group("rest"), found["minor"], found.span(2), found.string

    check(f, vec(2), graphs=None, breaks=None)


def test_a_pattern_is_an_argument():
    def f(x, pattern):
        return x + 1, pattern.sub("b", "banana"), pattern.pattern, pattern == RELEASE

    for pattern in ("a", "n"):
        check(f, vec(2), re.compile(pattern), graphs=None, breaks=None)


def test_a_group_that_is_not_there():
    def f(x):
        try:
            return RELEASE.match("1.2").group("patch")
        except IndexError as error:
            return x + 1, str(error)

    check(f, vec(2), graphs=None, breaks=None)


def test_a_pattern_changes():
    def f(x, pattern):
        return x * 2 if pattern.search("banana") else x

    compiled = framejit.compile(f, backend="eager")
    for text in ("an", "o", "an"):
        given = torch.ones(2), re.compile(text)
        assert torch.equal(compiled(*given), f(*given))


def test_a_function_makes_the_replacement():
    def f(x, seen):
        text = RELEASE.sub(lambda found: seen.append(found.group()) or "-", "1.2 3.4")
        return x + 1, text, seen

    check(f, vec(2), [], graphs=None, breaks=None)


def test_a_text_that_differs_in_each_call_is_not_compiled_for():
    def f(x, text):
        found = RELEASE.match(text)
        return x + 1, found.group()

    compiled = framejit.compile(f, backend="eager")
    for number in range(12):
        x, text = torch.ones(2), f"{number}.0"
        assert compiled(x, text)[1] == text
