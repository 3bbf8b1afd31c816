"""Private files on Windows: owner, DACL, no reparse point, one link, one identity before and after opening.

The same promises as ``private_files_posix``. Windows has no call relative to an opened directory, so a
folder keeps its directory open, without which no one can rename or remove it, and spells every name beneath
the directory's final path, which leads through no reparse point.
"""

import sys

from adapter_kit import limits, refusal, security_windows
from adapter_kit import system_windows as system

assert sys.platform == "win32"

import nt  # noqa: E402  # Windows only, so after the platform is known
from ntpath import split  # noqa: E402  # as above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ATTRIBUTE_DIRECTORY = 0x10
_ATTRIBUTE_DEVICE = 0x40
_ATTRIBUTE_REPARSE_POINT = 0x400
# Access to its list, shared without leave to delete: attributes alone would keep no one from exchanging it.
_FOLDER_ACCESS = system.LIST_FOLDER | system.READ_CONTROL | system.READ_ATTRIBUTES
_LOCK_ACCESS = system.READ | system.WRITE | system.READ_CONTROL
_EPOCH = 116_444_736_000_000_000  # 1970 in the units of 100 ns since 1601


def read(path: str, max_bytes: int = limits.MAX_BYTES) -> bytes:
    """The whole content of the private file at ``path`` (A-10).

    Raises:
        Refused: ``private_regular_file_required``, ``input_too_large`` over ``max_bytes``, or
            ``windows_security_unavailable``.
    """
    try:
        return _read(path, max_bytes)
    except (OSError, ValueError):
        raise refusal.Refused("private_regular_file_required") from None


class Folder:
    """One private directory, kept open (A-11)."""

    __slots__ = ("_handle", "_path")

    def __init__(self, path: str) -> None:
        """Opens the directory.

        Raises:
            Refused: ``private_state_directory_required`` unless it exists and is private, or
                ``windows_security_unavailable``.
        """
        try:
            self._open(_opened_private(path, _FOLDER_ACCESS, system.SHARE_READ_WRITE, is_folder=True))
        except (OSError, ValueError):
            raise refusal.Refused("private_state_directory_required") from None

    def _open(self, handle: int) -> None:
        self._handle = handle
        try:
            self._path = system.final_path(handle).rstrip("\\")
        except OSError:
            system.close(handle)
            raise

    def close(self) -> None:
        """The folder is given back to the system."""
        system.close(self._handle)

    def names(self) -> list[str]:
        """The names in the folder, sorted."""
        return sorted(nt.listdir(self._path))

    def has(self, name: str) -> bool:
        """Whether the name is taken, by whatever it is."""
        return self.modified_at(name) is not None

    def read(self, name: str, max_bytes: int = limits.MAX_BYTES) -> bytes:
        """The whole content of the private file ``name`` (A-10).

        Raises:
            FileNotFoundError: if there is none.
            Refused: ``private_regular_file_required``, also if the system does not say whose it is, or
                ``input_too_large`` over ``max_bytes``.
        """
        try:
            return _read(self._at(name), max_bytes)
        except FileNotFoundError:
            raise
        except OSError:
            raise refusal.Refused("private_regular_file_required") from None
        except refusal.Refused as refused:
            if refused.reason == "input_too_large":
                raise
            raise refusal.Refused("private_regular_file_required") from None

    def create(self, name: str, content: bytes) -> None:
        """The content is durable under the absent ``name``; the caller holds ``.save`` (A-13).

        Raises:
            OSError: if it is not certain; nothing half written is left.
            Refused: the reasons of A-15.
        """
        self._stage(f".pending-{nt.urandom(16).hex()}", name, content, is_replacing=False)

    def replace(self, name: str, content: bytes, before: "Callable[[], None] | None" = None) -> None:
        """The content is durable under ``name`` in place of what was there (A-14).

        ``before`` is called once the content is on the disk and has not taken the name yet.

        Raises:
            OSError: if it is not certain; the temporary file is removed and the original untouched (A-16).
            Refused: the reasons of A-15.
        """
        self._stage(f".recovery-{nt.urandom(16).hex()}", name, content, before, is_replacing=True)

    def remove(self, name: str) -> None:
        """The name is free; Windows documents no way to make that durable.

        Raises:
            OSError: if it is not certain.
        """
        system.delete(self._at(name))

    def sync(self) -> None:
        """Every name in the folder is as durable as Windows makes it: moves are written through."""

    def remove_staged(self, names: list[str], prefix: str = ".pending-") -> None:
        """What an earlier run left half written is gone; the caller holds the lock of its writers (A-16)."""
        for name in names:
            if name.startswith(prefix):
                self._remove_if_there(name)

    def modified_at(self, name: str) -> int | None:
        """When ``name`` was last written, in Unix s, or None if there is none."""
        try:
            return int(nt.lstat(self._at(name)).st_mtime)
        except FileNotFoundError:
            return None

    def least_recent(self, names: list[str]) -> str:
        """The one of the names that was written first.

        Raises:
            OSError: if one of them cannot be looked up.
        """
        written = {name: nt.lstat(self._at(name)).st_mtime_ns for name in names}
        return min(names, key=lambda name: (written[name], name))

    def subfolder(self, name: str) -> "Folder | None":
        """The private directory ``name`` in this folder, or None if there is none.

        Raises:
            Refused: ``private_state_directory_required`` if the name is something else.
        """
        return Folder(self._at(name)) if self.has(name) else None

    def make_subfolder(self, name: str) -> "Folder":
        """The private directory ``name`` in this folder, made if it was absent (A-16).

        Raises:
            Refused: ``private_state_directory_required`` if the name is something else, or the reasons of
                A-15.
            OSError: if it cannot be made.
        """
        if not self.has(name):
            path = self._at(name)
            system.make_folder(path)
            try:
                _require_made_private(path)
            except BaseException:
                system.remove_folder(path)
                raise
        return Folder(self._at(name))

    def open_lock(self, name: str) -> int:
        """A handle of the private lock file ``name``, made empty if it was absent, not yet locked (A-12).

        A file made here carries the time 0, so that only ``mark_lock`` gives it a meaning.

        Raises:
            Refused: ``invalid_lock`` if the name is anything but a private file, or the reasons of A-15.
        """
        path = self._at(name)
        try:
            try:
                return _opened_private(path, _LOCK_ACCESS, system.SHARE_READ_WRITE, is_folder=False)
            except FileNotFoundError:
                self._make_lock(name)
            return _opened_private(path, _LOCK_ACCESS, system.SHARE_READ_WRITE, is_folder=False)
        except OSError:
            raise refusal.Refused("invalid_lock") from None

    def _make_lock(self, name: str) -> None:
        try:
            handle = system.created(self._at(name), _LOCK_ACCESS, system.SHARE_READ_WRITE)
        except FileExistsError:  # another run made it meanwhile
            return
        try:
            security_windows.require_made_private(handle)
            system.set_written(handle, system.FileTime(_EPOCH & 0xFFFF_FFFF, _EPOCH >> 32))
        except BaseException:
            system.close(handle)
            self._remove_if_there(name)
            raise
        system.close(handle)

    def _stage(
        self,
        staged: str,
        name: str,
        content: bytes,
        before: "Callable[[], None] | None" = None,
        *,
        is_replacing: bool,
    ) -> None:
        try:
            self._write_new(staged, content)
            if before is not None:
                before()
            system.move(self._at(staged), self._at(name), is_replacing=is_replacing)
        except BaseException:
            self._remove_if_there(staged)
            raise

    def _write_new(self, name: str, content: bytes) -> None:
        access = system.WRITE | system.READ_CONTROL | system.READ_ATTRIBUTES
        handle = system.created(self._at(name), access, system.SHARE_NOTHING)
        try:
            security_windows.require_made_private(handle)
            system.write_and_flush(handle, content)
        finally:
            system.close(handle)

    def _remove_if_there(self, name: str) -> None:
        try:
            system.delete(self._at(name))
        except OSError:  # gone, or not ours to remove: it is never read either way
            return

    def _at(self, name: str) -> str:
        return f"{self._path}\\{name}"


