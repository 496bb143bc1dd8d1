"""Whether native code may be loaded from a file: only this user (or root) can have written it.

Files and folders must belong to this user and be writable by nobody else. The folders above may
also belong to root, and may be writable by others where the sticky bit keeps those from replacing
what is not theirs (/tmp).
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600


def folder_distrust(folder: Path) -> str:
    """Say why an existing folder or a folder in it may hold what others wrote, "" if only this user
    can write there."""
    resolved = folder.resolve()
    inner = [path for path in resolved.iterdir() if path.is_dir()]
    reason = next(filter(None, map(own_distrust, (resolved, *inner))), "")
    for parent in () if reason else resolved.parents:
        found = parent.stat()
        if found.st_uid not in (0, os.getuid()):
            return f"{parent} belongs to {user_name(found.st_uid)}"
        if others_may_write(found) and not found.st_mode & stat.S_ISVTX:
            return f"others may write to {parent}"
    return reason


def own_distrust(path: Path) -> str:
    """Say why a file or folder by itself, its parents aside, may hold what others wrote."""
    found = path.stat()
    if found.st_uid != os.getuid():
        return f"{path} belongs to {user_name(found.st_uid)}"
    return f"others may write to {path}" if others_may_write(found) else ""


def others_may_write(found: os.stat_result) -> bool:
    """Whether somebody but the owner may write; a group that has no other member than its owner
    does not count."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not is_private_group(found.st_gid, found.st_uid)


def is_private_group(group: int, user: int) -> bool:
    """Whether a group is the user's own one, as many systems make for each user."""
    try:
        entry, owner = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return entry.gr_name == owner.pw_name and set(entry.gr_mem) <= {owner.pw_name}


def user_name(user: int) -> str:
    try:
        return f"user '{pwd.getpwuid(user).pw_name}'"
    except KeyError:
        return f"user {user}"
