"""Private files and directories of the operator (A-10 to A-16), on the platform this runs on.

A ``Folder`` is an opened private directory; everything inside it is reached through it and never by a path
that could have been exchanged meanwhile.
"""

import sys
import time

from adapter_kit import limits

if sys.platform == "win32":
    from adapter_kit import private_files_windows as platform_files
else:
    from adapter_kit import private_files_posix as platform_files

Folder = platform_files.Folder
read = platform_files.read
replace = platform_files.replace
mark_lock = platform_files.mark_lock
try_lock = platform_files.try_lock
close_lock = platform_files.close_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class FileLock:
    """A lock that may be held; leaving its ``with`` block frees it, and so does the end of the process."""

    __slots__ = ("_descriptor", "is_held")

    def __init__(self, folder: Folder, name: str) -> None:
        """Opens the lock file and takes nothing yet.

        Raises:
            Refused: ``invalid_lock`` if the file is not private.
        """
        self._descriptor = folder.open_lock(name)
        self.is_held = False

    def __enter__(self) -> "FileLock":  # noqa: PYI034  # Self needs Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self.is_held = False
        close_lock(self._descriptor)

    def take(self, wait_seconds: float = 0.0) -> bool:
        """Whether the lock is now held; one try, then more for at most ``wait_seconds``."""
        ends = time.monotonic() + wait_seconds
        while not try_lock(self._descriptor):
            if time.monotonic() >= ends:
                return False
            time.sleep(limits.LOCK_POLL_SECONDS)
        self.is_held = True
        return True

    def mark(self) -> None:
        """The lock file says that a hook-fed run was here now (A-34, A-63)."""
        mark_lock(self._descriptor)
