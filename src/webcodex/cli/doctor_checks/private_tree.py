"""Looks at every name in the data directory: each belongs to this user and is open to nobody else (A-10)."""

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webcodex.cli.doctor_checks import checks
from webcodex.cli.doctor_checks.checks import Area, Check

MOST_NAMES: Final = 5000
_SHOWN: Final = 5
_DIRECTORY: Final = 0o700
_FILE: Final = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """What a walk saw; only the first few of those that are wrong are named."""

    names: int
    is_whole: bool
    open_directories: tuple[Path, ...]
    open_files: tuple[Path, ...]
    strange: tuple[Path, ...]


def walked(top: Path) -> Walk:
    """Returns what lies at and beneath ``top``, at most MOST_NAMES names of it; no link is followed."""
    names = 0
    directories, files, strange = [], [], []
    for path, status in _statuses(top):
        names += 1
        if names > MOST_NAMES:
            break
        mode = stat.S_IMODE(status.st_mode)
        is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if status.st_uid != os.geteuid() or not (is_file or stat.S_ISDIR(status.st_mode)):
            strange.append(path)
        elif is_file and mode != _FILE:
            files.append(path)
        elif not is_file and mode != _DIRECTORY:
            directories.append(path)
    return Walk(
        names=min(names, MOST_NAMES),
        is_whole=names <= MOST_NAMES,
        open_directories=tuple(directories),
        open_files=tuple(files),
        strange=tuple(strange),
    )


def _statuses(top: Path) -> Iterator[tuple[Path, os.stat_result]]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            status = path.lstat()
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                waiting += sorted(itertools.islice(path.iterdir(), MOST_NAMES + 1), reverse=True)
        except OSError:
            continue  # a name that has just gone, or a directory that is already told


def told(top: Path, walk: Walk) -> Check:
    """Returns whether everything in the data directory is private, and the command that makes it so."""
    area, name = Area.INSTALLATION, "private files"
    wrong = len(walk.open_directories) + len(walk.open_files)
    if walk.strange:
        listed = " ".join(map(checks.quoted, walk.strange[:_SHOWN]))
        found = f"{len(walk.strange)} names in {top} are links, belong to others or are no plain files."
        return checks.attention(area, name, found, f"ls -ld {listed}")
    if wrong:
        found = f"{wrong} names in {top} are not open to you alone: folders must be 0700 and files 0600."
        return checks.attention(area, name, found, _chmod(top, walk))
    if not walk.is_whole:
        found = f"The first {walk.names} names in {top} are private; there are more, not looked at."
        return checks.unknown(area, name, found)
    return checks.ok(area, name, f"All {walk.names} names in {top} are yours and open to you alone.")


def _chmod(top: Path, walk: Walk) -> str:
    if len(walk.open_directories) + len(walk.open_files) > _SHOWN:
        return f"find {checks.quoted(top)} -type d -exec chmod 700 {{}} + -o -type f -exec chmod 600 {{}} +"
    return " && ".join(
        f"chmod {mode:o} {' '.join(map(checks.quoted, paths))}"
        for mode, paths in ((_DIRECTORY, walk.open_directories), (_FILE, walk.open_files))
        if paths
    )
