"""Who owns a file on Windows and whom its DACL admits, asked of the system itself (A-10, A-15, A-17).

Only the current user, SYSTEM and the local Administrators may be admitted; anything not understood refuses.
"""

import ctypes
import sys
from ctypes import wintypes

from adapter_kit import refusal

assert sys.platform == "win32"

_advapi = ctypes.WinDLL("advapi32", use_last_error=True)
_kernel = ctypes.WinDLL("kernel32", use_last_error=True)

_SYSTEM = "S-1-5-18"
_ADMINISTRATORS = "S-1-5-32-544"

_FILE_OBJECT = 1
_OWNER = 0x1
_DACL = 0x4
_PROTECTED_DACL = 0x8000_0000
_TOKEN_QUERY = 0x8
_TOKEN_USER = 1
_SDDL_REVISION = 1
_ACL_SIZE = 2
_ALLOWED = 0
_DENIED = 1
_SID_OFFSET = 8  # an entry's header and access mask


class _AclSize(ctypes.Structure):
    _fields_ = (("count", wintypes.DWORD), ("in_use", wintypes.DWORD), ("free", wintypes.DWORD))


class _EntryHeader(ctypes.Structure):
    _fields_ = (("kind", wintypes.BYTE), ("flags", wintypes.BYTE), ("size", wintypes.WORD))


class SecurityAttributes(ctypes.Structure):
    """What a new file is created with; it points into ``Descriptor`` and lives no longer."""

    _fields_ = (
        ("length", wintypes.DWORD),
        ("descriptor", wintypes.LPVOID),
        ("inherits", wintypes.BOOL),
    )


_kernel.GetCurrentProcess.restype = wintypes.HANDLE
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel.LocalFree.argtypes = (wintypes.LPVOID,)
_kernel.LocalFree.restype = wintypes.LPVOID
_advapi.OpenProcessToken.argtypes = (wintypes.HANDLE, wintypes.DWORD, ctypes.POINTER(wintypes.HANDLE))
_advapi.GetTokenInformation.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
    ctypes.POINTER(wintypes.DWORD),
)
_advapi.ConvertSidToStringSidW.argtypes = (wintypes.LPVOID, ctypes.POINTER(wintypes.LPWSTR))
_advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    ctypes.POINTER(wintypes.LPVOID),
    wintypes.LPVOID,
)
_advapi.SetFileSecurityW.argtypes = (wintypes.LPCWSTR, wintypes.DWORD, wintypes.LPVOID)
_advapi.GetSecurityInfo.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.DWORD,
    ctypes.POINTER(wintypes.LPVOID),
    wintypes.LPVOID,
    ctypes.POINTER(wintypes.LPVOID),
    wintypes.LPVOID,
    ctypes.POINTER(wintypes.LPVOID),
)
_advapi.GetSecurityInfo.restype = wintypes.DWORD
_advapi.GetAclInformation.argtypes = (wintypes.LPVOID, wintypes.LPVOID, wintypes.DWORD, ctypes.c_int)
_advapi.GetAce.argtypes = (wintypes.LPVOID, wintypes.DWORD, ctypes.POINTER(wintypes.LPVOID))


def is_private(handle: int) -> bool:
    """Whether the opened file belongs to the current user and its DACL admits no one else (A-10).

    Raises:
        Refused: ``windows_security_unavailable`` if the system does not say.
    """
    owner, dacl, descriptor = wintypes.LPVOID(), wintypes.LPVOID(), wintypes.LPVOID()
    failed = _advapi.GetSecurityInfo(
        handle,
        _FILE_OBJECT,
        _OWNER | _DACL,
        ctypes.byref(owner),
        None,
        ctypes.byref(dacl),
        None,
        ctypes.byref(descriptor),
    )
    _require(not failed)
    try:
        user = current_user()
        if not owner.value or not dacl.value or _sid_text(owner.value) != user:
            return False
        return _admits_only(dacl.value, {user, _SYSTEM, _ADMINISTRATORS})
    finally:
        _kernel.LocalFree(descriptor)


def make_private(path: str, handle: int) -> None:
    """The file belongs to the current user, and a protected DACL admits the three trustees only (A-15).

    Raises:
        Refused: ``windows_security_unavailable``, or ``windows_private_path_required`` if it did not hold.
    """
    with Descriptor() as descriptor:
        what = _OWNER | _DACL | _PROTECTED_DACL
        _require(_advapi.SetFileSecurityW(path, what, descriptor.pointer))
    if not is_private(handle):
        raise refusal.Refused("windows_private_path_required")


class Descriptor:
    """The security of a private file, in the system's own form, for as long as the ``with`` block."""

    def __init__(self) -> None:
        self.pointer = wintypes.LPVOID()

    def __enter__(self) -> "Descriptor":  # noqa: PYI034  # Self needs Python 3.11
        user = current_user()
        entries = "".join(f"(A;OICI;FA;;;{trustee})" for trustee in ("SY", "BA", user))
        made = _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            f"O:{user}D:P{entries}", _SDDL_REVISION, ctypes.byref(self.pointer), None
        )
        _require(made)
        return self

    def __exit__(self, *_: object) -> None:
        _kernel.LocalFree(self.pointer)

    def attributes(self) -> SecurityAttributes:
        """What ``CreateFileW`` takes, so that a new file is private from its first moment."""
        return SecurityAttributes(ctypes.sizeof(SecurityAttributes), self.pointer, 0)


def current_user() -> str:
    """The SID of the user this process runs as, as text.

    Raises:
        Refused: ``windows_security_unavailable`` if the system does not say.
    """
    token = wintypes.HANDLE()
    _require(_advapi.OpenProcessToken(_kernel.GetCurrentProcess(), _TOKEN_QUERY, ctypes.byref(token)))
    try:
        size = wintypes.DWORD()
        _advapi.GetTokenInformation(token, _TOKEN_USER, None, 0, ctypes.byref(size))
        _require(size.value)
        found = ctypes.create_string_buffer(size.value)
        _require(_advapi.GetTokenInformation(token, _TOKEN_USER, found, size, ctypes.byref(size)))
        sid = ctypes.cast(found, ctypes.POINTER(wintypes.LPVOID)).contents.value  # its first field
        return _sid_text(sid)
    finally:
        _kernel.CloseHandle(token)


def _admits_only(dacl: int, trustees: set[str]) -> bool:
    size = _AclSize()
    _require(_advapi.GetAclInformation(dacl, ctypes.byref(size), ctypes.sizeof(size), _ACL_SIZE))
    for index in range(size.count):
        entry = wintypes.LPVOID()
        _require(_advapi.GetAce(dacl, index, ctypes.byref(entry)))
        place = entry.value or 0
        kind = _EntryHeader.from_address(place).kind
        if kind == _DENIED:
            continue
        if kind != _ALLOWED or _sid_text(place + _SID_OFFSET) not in trustees:
            return False
    return True


def _sid_text(sid: int | None) -> str:
    text = wintypes.LPWSTR()
    _require(sid and _advapi.ConvertSidToStringSidW(sid, ctypes.byref(text)))
    try:
        return text.value or ""
    finally:
        _kernel.LocalFree(ctypes.cast(text, wintypes.LPVOID))


def _require(succeeded: object) -> None:
    if not succeeded:
        raise refusal.Refused("windows_security_unavailable")
