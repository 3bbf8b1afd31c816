"""Reads one range of lines out of one open file while hashing the whole of it (R-51)."""

import codecs
import hashlib
import os
from dataclasses import dataclass
from typing import Final

from webcodex.runner import deadline

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_TEXT_BYTES: Final = 192 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


class RangeRefused(Exception):
    """The range cannot be given; `reason` is a word of R-51, `sha256` the file's own where it was wrong."""

    def __init__(self, reason: str, sha256: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sha256 = sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which lines are asked for, counted from 1, and which whole file the caller expects."""

    start_line: int
    limit: int
    expected_sha256: str | None
    with_line_numbers: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """What the file holds there; `sha256` covers all of its raw bytes."""

    text: str
    sha256: str
    total_lines: int
    returned_lines: int


def read(descriptor: int, size_bytes: int, wanted: Wanted, until: deadline.Deadline) -> Range:
    """Returns the wanted lines of an open regular file; one longer than 64 MiB is not read.

    Raises:
        RangeRefused: `file_too_large`, `timeout`, `sha_mismatch`, `invalid_utf8` or `range_too_large`.
        OSError: the file cannot be read.

    """
    if size_bytes > MAX_FILE_BYTES:
        raise RangeRefused("file_too_large")
    scan = _Scan(wanted)
    read_bytes = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        read_bytes += len(chunk)
        if read_bytes > MAX_FILE_BYTES:
            raise RangeRefused("file_too_large")
        scan.take(chunk)
        if not until.remaining_s():
            raise RangeRefused("timeout")
    return scan.result()


class _Scan:
    """One pass over the bytes of a file."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._digest = hashlib.sha256()
        self._decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self._line = 1
        self._within_line = False
        self._kept = bytearray()

    def take(self, chunk: bytes) -> None:
        """Counts, hashes and keeps what belongs to the range."""
        self._digest.update(chunk)
        self._decode(chunk, final=False)
        start = self._offset_of_line(chunk, self._wanted.start_line, 0)
        if start is not None and len(self._kept) <= MAX_TEXT_BYTES:
            end = self._offset_of_line(chunk, self._wanted.start_line + self._wanted.limit, start)
            room = MAX_TEXT_BYTES + 1 - len(self._kept)
            self._kept += chunk[start:end][:room]
        self._line += chunk.count(b"\n")
        self._within_line = not chunk.endswith(b"\n")

    def result(self) -> Range:
        """Returns the range once the file has ended."""
        sha256 = self._digest.hexdigest()
        if self._wanted.expected_sha256 not in {None, sha256}:
            raise RangeRefused("sha_mismatch", sha256)
        self._decode(b"", final=True)
        if self._decoder is None:
            raise RangeRefused("invalid_utf8")
        if len(self._kept) > MAX_TEXT_BYTES:
            raise RangeRefused("range_too_large")
        text = self._kept.decode()
        lines = text.count("\n") + (1 if text and not text.endswith("\n") else 0)
        if self._wanted.with_line_numbers:
            text = _numbered(text, self._wanted.start_line)
            if len(text.encode()) > MAX_TEXT_BYTES:
                raise RangeRefused("range_too_large")
        total = self._line if self._within_line else self._line - 1
        return Range(text=text, sha256=sha256, total_lines=total, returned_lines=lines)

    def _decode(self, chunk: bytes, *, final: bool) -> None:
        try:
            if self._decoder is not None:
                self._decoder.decode(chunk, final=final)
        except UnicodeDecodeError:
            self._decoder = None

    def _offset_of_line(self, chunk: bytes, line: int, least: int) -> int | None:
        """Returns where `line` begins in the chunk: `least` if before it, None if after it."""
        newlines = line - self._line
        if newlines <= 0:
            return least
        if chunk.count(b"\n") < newlines:
            return None
        offset = 0
        for _ in range(newlines):
            offset = chunk.index(b"\n", offset) + 1
        return max(offset, least)


def _numbered(text: str, first: int) -> str:
    lines = text.split("\n")
    ending = lines.pop()
    numbered = "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first))
    return numbered + (f"{first + len(lines):>6}\t{ending}" if ending else "")
