"""Reads and makes files that only their owner may touch; must never follow a link to one."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotPrivate(Exception):
    """The file is not a regular, single-link file of its owner alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What makes a file or directory that one and no other, whatever its name."""

    dev: int
    ino: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Identity":
        """Returns the identity of a file by its status."""
        return cls(dev=status.st_dev, ino=status.st_ino)


def read(path: Path, *, most_bytes: int) -> tuple[bytes, Identity]:
    """Returns the content of a private file and which file that was (R-01).

    Raises:
        NotPrivate: the path is a link or no regular file, has a second name, belongs to somebody else, is
            open to others, or holds more than `most_bytes`.
        OSError: it cannot be opened or read.

    """
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise NotPrivate("must be a regular file with one name")
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o177:
            raise NotPrivate("must belong to this user alone (mode 0600)")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotPrivate(f"must not be longer than {most_bytes} bytes")
    return content, Identity.of(status)


def read_bounded(path: Path, *, most_bytes: int) -> bytes:
    """Returns the content of a regular file that need not be private.

    Raises:
        NotPrivate: it is a link or no regular file, or longer than `most_bytes`.
        OSError: it cannot be opened or read.

    """
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPrivate("must be a regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotPrivate(f"must not be longer than {most_bytes} bytes")
    return content


def write(path: Path, content: bytes) -> None:
    """Leaves a private file with `content` on the disk, durably and as a whole.

    Raises:
        OSError: it cannot be written.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
