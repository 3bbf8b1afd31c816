"""Private files on POSIX: owner, exact mode, one link, no symlink, all of it true of the open descriptor.

Everything in a folder is reached through the folder's descriptor. ``os`` is not imported: its start-up costs
more than all the calls made here (A-81).
"""

import sys

from adapter_kit import limits, paths, refusal

assert sys.platform != "win32"

import fcntl  # noqa: E402  # POSIX only, so after the platform is known
import posix  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_KIND = 0o170000
_REGULAR = 0o100000
_DIRECTORY = 0o040000
_PERMISSIONS = 0o777
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700

_READ = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
_READ_FOLDER = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_DIRECTORY | posix.O_CLOEXEC
_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
_LOCK = posix.O_RDWR | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC


def read(path: str, max_bytes: int = limits.MAX_BYTES) -> bytes:
    """The whole content of the private file at ``path`` (A-10).

    Raises:
        Refused: ``private_regular_file_required``, or ``input_too_large`` over ``max_bytes``.
    """
    try:
        return _read(paths.native(path), None, max_bytes)
    except (OSError, ValueError):
        raise refusal.Refused("private_regular_file_required") from None


class Folder:
    """One private directory, opened (A-11)."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        """Opens the directory.

        Raises:
            Refused: ``private_state_directory_required`` unless it exists and is private.
        """
        self._descriptor = _opened_folder(path, None)

    def close(self) -> None:
        """The folder is given back to the system."""
        posix.close(self._descriptor)

    def names(self) -> list[str]:
        """The names in the folder, sorted."""
        return sorted(posix.listdir(self._descriptor))

    def has(self, name: str) -> bool:
        """Whether the name is taken, by whatever it is."""
        try:
            posix.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, max_bytes: int = limits.MAX_BYTES) -> bytes:
        """The whole content of the private file ``name`` (A-10).

        Raises:
            FileNotFoundError: if there is none.
            Refused: ``private_regular_file_required``, or ``input_too_large`` over ``max_bytes``.
        """
        try:
            return _read(name, self._descriptor, max_bytes)
        except FileNotFoundError:
            raise
        except OSError:
            raise refusal.Refused("private_regular_file_required") from None

    def create(self, name: str, content: bytes) -> None:
        """The content is durable under the absent ``name``; the caller holds ``.save`` (A-13).

        Raises:
            OSError: if it is not certain; nothing half written is left.
        """
        self._stage(f".pending-{posix.urandom(16).hex()}", name, content)

    def replace(self, name: str, content: bytes, before: "Callable[[], None] | None" = None) -> None:
        """The content is durable under ``name`` in place of what was there (A-14).

        ``before`` is called once the content is on the disk and has not taken the name yet.

        Raises:
            OSError: if it is not certain; the temporary file is removed and the original untouched (A-16).
        """
        self._stage(f".recovery-{posix.urandom(16).hex()}", name, content, before)

    def remove(self, name: str) -> None:
        """The name is free, durably.

        Raises:
            OSError: if it is not certain.
        """
        posix.unlink(name, dir_fd=self._descriptor)
        posix.fsync(self._descriptor)

    def sync(self) -> None:
        """Every name in the folder is durable.

        Raises:
            OSError: if it is not certain.
        """
        posix.fsync(self._descriptor)

    def remove_staged(self, names: list[str], prefix: str = ".pending-") -> None:
        """What an earlier run left half written is gone; the caller holds the lock of its writers (A-16)."""
        for name in names:
            if name.startswith(prefix):
                self._remove_if_there(name)

    def modified_at(self, name: str) -> int | None:
        """When ``name`` was last written, in Unix s, or None if there is none."""
        try:
            return int(posix.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime)
        except FileNotFoundError:
            return None

    def least_recent(self, names: list[str]) -> str:
        """The one of the names that was written first.

        Raises:
            OSError: if one of them cannot be looked up.
        """
        written = {
            name: posix.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime_ns
            for name in names
        }
        return min(names, key=lambda name: (written[name], name))

    def subfolder(self, name: str) -> "Folder | None":
        """The private directory ``name`` in this folder, or None if there is none.

        Raises:
            Refused: ``private_state_directory_required`` if the name is something else.
        """
        if not self.has(name):
            return None
        inner = Folder.__new__(Folder)
        inner._descriptor = _opened_folder(name, self._descriptor)  # noqa: SLF001  # its own kind
        return inner

    def make_subfolder(self, name: str) -> "Folder":
        """The private directory ``name`` in this folder, made durably if it was absent (A-16).

        Raises:
            Refused: ``private_state_directory_required`` if the name is something else.
            OSError: if it cannot be made.
        """
        inner = self.subfolder(name)
        if inner is None:
            posix.mkdir(name, _FOLDER_MODE, dir_fd=self._descriptor)
            posix.fsync(self._descriptor)
            inner = self.subfolder(name)
        if inner is None:
            raise refusal.Refused("private_state_directory_required")
        return inner

    def open_lock(self, name: str) -> int:
        """A descriptor of the private lock file ``name``, made empty if it was absent, not yet locked (A-12).

        A file made here carries the time 0, so that only ``mark_lock`` gives it a meaning.

        Raises:
            Refused: ``invalid_lock`` if the name is anything but a private file.
        """
        try:
            descriptor = self._open_or_make_lock(name)
        except OSError:
            raise refusal.Refused("invalid_lock") from None
        if not _is_private_file(posix.fstat(descriptor)):
            posix.close(descriptor)
            raise refusal.Refused("invalid_lock")
        return descriptor

    def _open_or_make_lock(self, name: str) -> int:
        try:
            return posix.open(name, _LOCK, dir_fd=self._descriptor)
        except FileNotFoundError:
            pass
        try:
            descriptor = posix.open(
                name, _LOCK | posix.O_CREAT | posix.O_EXCL, _FILE_MODE, dir_fd=self._descriptor
            )
        except FileExistsError:  # another run made it meanwhile
            return posix.open(name, _LOCK, dir_fd=self._descriptor)
        posix.utime(descriptor, (0, 0))
        return descriptor

    def _stage(
        self, staged: str, name: str, content: bytes, before: "Callable[[], None] | None" = None
    ) -> None:
        try:
            self._write_new(staged, content)
            if before is not None:
                before()
            target = paths.native(name)
            posix.rename(staged, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self._remove_if_there(staged)
            raise
        posix.fsync(self._descriptor)

    def _write_new(self, name: str, content: bytes) -> None:
        descriptor = posix.open(name, _CREATE, _FILE_MODE, dir_fd=self._descriptor)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[posix.write(descriptor, rest) :]
            posix.fsync(descriptor)
        finally:
            posix.close(descriptor)

    def _remove_if_there(self, name: str) -> None:
        try:
            posix.unlink(name, dir_fd=self._descriptor)
        except OSError:  # gone, or not ours to remove: it is never read either way
            return


def replace(path: str, content: bytes) -> None:
    """The content is durable at ``path`` in place of what was there (A-14).

    Raises:
        OSError: if it is not certain; the temporary file is removed and the original untouched (A-16).
    """
    above, _, name = path.rpartition("/")
    place = Folder.__new__(Folder)
    flags = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC
    place._descriptor = posix.open(paths.native(above or "/"), flags)  # noqa: SLF001  # its own kind
    try:
        place.replace(name, content)
    finally:
        place.close()


def mark_lock(lock: int) -> None:
    """The lock file carries the present time: a hook-fed run was here (A-34)."""
    posix.utime(lock)


def try_lock(lock: int) -> bool:
    """Whether this run now holds the lock; it never waits (A-12)."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def close_lock(lock: int) -> None:
    """The lock is free again."""
    posix.close(lock)


