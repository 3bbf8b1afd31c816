"""What the POSIX modes of the tests mean on Windows: an owner and an access control list of their own.

There the modes given to ``mkdir``, ``touch``, ``open`` and ``chmod`` are ignored or mean something else, so
that no test could make a private file. It is written without the adapters' own code, which it is to judge.
"""

import ctypes
import os
import sys
from ctypes import wintypes
from typing import Any, Final

assert sys.platform == "win32"

import nt  # noqa: E402  # Windows only, so after the platform is known

FILE_OBJECT: Final = 1
OWNER: Final = 0x1
DACL: Final = 0x4
PROTECTED_DACL: Final = 0x8000_0000
IS_WINE: Final = hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
ALL_READ: Final = "(A;;FR;;;WD)"

_advapi = ctypes.WinDLL("advapi32", use_last_error=True)
_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.LocalFree.argtypes = (wintypes.LPVOID,)
_kernel.GetCurrentProcess.restype = wintypes.HANDLE
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_advapi.OpenProcessToken.argtypes = (wintypes.HANDLE, wintypes.DWORD, wintypes.LPVOID)
_advapi.GetTokenInformation.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.LPVOID,
)
_advapi.ConvertSidToStringSidW.argtypes = (wintypes.LPVOID, wintypes.LPVOID)
_advapi.GetNamedSecurityInfoW.argtypes = (
    wintypes.LPCWSTR,
    ctypes.c_int,
    wintypes.DWORD,
    *(wintypes.LPVOID,) * 5,
)
_advapi.ConvertSecurityDescriptorToStringSecurityDescriptorW.argtypes = (
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.LPVOID,
    wintypes.LPVOID,
)
_advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    wintypes.LPVOID,
    wintypes.LPVOID,
)
_advapi.SetFileSecurityW.argtypes = (wintypes.LPCWSTR, wintypes.DWORD, wintypes.LPVOID)


def user() -> str:
    """The SID of the user who runs the tests, as text."""
    token, size, text = wintypes.HANDLE(), wintypes.DWORD(), wintypes.LPWSTR()
    found = ctypes.create_string_buffer(256)
    assert _advapi.OpenProcessToken(_kernel.GetCurrentProcess(), 0x8, ctypes.byref(token))
    assert _advapi.GetTokenInformation(token, 1, found, len(found), ctypes.byref(size))
    _kernel.CloseHandle(token)
    sid = ctypes.cast(found, ctypes.POINTER(wintypes.LPVOID)).contents
    assert _advapi.ConvertSidToStringSidW(sid, ctypes.byref(text))
    return str(text.value)


USER: Final = user()


def write(path: Any, text: str) -> None:
    """The owner and the access control list of the path are those of the text (SDDL)."""
    security = wintypes.LPVOID()
    made = _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(text, 1, ctypes.byref(security), None)
    assert made, ctypes.WinError(ctypes.get_last_error())
    done = _advapi.SetFileSecurityW(os.fspath(path), OWNER | DACL | PROTECTED_DACL, security)
    assert done, ctypes.WinError(ctypes.get_last_error())
    _kernel.LocalFree(security)


def read(path: Any) -> str:
    """The owner and the access control list of the path as text (SDDL)."""
    security, text = wintypes.LPVOID(), wintypes.LPWSTR()
    what = OWNER | DACL
    path = os.fspath(path)
    failed = _advapi.GetNamedSecurityInfoW(
        path, FILE_OBJECT, what, None, None, None, None, ctypes.byref(security)
    )
    assert not failed, ctypes.WinError(failed)
    assert _advapi.ConvertSecurityDescriptorToStringSecurityDescriptorW(
        security, 1, what, ctypes.byref(text), None
    )
    _kernel.LocalFree(security)
    return str(text.value)


def set_mode(path: Any, mode: int, *, is_folder: bool) -> None:
    """The path is the user's alone, or everyone may read it if the mode is not the exact private one."""
    private = 0o700 if is_folder else 0o600
    passed_on = "OICI" if is_folder else ""
    entries = "".join(f"(A;{passed_on};FA;;;{trustee})" for trustee in ("SY", "BA", USER))
    write(path, f"O:{USER}D:P{entries}{ALL_READ if mode != private else ''}")


def is_private(path: Any) -> bool:
    """Whether the path is the user's and its list names no one but the user, SYSTEM and Administrators."""
    owner, _, entries = read(path).removeprefix("O:").partition("D:")
    trustees = {entry.rstrip(")").split(";")[-1] for entry in entries.split("(")[1:]}
    return owner == USER and USER in trustees and trustees <= {USER, "SY", "BA"}


def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    assert dir_fd is None
    nt.mkdir(path)
    if mode != 0o777:
        set_mode(path, mode, is_folder=True)


def chmod(path: Any, mode: int, *, follow_symlinks: bool = True) -> None:
    assert follow_symlinks
    set_mode(path, mode, is_folder=os.path.isdir(path))  # noqa: PTH112  # what is replaced takes any path


def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    assert dir_fd is None
    is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
    descriptor = nt.open(path, flags)
    if is_new and mode not in {0o777, 0o666}:
        set_mode(path, mode, is_folder=False)
    return descriptor


def install() -> None:
    """From here on the modes that tests name mean what they say."""
    for name, meant in (("mkdir", mkdir), ("chmod", chmod), ("open", opened)):
        setattr(os, name, meant)
