"""Lets one Server at a time use a data directory; SQLite alone would let two write beside each other."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from webcodex.server import settings

FILE: Final = "server.lock"
WAIT_S: Final = 6.0
"""How long a Server that is stopping is waited for: it frees its port before its data."""

_POLL_S: Final = 0.05
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_HELD: Final = "WEBCODEX_DATA is used by another webcodex-server; stop that one or choose another directory."
_UNFIT: Final = "WEBCODEX_DATA must be a directory on a file system that can lock files."


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Holds ``directory`` until the block ends.

    The lock is on an open file that no child process inherits, so it ends with this process at the latest.

    Raises:
        BadSetting: another Server holds it, or it cannot be locked.

    """
    try:
        descriptor = os.open(directory / FILE, _FLAGS, 0o600)
    except OSError:
        raise settings.BadSetting(_UNFIT) from None
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise settings.BadSetting(_HELD) from None
        except OSError:
            raise settings.BadSetting(_UNFIT) from None
        else:
            return
        time.sleep(_POLL_S)