def _read(path: "str | bytes", folder: int | None, max_bytes: int) -> bytes:
    if not _is_private_file(posix.stat(path, dir_fd=folder, follow_symlinks=False)):
        raise refusal.Refused("private_regular_file_required")
    descriptor = posix.open(path, _READ, dir_fd=folder)
    try:
        found = posix.fstat(descriptor)
        if not _is_private_file(found):
            raise refusal.Refused("private_regular_file_required")
        if found.st_size > max_bytes:
            raise refusal.Refused("input_too_large")
        content = b""
        while part := posix.read(descriptor, max_bytes + 1 - len(content)):
            content += part
    finally:
        posix.close(descriptor)
    if len(content) > max_bytes:
        raise refusal.Refused("input_too_large")
    return content


def _is_private_file(found: "os.stat_result") -> bool:
    return (
        found.st_mode & _KIND == _REGULAR
        and found.st_mode & _PERMISSIONS == _FILE_MODE
        and found.st_uid == posix.geteuid()
        and found.st_nlink == 1
    )


def _is_private_folder(found: "os.stat_result") -> bool:
    return (
        found.st_mode & _KIND == _DIRECTORY
        and found.st_mode & _PERMISSIONS == _FOLDER_MODE
        and found.st_uid == posix.geteuid()
    )


def _opened_folder(path: str, above: int | None) -> int:
    try:
        place = paths.native(path)
        if not _is_private_folder(posix.stat(place, dir_fd=above, follow_symlinks=False)):
            raise refusal.Refused("private_state_directory_required")
        descriptor = posix.open(place, _READ_FOLDER, dir_fd=above)
    except (OSError, ValueError):
        raise refusal.Refused("private_state_directory_required") from None
    if not _is_private_folder(posix.fstat(descriptor)):
        posix.close(descriptor)
        raise refusal.Refused("private_state_directory_required")
    return descriptor
