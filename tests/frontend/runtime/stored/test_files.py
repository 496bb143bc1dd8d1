"""Files of stored entries: damage, strangers, several writers, and size."""

from __future__ import annotations

import os
from concurrent import futures

import pytest
from framejit.frontend.runtime.stored import files
from framejit.frontend.runtime.stored.entry_writer import entry_writer
from framejit.frontend.runtime.stored.files import EntryFile, EntryFolder, StoredEntry
from framejit.frontend.runtime.stored.key import Key

KEY = Key("place", {"code": "a", "versions": "1"})


def entry(text, size=10):
    return StoredEntry(text.encode(), b"", b"x" * size, text)


@pytest.fixture
def folder(cache_dir):
    return EntryFolder()


@pytest.fixture
def path(folder, cache_dir):
    """A file with one entry."""
    add(folder, entry("one"))
    (found,) = (cache_dir / files.KIND).glob("??/*.entry")
    return found


def add(folder, one, key=KEY):
    """Adds an entry and returns the errors of writing it."""
    errors = []
    folder.add(key, one, errors.append)
    entry_writer.wait_for(folder._path(key))
    return errors


def names(folder, key=KEY):
    return [one.identity for one in folder.read(key)]


def test_the_newest_comes_first_and_replaces_its_equal(folder):
    for name in ("one", "two", "one"):
        add(folder, entry(name))
    assert names(folder) == ["one", "two"]


def test_old_entries_of_one_piece_of_code_go(folder):
    for number in range(files.MOST_ENTRIES + 2):
        add(folder, entry(str(number)))
    assert len(names(folder)) == files.MOST_ENTRIES and names(folder)[0] == "9"


def damage_a_byte(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def let_others_write(path):
    path.chmod(0o666)


@pytest.mark.parametrize("change", [damage_a_byte, truncate, empty, let_others_write])
def test_a_file_that_cannot_be_trusted_is_missing_and_written_anew(folder, path, change):
    change(path)
    assert names(folder) == []
    add(folder, entry("two"))
    assert names(folder) == ["two"]


def test_a_file_of_another_user_is_missing(path, monkeypatch):
    assert files.read_file(path) is not None
    monkeypatch.setattr(os, "getuid", lambda: os.stat(path).st_uid + 1)
    assert files.read_file(path) is None


def test_what_is_not_ours_is_never_unpickled(folder, path, monkeypatch):
    path.chmod(0o666)
    monkeypatch.setattr(EntryFile, "decode", lambda data: pytest.fail("it was"))
    assert names(folder) == []


def test_a_full_disk_is_an_error_and_leaves_the_old_file(folder, path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    (error,) = add(folder, entry("two"))
    assert error.strerror == "No space left on device"
    assert names(folder) == ["one"]
    assert [one.suffix for one in path.parent.iterdir() if one.suffix != ".lock"] == [".entry"]


def add_many(names_):
    for name in names_:
        add(EntryFolder(), entry(name))


def test_writers_at_once_lose_nothing(folder):
    with futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add_many([f"{number} a", f"{number} b"]), range(4)))
    assert len(names(folder)) == files.MOST_ENTRIES


def test_the_least_recently_used_go_first(folder, cache_dir):
    keys = [Key(f"a{number}", {}) for number in range(3)]
    for number, key in enumerate(keys):
        add(folder, entry("x", 1000), key)
        (found,) = (cache_dir / files.KIND).glob(f"??/a{number}-*.entry")
        os.utime(found, (number, number))
    folder.read(keys[0])  # used now
    files.trim(cache_dir / files.KIND, 2500)
    assert [len(names(folder, key)) for key in keys] == [1, 0, 1]


@pytest.mark.parametrize(
    "parts, told",
    [
        ({"code": "a", "versions": "2"}, "versions: '1' then, '2' now"),
        ({"code": "b", "versions": "1"}, "code: 'a' then, 'b' now"),
    ],
)
def test_a_miss_names_what_differs(folder, path, parts, told):
    assert folder.difference(Key("place", parts)) == told
    assert folder.difference(Key("elsewhere", parts)) == ""
