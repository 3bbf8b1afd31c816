"""Holds a lock file as another run of an adapter would, on whatever platform this is."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def take(descriptor: int) -> None:
        """The file's first byte is held; it must be free."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def take(descriptor: int) -> None:
        """The file is held; it must be free."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    """The lock file, made if it was absent, is held until the block ends."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        take(descriptor)
        yield
    finally:
        os.close(descriptor)
