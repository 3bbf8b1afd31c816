"""What a path names: absolute or not, its resolved form, and whether it lies inside a project root.

``os`` costs more to import than the checks take, so on POSIX the usual case, a path without links, is
decided by the system calls alone. Paths are UTF-8 in every locale: a configuration says so, and the
interpreter's own coding of file names follows the environment (A-84).
"""

import sys

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_KIND = 0o170000
_LINK = 0o120000
_DIRECTORY = 0o040000


def native(path: str) -> "str | bytes":
    """The path as a system call takes it.

    Raises:
        ValueError: if the file system cannot hold such a name.
    """
    if sys.platform == "win32":
        return path
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return path if path.isascii() else path.encode("utf-8", "surrogateescape")


def argument(word: str) -> str:
    """A word of the command line, or of the interpreter, as the same word of a configuration is read."""
    if sys.platform == "win32":
        return word
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        coded = word.encode(sys.getfilesystemencoding(), "surrogateescape")
        return coded.decode("utf-8", "surrogateescape")


def is_absolute(path: str) -> bool:
    """Whether the path starts at a root of the file system and holds no NUL."""
    if sys.platform == "win32":
        from ntpath import splitdrive  # only here is it needed

        drive, rest = splitdrive(path)
        return bool(drive) and rest[:1] in {"\\", "/"} and "\0" not in path
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return path.startswith("/") and "\0" not in path


def is_directory(path: str) -> bool:
    """Whether the path leads to a directory, links followed.

    Raises:
        OSError: if it cannot be looked up.
        ValueError: if the file system cannot hold such a name.
    """
    return system.stat(native(path)).st_mode & _KIND == _DIRECTORY


def resolved(path: str) -> str:
    """The path with every link, ``.`` and ``..`` followed, what does not exist kept as written.

    Raises:
        OSError: if a link cannot be followed.
        ValueError: if the file system cannot hold such a name.
    """
    if sys.platform != "win32" and _is_plain(path):
        return path
    import os.path  # costly, and rarely needed

    found = os.path.realpath(native(path))
    return found if isinstance(found, str) else found.decode("utf-8", "surrogateescape")


def is_inside(path: str, root: str) -> bool:
    """Whether the path is the directory ``root`` or lies beneath it, by the identity of each directory above.

    Identity, not spelling: another case or normal form of the root's name changes nothing (A-97).

    Raises:
        OSError: if the root itself cannot be looked up.
        ValueError: if the file system cannot hold such a name.
    """
    place = system.stat(native(root))
    above = path
    while True:
        try:
            found = system.stat(native(above))
        except OSError:  # what does not exist is judged by the directory it would be in
            found = None
        if found is not None and (found.st_dev, found.st_ino) == (place.st_dev, place.st_ino):
            return True
        higher = parent(above)
        if higher == above:
            return False
        above = higher


def identity(path: str) -> tuple[int, int]:
    """Device and file number of what the path leads to, links followed.

    Raises:
        OSError: if it cannot be looked up.
        ValueError: if the file system cannot hold such a name.
    """
    found = system.stat(native(path))
    return found.st_dev, found.st_ino


def upward(path: str) -> "Iterator[str]":
    """The path and every directory above it by its spelling, nearest first."""
    place = path
    while True:
        yield place
        above = parent(place)
        if above == place:
            return
        place = above


def has_entry(folder: str, name: str) -> bool:
    """Whether the directory has an entry of this name, whatever it is.

    Raises:
        OSError: if it cannot be looked up.
    """
    try:
        system.lstat(native(f"{folder}/{name}"))
    except FileNotFoundError:
        return False
    return True


def within(folder: str, name: str) -> str:
    """The path of an entry of the directory, spelled as this platform does."""
    if sys.platform == "win32":
        return folder.rstrip("\\/") + "\\" + name
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return f"{folder.rstrip('/')}/{name}"


def parent(path: str) -> str:
    """The directory that the path is in, by its spelling; a root is in itself."""
    if sys.platform == "win32":
        from ntpath import dirname  # only here is it needed

        return dirname(path)
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return path[: path.rstrip("/").rfind("/")] or "/"


def _is_plain(path: str) -> bool:
    """Whether the path is written in its resolved form already: no link, no ``.``, no doubled slash."""
    if path == "/":
        return True
    parts = path.split("/")
    if parts[0] or any(part in {"", ".", ".."} for part in parts[1:]):
        return False
    for count in range(2, len(parts) + 1):
        try:
            mode = system.lstat(native("/".join(parts[:count]))).st_mode
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if mode & _KIND == _LINK:
            return False
    return True
