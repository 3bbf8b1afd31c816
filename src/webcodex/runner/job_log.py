"""Keeps the last of what a Job wrote, in arrival order, within a fixed size whatever comes (R-61)."""

import codecs
import enum
from typing import Final

from webcodex.core import job_log as shown_log
from webcodex.protocol import fields

MAX_WIRE_BYTES: Final = 72 * 1024
"""What a tail may take in a frame; control characters are written longer there, so less of them is kept."""


class Stream(enum.Enum):
    """Where a piece of output came from."""

    STDOUT = enum.auto()
    STDERR = enum.auto()


class Tail:
    """The last bytes of a growing text; never holds more than twice its bound."""

    def __init__(self, most_bytes: int) -> None:
        self._most = min(most_bytes, shown_log.TAIL_BYTES)
        self._kept = bytearray()
        self._lines = 0
        self._is_cut = False

    def add(self, text: bytes) -> None:
        """Takes the next piece of valid UTF-8."""
        self._lines += text.count(b"\n")
        self._kept += text
        if len(self._kept) > 2 * self._most:
            self._cut(self._most)

    def view(self) -> shown_log.Log:
        """Returns the last whole lines that fit; of a line that alone is too long, its end."""
        self._cut(self._most)
        tail = self._kept.decode()
        while (wire_bytes := fields.encoded_bytes(tail)) > MAX_WIRE_BYTES:
            self._cut(len(self._kept) * MAX_WIRE_BYTES // wire_bytes)
            tail = self._kept.decode()
        return shown_log.Log(
            tail=tail,
            first_retained_line=self._lines - self._kept.count(b"\n") + 1,
            next_line=self._lines + 1,
            truncated=self._is_cut,
        )

    def _cut(self, most: int) -> None:
        """Drops from the front, to a line's begin if one is in reach, else to a character's (I-06)."""
        excess = len(self._kept) - most
        if excess <= 0:
            return
        self._is_cut = True
        line_end = self._kept.find(b"\n", excess - 1)
        if 0 <= line_end < len(self._kept) - 1:
            excess = line_end + 1
        while excess < len(self._kept) and self._kept[excess] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8
            excess += 1
        del self._kept[:excess]


class Log:
    """All output of one Job: together, as R-61 shows it, and by stream, as R-60 answers it."""

    def __init__(self, most_bytes: int) -> None:
        self._all = Tail(most_bytes)
        self._streams = {stream: Tail(most_bytes) for stream in Stream}
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream}

    def add(self, stream: Stream, chunk: bytes) -> None:
        """Takes the next piece of a stream, or its end b""; what is no text, and NUL, becomes U+FFFD."""
        text = self._decoders[stream].decode(chunk, final=not chunk).replace("\0", "\ufffd").encode()
        self._all.add(text)
        self._streams[stream].add(text)

    def view(self) -> shown_log.Log:
        """Returns what is kept of both streams in arrival order."""
        return self._all.view()

    def tail_of(self, stream: Stream) -> str:
        """Returns the end of one stream."""
        return self._streams[stream].view().tail
