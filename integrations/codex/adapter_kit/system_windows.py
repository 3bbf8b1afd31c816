"""The few calls of Windows that private files are made of; whatever the system refuses is an ``OSError``.

Each follows the documentation of the call it is named after. Handles are never inherited, no reparse point
is followed at the end of a path, and the server of a pipe behind a path learns nothing of the caller.
"""

import ctypes
import sys
import time
from ctypes import wintypes

from adapter_kit import limits, security_windows

assert sys.platform == "win32"

READ = 0x8000_0000
WRITE = 0x4000_0000
READ_CONTROL = 0x0002_0000
READ_ATTRIBUTES = 0x80
LIST_FOLDER = 0x1

SHARE_NOTHING = 0x0
SHARE_READ_WRITE = 0x1 | 0x2
SHARE_ALL = 0x1 | 0x2 | 0x4

_CREATE_NEW = 1
_OPEN_EXISTING = 3
_WRITE_THROUGH = 0x8000_0000
_OPEN_REPARSE_POINT = 0x0020_0000
_BACKUP_SEMANTICS = 0x0200_0000
_ANONYMOUS_TO_SERVERS = 0x0010_0000  # SECURITY_SQOS_PRESENT | SECURITY_ANONYMOUS
_MOVE_REPLACES = 0x1
_MOVE_WRITES_THROUGH = 0x8
_LOCK_FAILS_IMMEDIATELY = 0x1
_LOCK_IS_EXCLUSIVE = 0x2
_DISK = 0x1
_LONGEST_PATH = 32_768
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_ACCESS_DENIED = 5
_SHARING_VIOLATION = 32
_LOCK_VIOLATION = 33
_IO_PENDING = 997

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)


class FileTime(ctypes.Structure):
    """``FILETIME``: units of 100 ns since 1601."""

    _fields_ = (("low", wintypes.DWORD), ("high", wintypes.DWORD))


class Found(ctypes.Structure):
    """``BY_HANDLE_FILE_INFORMATION``: what lies behind a handle."""

    _fields_ = (
        ("attributes", wintypes.DWORD),
        ("created", FileTime),
        ("read", FileTime),
        ("written", FileTime),
        ("volume", wintypes.DWORD),
        ("size_high", wintypes.DWORD),
        ("size_low", wintypes.DWORD),
        ("links", wintypes.DWORD),
        ("index_high", wintypes.DWORD),
        ("index_low", wintypes.DWORD),
    )


