"""Who owns a file on Windows and whom its DACL admits, asked of the system itself (A-10, A-15, A-17).

Only the current user, SYSTEM and the local Administrators may be admitted; anything not understood refuses.
"""

import ctypes
import sys
from ctypes import wintypes

from adapter_kit import refusal

assert sys.platform == "win32"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SYSTEM = "S-1-5-18"
_ADMINISTRATORS = "S-1-5-32-544"

_FILE_OBJECT = 1
_OWNER = 0x1
_DACL = 0x4
_TOKEN_QUERY = 0x8
_TOKEN_USER = 1
_SDDL_REVISION = 1
_ACL_SIZE = 2
_ALLOWED = 0
_DENIED = 1
_INHERITED = 0x10
_SID_OFFSET = 8  # an entry's header and access mask

_advapi = ctypes.WinDLL("advapi32", use_last_error=True)
_kernel = ctypes.WinDLL("kernel32", use_last_error=True)


class SecurityAttributes(ctypes.Structure):
    """What a new file is created with; it points into ``Descriptor`` and lives no longer."""

    _fields_ = (
        ("length", wintypes.DWORD),
        ("descriptor", wintypes.LPVOID),
        ("is_inherited_by_children", wintypes.BOOL),
    )


class _AclSize(ctypes.Structure):
    _fields_ = (("count", wintypes.DWORD), ("in_use", wintypes.DWORD), ("free", wintypes.DWORD))


class _EntryHeader(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_ubyte), ("flags", ctypes.c_ubyte), ("size", wintypes.WORD))


_pointer_to_pointer = ctypes.POINTER(wintypes.LPVOID)
_pointer_to_bool = ctypes.POINTER(wintypes.BOOL)
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
    _pointer_to_pointer,
    wintypes.LPVOID,
)
_advapi.GetSecurityInfo.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.DWORD,
    _pointer_to_pointer,
    _pointer_to_pointer,
    _pointer_to_pointer,
    _pointer_to_pointer,
    _pointer_to_pointer,
)
_advapi.GetSecurityInfo.restype = wintypes.DWORD
_advapi.GetSecurityDescriptorOwner.argtypes = (wintypes.LPVOID, _pointer_to_pointer, _pointer_to_bool)
_advapi.GetSecurityDescriptorDacl.argtypes = (
    wintypes.LPVOID,
    _pointer_to_bool,
    _pointer_to_pointer,
    _pointer_to_bool,
)
_advapi.GetAclInformation.argtypes = (wintypes.LPVOID, wintypes.LPVOID, wintypes.DWORD, ctypes.c_int)
_advapi.GetAce.argtypes = (wintypes.LPVOID, wintypes.DWORD, _pointer_to_pointer)


class _Security:
    """A security descriptor in the system's memory, freed at the end of its ``with`` block."""

    def __init__(self) -> None:
        self.pointer = wintypes.LPVOID()

    def __enter__(self) -> "_Security":  # noqa: PYI034  # Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        _kernel.LocalFree(self.pointer)

    def attributes(self) -> SecurityAttributes:
        """What the calls that make files take, so that a new file is protected from its first moment."""
        return SecurityAttributes(ctypes.sizeof(SecurityAttributes), self.pointer, 0)

    def is_private(self) -> bool:
        """Whether the current user owns what this protects, and no one is admitted but the three."""
        user = current_user()
        owner, dacl = self._owner(), self._dacl()
        if not owner or not dacl or _sid_text(owner) != user:
            return False
        trustees = {user, _SYSTEM, _ADMINISTRATORS}
        return all(
            kind == _DENIED or (kind == _ALLOWED and _sid_text(sid) in trustees)
            for kind, _, sid in _entries(dacl)
        )

    def is_inherited(self) -> bool:
        """Whether any entry comes from the directory above."""
        dacl = self._dacl()
        return bool(dacl) and any(flags & _INHERITED for _, flags, _ in _entries(dacl))

    def _owner(self) -> int:
        owner, is_default = wintypes.LPVOID(), wintypes.BOOL()
        _require(
            _advapi.GetSecurityDescriptorOwner(self.pointer, ctypes.byref(owner), ctypes.byref(is_default))
        )
        return owner.value or 0

    def _dacl(self) -> int:
        """Where the list is, or 0: without one, everyone is admitted."""
        is_present, dacl, is_default = wintypes.BOOL(), wintypes.LPVOID(), wintypes.BOOL()
        _require(
            _advapi.GetSecurityDescriptorDacl(
                self.pointer, ctypes.byref(is_present), ctypes.byref(dacl), ctypes.byref(is_default)
            )
        )
        return (dacl.value or 0) if is_present.value else 0


class Written(_Security):
    """A security descriptor from its text form.

    Raises:
        Refused: ``windows_security_unavailable`` if the system does not take the text.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        made = _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            text, _SDDL_REVISION, ctypes.byref(self.pointer), None
        )
        _require(made)


class _Found(_Security):
    """The owner and the DACL of what is behind a handle."""

    def __init__(self, handle: int) -> None:
        super().__init__()
        found = ctypes.byref(self.pointer)
        what = _OWNER | _DACL
        failed = _advapi.GetSecurityInfo(handle, _FILE_OBJECT, what, None, None, None, None, found)
        _require(not failed)


def private(*, is_folder: bool) -> Written:
    """The security of what is made private: its own, from no directory above (A-15).

    Raises:
        Refused: ``windows_security_unavailable``.
    """
    user = current_user()
    passed_on = "OICI" if is_folder else ""
    entries = "".join(f"(A;{passed_on};FA;;;{trustee})" for trustee in ("SY", "BA", user))
    return Written(f"O:{user}D:P{entries}")


def is_private(handle: int) -> bool:
    """Whether the opened file belongs to the current user and its DACL admits no one else (A-10).

    Raises:
        Refused: ``windows_security_unavailable`` if the system does not say.
    """
    with _Found(handle) as found:
        return found.is_private()


def require_made_private(handle: int) -> None:
    """What this run has made is private and inherits nothing (A-15).

    A file system without access control ignores what a file is made with; this tells.

    Raises:
        Refused: ``windows_private_path_required`` if it is not so, ``windows_security_unavailable``.
    """
    with _Found(handle) as found:
        if not found.is_private() or found.is_inherited():
            raise refusal.Refused("windows_private_path_required")


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
        sid = ctypes.cast(found, _pointer_to_pointer).contents.value  # its first field
        return _sid_text(sid or 0)
    finally:
        _kernel.CloseHandle(token)


def _entries(dacl: int) -> "Iterator[tuple[int, int, int]]":
    """Kind and flags of each entry, and where its SID is if it is of a plain kind."""
    size = _AclSize()
    _require(_advapi.GetAclInformation(dacl, ctypes.byref(size), ctypes.sizeof(size), _ACL_SIZE))
    for index in range(size.count):
        entry = wintypes.LPVOID()
        _require(_advapi.GetAce(dacl, index, ctypes.byref(entry)))
        place = entry.value or 0
        header = _EntryHeader.from_address(place)
        yield header.kind, header.flags, place + _SID_OFFSET


def _sid_text(sid: int) -> str:
    text = wintypes.LPWSTR()
    _require(sid and _advapi.ConvertSidToStringSidW(sid, ctypes.byref(text)))
    try:
        return text.value or ""
    finally:
        _kernel.LocalFree(ctypes.cast(text, wintypes.LPVOID))


def _require(succeeded: object) -> None:
    if not succeeded:
        raise refusal.Refused("windows_security_unavailable")
