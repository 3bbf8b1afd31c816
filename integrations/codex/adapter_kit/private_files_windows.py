"""Private files on Windows: owner, DACL, no reparse point, one link, one identity before and after opening.

The same promises as ``private_files_posix``. Windows has no call relative to an opened directory, so a
folder keeps its directory open, without which no one can exchange it.
"""

import ctypes
import sys
from ctypes import wintypes

from adapter_kit import limits, refusal, security_windows

assert sys.platform == "win32"

import msvcrt  # noqa: E402  # Windows only, so after the platform is known
import nt  # noqa: E402

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)

_GENERIC_READ = 0x8000_0000
_GENERIC_WRITE = 0x4000_0000
_READ_CONTROL = 0x0002_0000
_READ_ATTRIBUTES = 0x80
_WRITE_ATTRIBUTES = 0x100
_WRITE_DAC = 0x0004_0000
_WRITE_OWNER = 0x0008_0000
_SHARE_READ_WRITE = 0x1 | 0x2
_CREATE_NEW = 1
_OPEN_EXISTING = 3
_WRITE_THROUGH = 0x8000_0000
_OPEN_REPARSE_POINT = 0x0020_0000
_BACKUP_SEMANTICS = 0x0200_0000
_ATTRIBUTE_DIRECTORY = 0x10
_ATTRIBUTE_DEVICE = 0x40
_ATTRIBUTE_REPARSE_POINT = 0x400
_MOVE_REPLACES = 0x1
_MOVE_WRITES_THROUGH = 0x8
_NOT_FOUND = (2, 3)
_EXISTS = (80, 183)
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_EPOCH = 116_444_736_000_000_000  # 1970 in the units of 100 ns since 1601


class _Times(ctypes.Structure):
    _fields_ = (("low", wintypes.DWORD), ("high", wintypes.DWORD))


class _Found(ctypes.Structure):
    """``BY_HANDLE_FILE_INFORMATION``."""

    _fields_ = (
        ("attributes", wintypes.DWORD),
        ("created", _Times),
        ("read", _Times),
        ("written", _Times),
        ("volume", wintypes.DWORD),
        ("size_high", wintypes.DWORD),
        ("size_low", wintypes.DWORD),
        ("links", wintypes.DWORD),
        ("index_high", wintypes.DWORD),
        ("index_low", wintypes.DWORD),
    )