class _Overlapped(ctypes.Structure):
    """``OVERLAPPED``, of which only the place of the locked byte is used."""

    _fields_ = (
        ("internal", ctypes.c_size_t),
        ("internal_high", ctypes.c_size_t),
        ("offset", wintypes.DWORD),
        ("offset_high", wintypes.DWORD),
        ("event", wintypes.HANDLE),
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
_kernel.CreateDirectoryW.argtypes = (wintypes.LPCWSTR, wintypes.LPVOID)
_kernel.RemoveDirectoryW.argtypes = (wintypes.LPCWSTR,)
_kernel.DeleteFileW.argtypes = (wintypes.LPCWSTR,)
_kernel.MoveFileExW.argtypes = (wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD)
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel.FlushFileBuffers.argtypes = (wintypes.HANDLE,)
_kernel.GetFileType.argtypes = (wintypes.HANDLE,)
_kernel.GetFileType.restype = wintypes.DWORD
_kernel.GetFileInformationByHandle.argtypes = (wintypes.HANDLE, ctypes.POINTER(Found))
_kernel.GetFinalPathNameByHandleW.argtypes = (
    wintypes.HANDLE,
    wintypes.LPWSTR,
    wintypes.DWORD,
    wintypes.DWORD,
)
_kernel.GetFinalPathNameByHandleW.restype = wintypes.DWORD
_transfer = (
    wintypes.HANDLE,
    wintypes.LPVOID,
    wintypes.DWORD,
    ctypes.POINTER(wintypes.DWORD),
    wintypes.LPVOID,
)
_kernel.ReadFile.argtypes = _transfer
_kernel.WriteFile.argtypes = _transfer
_kernel.GetSystemTimeAsFileTime.argtypes = (ctypes.POINTER(FileTime),)
_kernel.GetSystemTimeAsFileTime.restype = None
_kernel.SetFileTime.argtypes = (
    wintypes.HANDLE,
    wintypes.LPVOID,
    wintypes.LPVOID,
    ctypes.POINTER(FileTime),
)
_kernel.LockFileEx.argtypes = (
    wintypes.HANDLE,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    ctypes.POINTER(_Overlapped),
)
_kernel.UnlockFileEx.argtypes = (
    wintypes.HANDLE,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    ctypes.POINTER(_Overlapped),
)


def opened(path: str, access: int, shares: int, *, is_folder: bool = False) -> int:
    """A handle of what is at ``path`` itself, be it a reparse point.

    ``shares`` counts only if ``access`` asks for content: a handle for attributes alone keeps no one away.
    A file that another process has just opened for itself is tried again for a moment.

    Raises:
        OSError: if it cannot be opened.
        ValueError: if no path can be spelled so.
    """
    flags = _OPEN_REPARSE_POINT | _ANONYMOUS_TO_SERVERS | (_BACKUP_SEMANTICS if is_folder else 0)
    while_taken = _Patience(_SHARING_VIOLATION)
    while True:
        handle = _kernel.CreateFileW(_spelled(path), access, shares, None, _OPEN_EXISTING, flags, None)
        if handle not in (None, _INVALID_HANDLE):
            return int(handle)
        while_taken.wait_or_raise()


def created(path: str, access: int, shares: int) -> int:
    """A handle of a new, empty file that is private from its first moment and written through.

    Raises:
        OSError: if it cannot be made; ``FileExistsError`` if anything has that name.
        Refused: ``windows_security_unavailable``.
    """
    flags = _OPEN_REPARSE_POINT | _WRITE_THROUGH
    with security_windows.private(is_folder=False) as security:
        private = ctypes.byref(security.attributes())
        handle = _kernel.CreateFileW(_spelled(path), access, shares, private, _CREATE_NEW, flags, None)
        if handle in (None, _INVALID_HANDLE):
            raise _refusal()
    return int(handle)


def make_folder(path: str) -> None:
    """A new directory is there, private from its first moment.

    Raises:
        OSError: if it cannot be made.
        Refused: ``windows_security_unavailable``.
    """
    with security_windows.private(is_folder=True) as security:
        _require(_kernel.CreateDirectoryW(_spelled(path), ctypes.byref(security.attributes())))


def remove_folder(path: str) -> None:
    """The empty directory is gone.

    Raises:
        OSError: if it is not certain.
    """
    _require(_kernel.RemoveDirectoryW(path))


def close(handle: int) -> None:
    """The handle is given back to the system."""
    _kernel.CloseHandle(handle)


def found(handle: int) -> Found:
    """What lies behind the handle.

    Raises:
        OSError: if it is not on a disk, or the system does not say.
    """
    if _kernel.GetFileType(handle) != _DISK:
        raise PermissionError("it is not on a disk")
    answer = Found()
    _require(_kernel.GetFileInformationByHandle(handle, ctypes.byref(answer)))
    return answer


def final_path(handle: int) -> str:
    r"""The path that leads to the opened thing through no reparse point, beginning with ``\\?\``.

    Raises:
        OSError: if the system does not say.
    """
    path = ctypes.create_unicode_buffer(_LONGEST_PATH)
    size = _kernel.GetFinalPathNameByHandleW(handle, path, _LONGEST_PATH, 0)
    _require(0 < size < _LONGEST_PATH)
    return path.value


def read(handle: int, max_bytes: int) -> bytes:
    """The content behind the handle, from where it stands, at most ``max_bytes`` of it.

    Raises:
        OSError: if it cannot be read.
    """
    content = b""
    count = wintypes.DWORD()
    while len(content) < max_bytes:
        part = ctypes.create_string_buffer(min(limits.RECEIVE_BYTES, max_bytes - len(content)))
        _require(_kernel.ReadFile(handle, part, len(part), ctypes.byref(count), None))
        if not count.value:
            break
        content += part.raw[: count.value]
    return content


def write_and_flush(handle: int, content: bytes) -> None:
    """The whole content is on the disk.

    Raises:
        OSError: if it is not certain.
    """
    count = wintypes.DWORD()
    while content:
        _require(_kernel.WriteFile(handle, content, len(content), ctypes.byref(count), None))
        if not count.value:
            raise OSError("nothing was written")
        content = content[count.value :]
    _require(_kernel.FlushFileBuffers(handle))


def move(source: str, target: str, *, is_replacing: bool) -> None:
    """The file has the name ``target``, written through, with the security it was made with.

    Not ``ReplaceFile``: that would put the old file's security on the new one, cannot write through, and may
    stop half-way. Without leave to copy, a move is one change of one directory or nothing.

    Raises:
        OSError: if it is not certain; ``FileExistsError`` if the name is taken and not to be replaced.
    """
    flags = _MOVE_WRITES_THROUGH | (_MOVE_REPLACES if is_replacing else 0)
    while_taken = _Patience(_SHARING_VIOLATION, _ACCESS_DENIED)
    while not _kernel.MoveFileExW(source, target, flags):
        while_taken.wait_or_raise()


def delete(path: str) -> None:
    """The name is given up: free at once, or when the last process that reads the file closes it.

    Raises:
        OSError: if it is not certain.
    """
    while_taken = _Patience(_SHARING_VIOLATION, _ACCESS_DENIED)
    while not _kernel.DeleteFileW(path):
        while_taken.wait_or_raise()


def set_written(handle: int, at: "FileTime | None" = None) -> None:
    """The file was last written ``at`` this time, or now.

    Raises:
        OSError: if the system refuses.
    """
    if at is None:
        at = FileTime()
        _kernel.GetSystemTimeAsFileTime(ctypes.byref(at))
    _require(_kernel.SetFileTime(handle, None, None, ctypes.byref(at)))


def try_lock(handle: int) -> bool:
    """Whether this handle now holds the file's first byte for itself; it never waits.

    Raises:
        OSError: if that fails for any other reason than another holder.
    """
    taken = _kernel.LockFileEx(
        handle, _LOCK_IS_EXCLUSIVE | _LOCK_FAILS_IMMEDIATELY, 0, 1, 0, ctypes.byref(_Overlapped())
    )
    if taken:
        return True
    if ctypes.get_last_error() in {_LOCK_VIOLATION, _IO_PENDING}:
        return False
    raise _refusal()


def unlock(handle: int) -> None:
    """The handle holds no lock: closing it would free the lock too, but at no certain time."""
    _kernel.UnlockFileEx(handle, 0, 1, 0, ctypes.byref(_Overlapped()))


class _Patience:
    """Waits a bounded time for others to close a file; scanners open what is new for a moment."""

    def __init__(self, *codes: int) -> None:
        self._codes = codes
        self._ends = time.monotonic() + limits.SHARING_WAIT_SECONDS

    def wait_or_raise(self) -> None:
        """A moment has passed since the last call failed, and trying again may help.

        Raises:
            OSError: if it would not, or the time is over.
        """
        if ctypes.get_last_error() not in self._codes or time.monotonic() >= self._ends:
            raise _refusal()
        time.sleep(limits.LOCK_POLL_SECONDS)


def _spelled(path: str) -> str:
    if "\0" in path:
        raise ValueError("a path without NUL is required")
    return path


def _require(succeeded: object) -> None:
    if not succeeded:
        raise _refusal()


def _refusal() -> OSError:
    return ctypes.WinError(ctypes.get_last_error())
