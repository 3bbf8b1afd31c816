"""Owns the Runner's state directory: one process at a time, and the `store_id` that stands for it (R-02)."""

import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webcodex.runner import private_files, toml_table

_STORE_ID: Final = re.compile(rb"[0-9a-f-]{36}")
_STORE_ID_FILE: Final = "store_id"
_LOCK_FILE: Final = "lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class StateDir:
    """A state directory that this process alone holds."""

    path: Path
    store_id: str


@contextmanager
def held(path: Path) -> Iterator[StateDir]:
    """Holds the state directory until the block ends; it is made when it is missing.

    The lock is on an open file that no child process inherits, so it ends with this process at the latest.

    Raises:
        BadConfiguration: another process holds it, it is not private, or it cannot be used.

    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        _check_private(path)
        lock = _lock(path / _LOCK_FILE)
    except OSError as error:
        raise toml_table.BadConfiguration("state_dir", "cannot be made or opened as a directory") from error
    try:
        yield StateDir(path=path, store_id=_store_id(path / _STORE_ID_FILE))
    finally:
        os.close(lock)


def _check_private(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise toml_table.BadConfiguration("state_dir", "must be a directory of this user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise toml_table.BadConfiguration("state_dir", "must be open to this user alone (mode 0700)")


def _lock(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise toml_table.BadConfiguration("state_dir", "is held by another Runner process") from None
    return descriptor


def _store_id(path: Path) -> str:
    try:
        content, _ = private_files.read(path, most_bytes=64)
    except FileNotFoundError:
        content = _new_store_id(path)
    except (private_files.NotPrivate, OSError) as error:
        raise toml_table.BadConfiguration("state_dir", "holds a store_id that cannot be read") from error
    if _STORE_ID.fullmatch(content) is None:
        raise toml_table.BadConfiguration("state_dir", "holds a store_id that is damaged")
    return content.decode()


def _new_store_id(path: Path) -> bytes:
    content = str(uuid.uuid4()).encode()
    try:
        private_files.write(path, content)
    except OSError as error:
        raise toml_table.BadConfiguration("state_dir", "cannot be written to") from error
    return content
