"""Paths made of texts that vary."""

from __future__ import annotations

import os

import framejit
import torch


def checkpoint(x, folder, step):
    path = os.path.join(folder, "kept", f"step-{step}.pt")
    parts = os.path.basename(path), os.path.dirname(path), os.path.normpath(path + "/..")
    return x * 2, path, *parts


def test_paths_of_numbers_and_texts_that_vary():
    handle = framejit.compile(checkpoint, backend="eager")
    for folder in ("/a", "b/", "", "/a/b/../c"):
        for step in range(4):
            got, expected = handle(torch.ones(2), folder, step), checkpoint(X, folder, step)
            assert got[1:] == expected[1:]
    assert handle.framejit.compiles <= 4


def test_what_is_no_text_is_joined_by_pythons_own_code():
    def f(x, folder, step):
        try:
            return x, os.path.join(folder, step)
        except TypeError as error:
            return x, str(error)

    handle = framejit.compile(f, backend="eager")
    for step in (1, "a", b"b", 2, "c", None):
        for folder in ("/a", "b"):
            assert handle(X, folder, step)[1] == f(X, folder, step)[1]


X = torch.ones(2)
