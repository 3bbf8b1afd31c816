"""Tells how the file system itself spells a name that it also takes in other spellings (R-11)."""

import os
import unicodedata
from typing import Final

from webcodex.runner import private_files

LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def stored_name(directory: int, name: str, status: os.stat_result) -> str:
    """Returns how the file system itself spells `name`, where it takes other spellings for the same."""
    if not _has_other_spelling(directory, name, status):
        return name
    listed = os.open(".", LISTED, dir_fd=directory)
    try:
        with os.scandir(listed) as entries:
            same_file = [entry.name for entry in entries if entry.inode() == status.st_ino]
    finally:
        os.close(listed)
    return name if name in same_file or not same_file else same_file[0]


def _has_other_spelling(directory: int, name: str, status: os.stat_result) -> bool:
    if "~" in name or any(unicodedata.category(character) == "Cf" for character in name):
        return True
    spellings = {name.swapcase(), *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))}
    for spelling in spellings - {name}:
        try:
            other = os.stat(spelling, dir_fd=directory, follow_symlinks=False)
        except (OSError, UnicodeEncodeError):
            continue
        if private_files.Identity.of(other) == private_files.Identity.of(status):
            return True
    return False
