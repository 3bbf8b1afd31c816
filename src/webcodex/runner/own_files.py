"""Knows the Runner's own configuration and state by file identity (R-13); must never go by their names."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webcodex.runner import private_files

_MAX_ENTRIES: Final = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnFiles:
    """What no project path may reach, under whatever name it is linked or mounted there."""

    config_path: Path
    config_identity: private_files.Identity
    directories: tuple[Path, ...]
    """The state directory and the project registry."""

    def holds_directory(self, identity: private_files.Identity) -> bool:
        """Says whether a directory is one of the Runner's own."""
        return any(_identity(path) == identity for path in self.directories)

    def holds_file(self, status: os.stat_result) -> bool:
        """Says whether a file is the Runner's own; one with several names is compared with every own file.

        Where the own files are too many to compare, a file with several names counts as own.
        """
        identity = private_files.Identity.of(status)
        if identity in {self.config_identity, _identity(self.config_path)}:
            return True
        if status.st_nlink == 1:
            return False
        return any(own == identity or count >= _MAX_ENTRIES for count, own in enumerate(self._entries()))

    def _entries(self) -> Iterator[private_files.Identity | None]:
        for directory in self.directories:
            for folder, _, names in os.walk(directory):
                for name in names:
                    yield _identity(Path(folder, name))


def _identity(path: Path) -> private_files.Identity | None:
    try:
        return private_files.Identity.of(path.lstat())
    except OSError:
        return None
