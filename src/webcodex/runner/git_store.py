"""Says whether what Git would show of a Project is the Project's own (R-11, R-53); must never run Git.

A checkout from elsewhere can bring a `.git` that borrows the objects of another repository on this machine,
and a diff would show them. So a repository counts only where its objects are not borrowed: no alternates, no
links, and where its directory lies outside the Project, that directory has to name the Project in turn.
"""

import contextlib
import enum
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MAX_POINTER_BYTES: Final = 8192
_MAX_CONFIG_BYTES: Final = 1024 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WORKTREE: Final = re.compile(rb"^\s*worktree\s*=\s*\"?([^\"\n]*?)\"?\s*$", re.MULTILINE | re.IGNORECASE)


class Store(enum.Enum):
    """What a Project's root holds."""

    NONE = enum.auto()
    OWN = enum.auto()
    BORROWED = enum.auto()


class _Borrowed(Exception):
    """Something of the repository leads elsewhere."""


def of(root: int, root_path: str) -> Store:
    """Returns what repository an open root holds; one around the Project does not count.

    Raises:
        OSError: it cannot be looked at.

    """
    try:
        mode = os.stat(".git", dir_fd=root, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return Store.NONE
    try:
        if stat.S_ISDIR(mode):
            with _held(".git", root) as directory:
                if not _exists("HEAD", directory):
                    return Store.NONE
                _check_inside(directory)
        elif stat.S_ISREG(mode):
            _check_pointed(root, root_path)
        else:
            return Store.NONE
    except _Borrowed:
        return Store.BORROWED
    return Store.OWN


def _check_inside(directory: int) -> None:
    if _exists("commondir", directory):
        raise _Borrowed
    _check_objects(directory)


def _check_pointed(root: int, root_path: str) -> None:
    pointer = _content(".git", root, _MAX_POINTER_BYTES)
    if not pointer.startswith(b"gitdir: "):
        raise _Borrowed
    real_root = _real(Path(root_path), b"")
    target = _real(real_root, pointer.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    with _held(str(target)) as directory:
        if target.is_relative_to(real_root):
            _check_inside(directory)
            return
        if not (_names_as_worktree(target, directory, root) or _names_as_submodule(target, directory, root)):
            raise _Borrowed
        if not _exists("commondir", directory):
            _check_objects(directory)
            return
        common = _real(target, _content("commondir", directory, _MAX_POINTER_BYTES).strip())
        if target.parent != common / "worktrees":
            raise _Borrowed
        with _held(str(common)) as above:
            _check_objects(above)


def _real(base: Path, named: bytes) -> Path:
    if b"\0" in named:
        raise _Borrowed
    return Path(os.path.realpath(base / os.fsdecode(named)))


def _names_as_worktree(target: Path, directory: int, root: int) -> bool:
    named = os.fsdecode(_content("gitdir", directory, _MAX_POINTER_BYTES).strip())
    return named != "" and _is_same(target / named, os.stat(".git", dir_fd=root, follow_symlinks=False))


def _names_as_submodule(target: Path, directory: int, root: int) -> bool:
    found = _WORKTREE.search(_content("config", directory, _MAX_CONFIG_BYTES))
    return found is not None and _is_same(target / os.fsdecode(found[1]), os.fstat(root))


def _is_same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), status)
    except (OSError, ValueError):
        return False


def _check_objects(directory: int) -> None:
    """Refuses a repository whose index, objects or packs are links or stand elsewhere."""
    _check_no_links(directory)
    with _held("objects", directory) as objects:
        _check_no_links(objects)
        for name in ("info", "pack"):
            if _exists(name, objects):
                with _held(name, objects) as below:
                    _check_no_links(below)
                    if _exists("alternates", below):
                        raise _Borrowed


def _check_no_links(directory: int) -> None:
    with os.scandir(directory) as entries:
        if any(entry.is_symlink() for entry in entries):
            raise _Borrowed


@contextmanager
def _held(path: str, holder: int | None = None) -> Iterator[int]:
    try:
        descriptor = os.open(path, _DIRECTORY, dir_fd=holder)
    except (NotADirectoryError, FileNotFoundError, ValueError) as error:
        raise _Borrowed from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _content(name: str, directory: int, most_bytes: int) -> bytes:
    """Returns a small regular file whole; b"" where there is none or it is longer."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(name, _READ, dir_fd=directory)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                content = os.read(descriptor, most_bytes + 1)
                return content if len(content) <= most_bytes else b""
        finally:
            os.close(descriptor)
    return b""
