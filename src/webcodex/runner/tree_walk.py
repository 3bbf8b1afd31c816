"""Walks the tree beneath a held directory in the byte order of its paths (R-11, R-13, R-52).

Directories are opened in the directory held before them, without following a link. Only what a later request
may name is found: sensitive entries, and names that R-10 refuses or that are not UTF-8, are counted and left
out; `.git` is left out alone.
"""

import enum
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webcodex.runner import deadline, globs, own_files, path_form, places, private_files, spelling

MAX_DEPTH: Final = 128
_LOOK_UP_EVERY: Final = 1024

PLAIN: Final = re.compile(
    r"(?!(?:id_|(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)))"
    r"[a-z0-9_][a-z0-9_-]*(?:\.(?!(?:pem|key|p12|pfx|keystore)\Z)[a-z0-9_-]+)*",
    re.IGNORECASE | re.ASCII,
)
"""Names that need no closer look in a folder of such a name; a test holds this to `path_form`."""


class Kind(enum.StrEnum):
    """What an entry is; anything else is not found at all."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


class Found(NamedTuple):
    """One entry; `holder` is the directory that holds it, open until the next entry is asked for."""

    holder: int
    name: str
    path: str
    kind: Kind


class Stopped(Exception):
    """The walk ended before its end; what lies at `position` or after it was not looked at."""

    def __init__(self, position: str) -> None:
        super().__init__()
        self.position = position


class _Due(enum.Enum):
    """What a walk does when it comes to an entry."""

    FIND = enum.auto()
    ENTER = enum.auto()
    OMIT = enum.auto()
    LEAVE_OUT = enum.auto()
    PASS_BY = enum.auto()


class _Event(NamedTuple):
    """One thing due in a directory; `key` sorts what a directory holds behind its own name."""

    key: str
    due: _Due
    name: str
    kind: Kind
    below: globs.Level | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What a walk covers: `depth` levels, from `start` on in byte order, at most `most_visits` entries."""

    level: globs.Level
    depth: int
    most_visits: int
    start: str = ""


@dataclass(slots=True)
class _Folder:
    directory: int
    prefix: str
    depth: int
    events: Iterator[_Event]


@dataclass(slots=True)
class Tally:
    """What a walk did not find, as far as it has come."""

    omitted_sensitive: int = 0
    unnameable: int = 0
    not_entered: int = 0
    _own: set[str] = field(default_factory=set)

    def omit_own(self, path: str) -> None:
        """Counts one of the Runner's own files or directories, once however often it is met."""
        self.omitted_sensitive += path not in self._own
        self._own.add(path)