_kernel.CreateFileW.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.HANDLE,
)
_kernel.CreateFileW.restype = wintypes.HANDLE
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel.FlushFileBuffers.argtypes = (wintypes.HANDLE,)
_kernel.GetFileInformationByHandle.argtypes = (wintypes.HANDLE, ctypes.POINTER(_Found))
_kernel.MoveFileExW.argtypes = (wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD)
_kernel.GetSystemTimeAsFileTime.argtypes = (ctypes.POINTER(_Times),)
_kernel.SetFileTime.argtypes = (wintypes.HANDLE, wintypes.LPVOID, wintypes.LPVOID, ctypes.POINTER(_Times))


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
            Refused: ``private_state_directory_required`` unless it exists and is private.
        """
        self._path = path.rstrip("\\/")
        try:
            self._handle = _opened_private(path, _READ_CONTROL | _READ_ATTRIBUTES, is_folder=True)
        except (OSError, ValueError):
            raise refusal.Refused("private_state_directory_required") from None

    def close(self) -> None:
        """The folder is given back to the system."""
        _kernel.CloseHandle(self._handle)

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
            Refused: ``private_regular_file_required``, ``input_too_large`` over ``max_bytes``, or
                ``windows_security_unavailable``.
        """
        try:
            return _read(self._at(name), max_bytes)
        except FileNotFoundError:
            raise
        except OSError:
            raise refusal.Refused("private_regular_file_required") from None

    def create(self, name: str, content: bytes) -> None:
        """The content is durable under the absent ``name``; the caller holds ``.save`` (A-13).

        Raises:
            OSError: if it is not certain; nothing half written is left.
        """
        self._stage(f".pending-{nt.urandom(16).hex()}", name, content, 0)

    def replace(self, name: str, content: bytes) -> None:
        """The content is durable under ``name`` in place of what was there (A-14).

        Raises:
            OSError: if it is not certain; the temporary file is removed and the original untouched (A-16).
        """
        self._stage(f".recovery-{nt.urandom(16).hex()}", name, content, _MOVE_REPLACES)

    def remove(self, name: str) -> None:
        """The name is free; Windows offers no way to make that durable.

        Raises:
            OSError: if it is not certain.
        """
        nt.unlink(self._at(name))

    def sync(self) -> None:
        """Every name in the folder is as durable as Windows makes it: moves are written through."""

    def remove_staged(self, names: list[str]) -> None:
        """What an earlier run left half written is gone; the caller holds ``.save`` (A-16)."""
        for name in names:
            if name.startswith(".pending-"):
                self._remove_if_there(name)

    def modified_at(self, name: str) -> int | None:
        """When ``name`` was last written, in Unix s, or None if there is none."""
        try:
            return int(nt.lstat(self._at(name)).st_mtime)
        except FileNotFoundError:
            return None

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
            nt.mkdir(self._at(name))
            access = _READ_CONTROL | _READ_ATTRIBUTES | _WRITE_DAC | _WRITE_OWNER
            handle = _opened(self._at(name), access, _OPEN_EXISTING, None)
            try:
                security_windows.make_private(self._at(name), handle)
            finally:
                _kernel.CloseHandle(handle)
        return Folder(self._at(name))

    def open_lock(self, name: str) -> int:
        """A descriptor of the private lock file ``name``, made empty if it was absent, not yet locked (A-12).

        A file made here carries the time 0, so that only ``mark_lock`` gives it a meaning.

        Raises:
            Refused: ``invalid_lock`` if the name is anything but a private file, or the reasons of A-15.
        """
        try:
            self._make_lock(name)
            access = _GENERIC_READ | _GENERIC_WRITE | _READ_CONTROL
            handle = _opened_private(self._at(name), access, is_folder=False)
        except OSError:
            raise refusal.Refused("invalid_lock") from None
        return msvcrt.open_osfhandle(handle, nt.O_RDWR | nt.O_BINARY | nt.O_NOINHERIT)

    def _make_lock(self, name: str) -> None:
        try:
            handle = _created(self._at(name))
        except FileExistsError:
            return
        try:
            security_windows.make_private(self._at(name), handle)
            _set_written(handle, _Times(_EPOCH & 0xFFFF_FFFF, _EPOCH >> 32))
        finally:
            _kernel.CloseHandle(handle)

    def _stage(self, staged: str, name: str, content: bytes, how: int) -> None:
        try:
            self._write_new(staged, content)
            _require(_kernel.MoveFileExW(self._at(staged), self._at(name), how | _MOVE_WRITES_THROUGH))
        except BaseException:
            self._remove_if_there(staged)
            raise

    def _write_new(self, name: str, content: bytes) -> None:
        handle = _created(self._at(name))
        descriptor = msvcrt.open_osfhandle(handle, nt.O_RDWR | nt.O_BINARY | nt.O_NOINHERIT)
        try:
            security_windows.make_private(self._at(name), handle)
            rest = memoryview(content)
            while rest:
                rest = rest[nt.write(descriptor, rest) :]
            _require(_kernel.FlushFileBuffers(handle))
        finally:
            nt.close(descriptor)

    def _remove_if_there(self, name: str) -> None:
        try:
            nt.unlink(self._at(name))
        except OSError:  # gone, or not ours to remove: it is never read either way
            return

    def _at(self, name: str) -> str:
        return f"{self._path}\\{name}"