def replace(path: str, content: bytes) -> None:
    """The content is durable at ``path`` in place of what was there (A-14).

    Raises:
        OSError: if it is not certain; the temporary file is removed and the original untouched (A-16).
        Refused: the reasons of A-15.
    """
    above, name = split(path)
    place = Folder.__new__(Folder)
    place._open(system.opened(above, _FOLDER_ACCESS, system.SHARE_READ_WRITE, is_folder=True))  # noqa: SLF001  # its own kind
    try:
        place.replace(name, content)
    finally:
        place.close()


def mark_lock(lock: int) -> None:
    """The lock file carries the present time: a hook-fed run was here (A-34)."""
    system.set_written(lock)


def try_lock(lock: int) -> bool:
    """Whether this run now holds the lock, one byte of it; it never waits (A-12)."""
    return system.try_lock(lock)


def close_lock(lock: int) -> None:
    """The lock is free again."""
    system.unlock(lock)
    system.close(lock)


def _read(path: str, max_bytes: int) -> bytes:
    access = system.READ | system.READ_CONTROL
    handle = _opened_private(path, access, system.SHARE_ALL, is_folder=False)
    try:
        content = system.read(handle, max_bytes + 1)
    finally:
        system.close(handle)
    if len(content) > max_bytes:
        raise refusal.Refused("input_too_large")
    return content


def _opened_private(path: str, access: int, shares: int, *, is_folder: bool) -> int:
    """A handle of what was judged private before it was opened, and is still the same thing (A-10).

    Raises:
        OSError: if it is missing or not private.
        Refused: ``windows_security_unavailable``.
    """
    look = system.READ_CONTROL | system.READ_ATTRIBUTES
    judged = system.opened(path, look, system.SHARE_ALL, is_folder=is_folder)
    try:
        before = _judged(judged, is_folder=is_folder)
        handle = system.opened(path, access, shares, is_folder=is_folder)
    finally:
        system.close(judged)
    try:
        is_same = _judged(handle, is_folder=is_folder) == before
    except BaseException:
        system.close(handle)
        raise
    if is_same:
        return handle
    system.close(handle)
    raise PermissionError("it was exchanged while it was opened")


def _judged(handle: int, *, is_folder: bool) -> tuple[int, int, int]:
    """Volume and file index of a private file or directory.

    Raises:
        OSError: if it is neither.
        Refused: ``windows_security_unavailable``.
    """
    found = system.found(handle)
    is_directory = bool(found.attributes & _ATTRIBUTE_DIRECTORY)
    if (
        found.attributes & (_ATTRIBUTE_REPARSE_POINT | _ATTRIBUTE_DEVICE)
        or is_directory is not is_folder
        or (found.links != 1 and not is_folder)
        or not security_windows.is_private(handle)
    ):
        raise PermissionError("it is not private")
    return found.volume, found.index_high, found.index_low


def _require_made_private(folder: str) -> None:
    look = system.READ_CONTROL | system.READ_ATTRIBUTES
    handle = system.opened(folder, look, system.SHARE_ALL, is_folder=True)
    try:
        security_windows.require_made_private(handle)
    finally:
        system.close(handle)
