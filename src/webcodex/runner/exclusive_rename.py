"""Renames a file in its directory without ever replacing another (R-55), by the kernel's own call."""

import ctypes
import errno
import os
import sys
from typing import Final

_LINUX_NOREPLACE: Final = 1
_MACOS_EXCL: Final = 4


def rename(directory: int, old: str, new: str) -> None:
    """Gives a file another name in the same directory, where nothing stands yet.

    Raises:
        FileExistsError: something stands there.
        OSError: the kernel or the file system has no such rename, or it failed.

    """
    libc = ctypes.CDLL(None, use_errno=True)
    name, flag = (
        ("renameatx_np", _MACOS_EXCL) if sys.platform == "darwin" else ("renameat2", _LINUX_NOREPLACE)
    )
    call = getattr(libc, name, None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    if call(directory, os.fsencode(old), directory, os.fsencode(new), flag) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