def mark_lock(lock: int) -> None:
    """The lock file carries the present time: a hook-fed run was here (A-34)."""
    now = _Times()
    _kernel.GetSystemTimeAsFileTime(ctypes.byref(now))
    _set_written(msvcrt.get_osfhandle(lock), now)


def try_lock(lock: int) -> bool:
    """Whether this run now holds the lock, one byte of it; it never waits (A-12)."""
    nt.lseek(lock, 0, 0)
    try:
        msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def close_lock(lock: int) -> None:
    """The lock is free again."""
    nt.close(lock)


def _read(path: str, max_bytes: int) -> bytes:
    handle = _opened_private(path, _GENERIC_READ | _READ_CONTROL, is_folder=False)
    descriptor = msvcrt.open_osfhandle(handle, nt.O_RDONLY | nt.O_BINARY | nt.O_NOINHERIT)
    try:
        content = b""
        while part := nt.read(descriptor, max_bytes + 1 - len(content)):
            content += part
    finally:
        nt.close(descriptor)
    if len(content) > max_bytes:
        raise refusal.Refused("input_too_large")
    return content


def _opened_private(path: str, access: int, *, is_folder: bool) -> int:
    """A handle of what was judged private before it was opened, and is still the same thing (A-10).

    Raises:
        OSError: if it is missing or not private.
        Refused: ``windows_security_unavailable``.
    """
    judged = _opened(path, _READ_CONTROL | _READ_ATTRIBUTES, _OPEN_EXISTING, None)
    try:
        before = _judged(judged, is_folder=is_folder)
        handle = _opened(path, access, _OPEN_EXISTING, None)
    finally:
        _kernel.CloseHandle(judged)
    try:
        is_same = _judged(handle, is_folder=is_folder) == before
    except BaseException:
        _kernel.CloseHandle(handle)
        raise
    if is_same:
        return handle
    _kernel.CloseHandle(handle)
    raise PermissionError("it was exchanged while it was opened")


def _judged(handle: int, *, is_folder: bool) -> tuple[int, int, int]:
    """Volume and file index of a private file or directory."""
    found = _Found()
    _require(_kernel.GetFileInformationByHandle(handle, ctypes.byref(found)))
    is_directory = bool(found.attributes & _ATTRIBUTE_DIRECTORY)
    if (
        found.attributes & (_ATTRIBUTE_REPARSE_POINT | _ATTRIBUTE_DEVICE)
        or is_directory is not is_folder
        or (found.links != 1 and not is_folder)
        or not security_windows.is_private(handle)
    ):
        raise PermissionError("it is not private")
    return found.volume, found.index_high, found.index_low


def _created(path: str) -> int:
    """A handle of a new file that is private from its first moment."""
    access = _GENERIC_READ | _GENERIC_WRITE | _READ_CONTROL | _WRITE_DAC | _WRITE_OWNER
    with security_windows.Descriptor() as descriptor:
        attributes = descriptor.attributes()
        return _opened(path, access, _CREATE_NEW, ctypes.byref(attributes))


def _opened(path: str, access: int, disposition: int, security: object) -> int:
    if "\0" in path:
        raise ValueError("a path without NUL is required")
    flags = _OPEN_REPARSE_POINT | _BACKUP_SEMANTICS | _WRITE_THROUGH
    handle = _kernel.CreateFileW(path, access, _SHARE_READ_WRITE, security, disposition, flags, None)
    if handle == _INVALID_HANDLE or not handle:
        code = ctypes.get_last_error()
        if code in _NOT_FOUND:
            raise FileNotFoundError
        if code in _EXISTS:
            raise FileExistsError
        raise PermissionError("it cannot be opened")
    return int(handle)


def _set_written(handle: int, times: _Times) -> None:
    _require(_kernel.SetFileTime(handle, None, None, ctypes.byref(times)))


def _require(succeeded: object) -> None:
    if not succeeded:
        raise OSError("the system refused a call")
