"""Compiled artifacts on disk: damaged, too many, built by two at once, nowhere to put them."""

from __future__ import annotations

import multiprocessing
import os
import time

import framejit
import pytest
import torch
from framejit import config
from framejit.backends.native.toolchain import compile_c
from framejit.backends.native.toolchain.artifact_cache import (
    ArtifactCache,
    cache_folder,
    content_key,
)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with config.patch(cache_dir=tmp_path):
        yield tmp_path


def writer(data, log=None):
    def build(path):
        path.write_bytes(data)
        if log is not None:
            log.append(data)

    return build


def test_built_once_and_found_again():
    log = []
    first = ArtifactCache("c").make("abcd", writer(b"1", log))
    assert (
        ArtifactCache("c").make("abcd", writer(b"2", log)) == first
        and first.read_bytes() == b"1"
        and log == [b"1"]
    )


def test_a_damaged_file_is_made_again_with_a_warning():
    cache = ArtifactCache("c")
    cache.make("abcd", writer(b"right")).write_bytes(b"wrong")
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert cache.make("abcd", writer(b"right")).read_bytes() == b"right"


def test_a_build_that_fails_leaves_nothing():
    def fails(path):
        path.write_bytes(b"half")
        raise RuntimeError("no")

    cache = ArtifactCache("c")
    with pytest.raises(RuntimeError, match="no"):
        cache.make("abcd", fails)
    assert cache.get("abcd") is None and [
        path.name for path in cache.path("abcd").parent.iterdir()
    ] == ["abcd.lock"]
    assert cache.make("abcd", writer(b"whole")).read_bytes() == b"whole"


def test_what_was_used_longest_ago_goes_first():
    cache = ArtifactCache("c", limit=25)
    for number, key in enumerate(("aaaa", "bbbb")):
        path = cache.make(key, writer(bytes(10)))
        os.utime(path, (number + 1, number + 1))
    assert cache.get("aaaa") is not None  # used just now
    cache.make("cccc", writer(bytes(10)))
    assert (
        cache.get("bbbb") is None
        and cache.get("aaaa") is not None
        and cache.get("cccc") is not None
    )


def slow_build(folder, barrier, results):
    def build(path):
        with open(folder / "log", "a") as log:
            log.write("built\n")
        time.sleep(0.2)
        path.write_text("whole")

    barrier.wait(timeout=60)
    results.put(ArtifactCache("c").make("abcd", build).read_text())


def test_two_processes_build_once(folder):
    forked = multiprocessing.get_context("fork")
    barrier, results = forked.Barrier(2), forked.Queue()
    both = [forked.Process(target=slow_build, args=(folder, barrier, results)) for _ in range(2)]
    for process in both:
        process.start()
    assert [results.get(timeout=60) for _ in both] == ["whole", "whole"]
    for process in both:
        process.join()
    assert (folder / "log").read_text() == "built\n"


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    x = torch.randn(4, 5)
    with config.patch(cache_dir=tmp_path / "file" / "cache"):
        with pytest.warns(RuntimeWarning, match="set FRAMEJIT_CACHE_DIR"):
            assert cache_folder("c").parent.exists()
        torch.testing.assert_close(
            framejit.compile(lambda x: torch.softmax(x * 2, -1), backend="native")(x),
            torch.softmax(x * 2, -1),
        )


def open_to_all(folder):
    folder.mkdir()
    folder.chmod(0o777)


def with_open_parent(folder):
    open_to_all(folder.parent)
    folder.mkdir(mode=0o700)


def of_another_user(folder):
    folder.mkdir()
    os.chown(folder, 12345, 12345)


def with_open_folder_inside(folder):
    folder.mkdir(mode=0o700)
    open_to_all(folder / "c")


UNTRUSTED = [open_to_all, with_open_parent, of_another_user, with_open_folder_inside]


@pytest.mark.parametrize("make", UNTRUSTED, ids=lambda make: make.__name__)
def test_a_folder_that_others_may_write_to_is_not_used(make, tmp_path):
    if make is of_another_user and os.getuid() != 0:
        with pytest.raises(PermissionError):  # root alone can make such a folder
            of_another_user(tmp_path / "cache")
        return
    folder = tmp_path / "above" / "cache"
    if make is not with_open_parent:
        folder.parent.mkdir()
    make(folder)
    with config.patch(cache_dir=folder):
        with pytest.warns(RuntimeWarning, match="is not used, because .* would be loaded from it"):
            path = ArtifactCache("c").make("abcd", writer(b"1"))
        assert not path.is_relative_to(folder) and path.read_bytes() == b"1"
        assert (
            ArtifactCache("c").make("abcd", writer(b"2")).read_bytes() == b"1"
        )  # in this process, without a second warning


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.chmod(0o666), lambda path: path.parent.chmod(0o777)],
    ids=["file", "folder"],
)
def test_a_file_that_others_may_write_to_is_made_again(spoil):
    cache = ArtifactCache("c")
    spoil(cache.make("abcd", writer(b"1")))
    assert cache.get("abcd") is None
    assert cache.make("abcd", writer(b"2")).read_bytes() == b"2"
    assert cache.get("abcd") is not None


def test_a_folder_below_one_with_the_sticky_bit_is_used(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    with config.patch(cache_dir=tmp_path / "tmp" / "cache"):
        assert cache_folder("c").is_relative_to(tmp_path)


def test_keys_tell_parts_apart():
    assert content_key("ab", "c") != content_key("a", "bc") and content_key("a") == content_key("a")


def test_kernels_are_compiled_once(monkeypatch):
    built = []
    original = compile_c._compile
    monkeypatch.setattr(
        compile_c, "_compile", lambda *args: (built.append(args), original(*args))[1]
    )
    for _ in range(2):
        framejit.compile(lambda x: torch.softmax(x * 2, -1), backend="native")(torch.randn(4, 5))
        framejit.reset()
    assert len(built) == 1


def test_a_processors_whole_vectors_are_used(tmp_path):
    command, identity, vector = compile_c.compiler()
    assert compile_c.flags_for("#define __AVX2__ 1") == compile_c.FLAGS
    compile_c._compile(
        command, compile_c.flags_for(identity), compile_c.PROBE, tmp_path / "probe.so", vector
    )
    widest = (
        "e"
        if "#define __AVX512F__ " in identity
        else "d"
        if "#define __AVX2__ " in identity
        else "b"
    )
    assert not vector or f"_ZGV{widest}N".encode() in (tmp_path / "probe.so").read_bytes()
