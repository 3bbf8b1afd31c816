"""Searches the text of every file beneath a place and keeps to the bounds of one reply (R-13, R-52).

Binary files, files that are not UTF-8, are longer than 16 MiB or cannot be read, names that no request may
hold and directories that cannot be entered are counted in `skipped_files`. Whether a file is the Runner's own
is decided before its content is looked at, so that no count tells what is in one.
"""

import contextlib
import enum
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.protocol import bounds, fields
from webcodex.runner import line_patterns, own_files, tree_walk

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
ROOM_BYTES: Final = bounds.MAX_REPLY_BYTES - 1024
_MAX_OWN_FILES: Final = 20_000
_Identity = tuple[int, int]
"""Device and number: a plain pair, because a hundred thousand of them are made in one search."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ResultMode(enum.StrEnum):
    """What is told of each match."""

    MATCHES = "matches"
    FILES = "files_with_matches"
    COUNT = "count"


_KEYS: Final = {ResultMode.MATCHES: "matches", ResultMode.FILES: "files", ResultMode.COUNT: "counts"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is searched for and how much of it is told."""

    find: line_patterns.Finder
    result_mode: ResultMode
    context: int
    limit: int


class _Full(Exception):
    """Something matched that the reply has no room for."""


class Sensitive(Exception):
    """The file is the Runner's own."""


class NotText(Exception):
    """The file is not text that can be searched."""


@dataclass(slots=True)
class _Counts:
    searched: int = 0
    skipped: int = 0
    omitted: int = 0


def search(walk: tree_walk.Walk, wanted: Wanted) -> dict[str, Any]:
    """Returns the reply of `search_project_texts` without its project; of the three lists only the asked."""
    told, counts, truncated = _Told(wanted), _Counts(), False
    try:
        for path, content in _texts(walk, counts):
            try:
                told.tell(path, content)
            except MemoryError:
                counts.searched -= 1
                counts.skipped += 1
    except (_Full, tree_walk.Stopped):
        truncated = True
    return {
        _KEYS[wanted.result_mode]: told.rows,
        "truncated": truncated,
        "searched_files": counts.searched,
        "skipped_files": counts.skipped + walk.tally.unnameable + walk.tally.not_entered,
        "omitted_sensitive": counts.omitted + walk.tally.omitted_sensitive,
    }


def _texts(walk: tree_walk.Walk, counts: _Counts) -> Iterator[tuple[str, bytes]]:
    own, file = Own(walk.own), tree_walk.Kind.FILE
    for found in walk.found():
        if found.kind is not file:
            continue
        try:
            content = read(found, own)
        except Sensitive:
            counts.omitted += 1
        except (NotText, OSError):
            counts.skipped += 1
        else:
            counts.searched += 1
            yield found.path, content


def read(found: tree_walk.Found, own: "Own") -> bytes:
    """Returns the text of a file that was found, as UTF-8.

    Raises:
        Sensitive: it is the Runner's own.
        NotText: it is no regular file, too long, binary or not UTF-8.
        OSError: it is gone, a link by now, or cannot be read.

    """
    descriptor = os.open(found.name, _READ, dir_fd=found.holder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotText
        if own.holds(status):
            raise Sensitive
        if status.st_size > MAX_FILE_BYTES:
            raise NotText
        content = os.read(descriptor, status.st_size + 1)
        if len(content) > status.st_size:
            content += os.read(descriptor, MAX_FILE_BYTES)
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES or b"\0" in content or not _is_utf8(content):
        raise NotText
    return content


def _is_utf8(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Told:
    """What the reply holds so far."""

    def __init__(self, wanted: Wanted) -> None:
        self.rows: list[Any] = []
        self._wanted = wanted
        self._room_bytes = ROOM_BYTES

    def tell(self, path: str, content: bytes) -> None:
        """Adds what matches in one file.

        Raises:
            _Full: not all of it fits.

        """
        hits = self._wanted.find(content)
        first = next(hits, None)
        if first is None:
            return
        if self._wanted.result_mode is ResultMode.MATCHES:
            for hit in itertools.chain((first,), hits):
                self._add_match(path, content, hit)
        elif self._wanted.result_mode is ResultMode.FILES:
            self._add(path)
        else:
            self._add({"path": path, "count": 1 + sum(1 for _ in hits)})

    def _add(self, row: Any) -> None:
        self._room_bytes -= fields.encoded_bytes(row) + 1
        if len(self.rows) == self._wanted.limit or self._room_bytes < 0:
            raise _Full
        self.rows.append(row)

    def _add_match(self, path: str, content: bytes, hit: line_patterns.Hit) -> None:
        if len(self.rows) == self._wanted.limit:
            raise _Full
        context = self._wanted.context
        before = line_patterns.before(content, hit, context)
        after = line_patterns.after(content, hit, context)
        row = {"path": path, "line": hit.number, "text": line_patterns.shown(content, hit)}
        while not self.rows and fields.encoded_bytes({**row, "before": before, "after": after}) > ROOM_BYTES:
            before, after = before[1:], after[:-1]
        self._add({**row, "before": before, "after": after})


class Own:
    """The Runner's own files by identity, looked up once for the whole search (R-13)."""

    def __init__(self, own: own_files.OwnFiles) -> None:
        self._own = own
        current = own.config_identity
        self._configuration = {(current.dev, current.ino), *_identities([own.config_path])}
        self._linked: list[_Identity] | None = None

    def holds(self, status: os.stat_result) -> bool:
        """Says whether a file is an own one, under whatever name; where they are too many, it may be."""
        identity = status.st_dev, status.st_ino
        if identity in self._configuration:
            return True
        if status.st_nlink == 1:
            return False
        if self._linked is None:
            self._linked = list(itertools.islice(_identities(_beneath(self._own)), _MAX_OWN_FILES))
        return len(self._linked) == _MAX_OWN_FILES or identity in self._linked


def _beneath(own: own_files.OwnFiles) -> Iterator[Path]:
    for directory in own.directories:
        for folder, _, names in os.walk(directory):
            yield from (Path(folder, name) for name in names)


def _identities(files: Iterable[Path]) -> Iterator[_Identity]:
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            yield status.st_dev, status.st_ino