@dataclass(kw_only=True, slots=True)
class Walk:
    """One walk beneath a place."""

    place: places.Place
    scope: Scope
    own: own_files.OwnFiles
    until: deadline.Deadline
    tally: Tally = field(default_factory=Tally)
    _visits: int = 0
    _device: int = 0
    _open: list[_Folder] = field(default_factory=list)

    def found(self) -> Iterator[Found]:
        """Yields what lies beneath the place, in byte order of the paths.

        Raises:
            Stopped: the deadline passed, or the tree holds more entries than may be visited.

        """
        self._device = os.fstat(self.place.directory).st_dev
        level: globs.Level | None = self.scope.level
        holders = self.place.shown if self.place.file is None else self.place.shown[:-1]
        for name in holders:
            level = None if level is None else level.below(name)
        if level is None:
            return
        if self.place.file is not None:
            path = "/".join(self.place.shown)
            if level.admits(self.place.shown[-1]) and path >= self.scope.start:
                yield Found(self.place.directory, self.place.file, path, Kind.FILE)
            return
        prefix = "".join(f"{name}/" for name in holders)
        try:
            self._push(os.dup(self.place.directory), prefix, level, self.scope.depth)
            yield from self._walk()
        finally:
            while self._open:
                os.close(self._open.pop().directory)

    def _walk(self) -> Iterator[Found]:
        find = _Due.FIND
        while self._open:
            folder = self._open[-1]
            for key, due, name, kind, below in folder.events:
                if due is find:
                    yield Found(folder.directory, name, folder.prefix + name, kind)
                elif below is None:
                    self._count(due)
                elif self._enter(folder, key, below):
                    break
            else:
                os.close(self._open.pop().directory)

    def _count(self, due: _Due) -> None:
        if due is _Due.OMIT:
            self.tally.omitted_sensitive += 1
        elif due is _Due.LEAVE_OUT:
            self.tally.unnameable += 1

    def _enter(self, folder: _Folder, key: str, below: globs.Level) -> bool:
        """Says whether the directory is open now and next to be walked."""
        try:
            directory = os.open(key[:-1], spelling.LISTED, dir_fd=folder.directory)
        except OSError:
            self.tally.not_entered += 1
            return False
        status = os.fstat(directory)
        if self.own.holds_directory(private_files.Identity.of(status)):
            self.tally.omit_own(folder.prefix + key[:-1])
        elif status.st_dev != self._device or len(self._open) == MAX_DEPTH:
            self.tally.not_entered += 1
        else:
            self._push(directory, folder.prefix + key, below, folder.depth - 1)
            return True
        os.close(directory)
        return False

    def _push(self, directory: int, prefix: str, level: globs.Level, depth: int) -> None:
        folder = _Folder(directory=directory, prefix=prefix, depth=depth, events=iter(()))
        self._open.append(folder)
        events = list(self._events(folder, level))
        events.sort()
        folder.events = iter(events)

    def _events(self, folder: _Folder, level: globs.Level) -> Iterator[_Event]:
        prefix, start = folder.prefix, self.scope.start
        parent = prefix.rstrip("/").rpartition("/")[2]
        room_bytes = path_form.MAX_PATH_BYTES - len(prefix.encode())
        is_ordinary = room_bytes >= path_form.MAX_COMPONENT_BYTES and PLAIN.fullmatch(parent or "root")
        admits, is_plain, find, directory = level.admits, PLAIN.fullmatch, _Due.FIND, Kind.DIR
        with os.scandir(folder.directory) as entries:
            for entry in entries:
                self._visits += 1
                if self._visits % _LOOK_UP_EVERY == 0:
                    self._stop_when_over(folder)
                name, kind = entry.name, _kind(entry)
                if kind is None:
                    continue
                due = find if is_ordinary and is_plain(name) else _judge(parent, name, room_bytes)
                if kind is not directory or folder.depth == 1:
                    if prefix + name >= start and admits(name):
                        yield _Event(name, due, name, kind, None)
                    continue
                below = level.below(name)
                if prefix + name >= start and (admits(name) or (below and due is not find)):
                    yield _Event(name, due, name, kind, None)
                if below and due is find and _reaches(f"{prefix}{name}/", start):
                    yield _Event(f"{name}/", _Due.ENTER, name, kind, below)

    def _stop_when_over(self, folder: _Folder) -> None:
        if self._visits >= self.scope.most_visits or not self.until.remaining_s():
            raise Stopped(folder.prefix)


def _kind(entry: os.DirEntry[str]) -> Kind | None:
    try:
        if entry.is_file(follow_symlinks=False):
            return Kind.FILE
        if entry.is_dir(follow_symlinks=False):
            return Kind.DIR
        return Kind.SYMLINK if entry.is_symlink() else None
    except OSError:
        return None


def _reaches(beneath: str, start: str) -> bool:
    """Says whether anything with the prefix `beneath` can come at `start` or after it."""
    return beneath >= start or start.startswith(beneath)


@functools.lru_cache(maxsize=4096)
def _judge(parent: str, name: str, room_bytes: int) -> _Due:
    if name.casefold() == ".git":
        return _Due.PASS_BY
    try:
        path_form.parse(name)
    except path_form.PathRefused:
        return _Due.LEAVE_OUT
    if len(name.encode()) > room_bytes:
        return _Due.LEAVE_OUT
    return _Due.OMIT if path_form.is_sensitive((parent, name)) else _Due.FIND
