"""Decides what of the Run and Job streams goes out next, and what is settled (R-46..R-48); does no I/O.

A stream answers for itself what lies after a cursor, and keeps what it must until that is acknowledged. Here
are the cursors of the present connection, and the bound on what is in flight.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from webcodex.protocol import messages

MAX_IN_FLIGHT: Final = 64

Name = tuple[str, str]
"""The word of the stream, and the id in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """How far somebody has a stream: its numbered events, and the revisions of its snapshot."""

    sequence: int = 0
    revision: int = 0

    def covers(self, other: "Cursor") -> bool:
        """Says whether nothing of the other lies after this."""
        return self.sequence >= other.sequence and self.revision >= other.revision


START: Final = Cursor()


class Stream(Protocol):
    """One Run or Job that has something to tell."""

    @property
    def name(self) -> Name:
        """The stream's name, the same for its whole life."""

    def after(self, cursor: Cursor) -> tuple[messages.StreamEvent, Cursor] | None:
        """Returns the first event after a cursor and the cursor after that event; None where there is none.

        What has to be durable before it is sent is not shown before it is.
        """

    def resumed(self, cursor: Cursor) -> Cursor:
        """Returns from where a new connection goes on, when the Server says that it has the stream so far."""

    def acknowledge(self, cursor: Cursor) -> None:
        """Takes note that the Server has committed everything up to here."""


class Outbox:
    """All streams of this process, and how far the present connection is with each."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._streams: dict[Name, Stream] = {}
        self._waiting: dict[Name, None] = {}
        self._sent: dict[Name, Cursor] = {}
        self._in_flight: deque[tuple[Name, Cursor]] = deque()
        self._is_open = False

    def add(self, stream: Stream) -> None:
        """Takes up a stream; what it has to tell is sent."""
        self._streams[stream.name] = stream
        self.touch(stream.name)

    def remove(self, name: Name) -> None:
        """Lets go of a stream that has nothing more to tell."""
        self._streams.pop(name, None)
        self._waiting.pop(name, None)
        self._sent.pop(name, None)

    def touch(self, name: Name) -> None:
        """Takes note that a stream may have more to tell."""
        if name in self._streams:
            self._waiting[name] = None
            self.changed.set()

    def begin(self, resume: tuple[messages.Resume, ...]) -> None:
        """Opens a connection: each stream goes on after what the Server said it has, or from its start."""
        self._in_flight.clear()
        has = {
            (entry.stream, entry.id): Cursor(sequence=entry.through_sequence, revision=entry.through_revision)
            for entry in resume
        }
        self._sent = {name: each.resumed(has.get(name, START)) for name, each in self._streams.items()}
        self._waiting = dict.fromkeys(self._streams)
        self._is_open = True
        self.changed.set()

    def end(self) -> None:
        """Closes the connection: what was in flight may or may not have arrived."""
        self._is_open = False
        self._in_flight.clear()

    def take(self) -> messages.StreamEvent | None:
        """Returns the event to send next, the streams in turn; None if there is none or 64 are in flight."""
        while self._is_open and self._waiting and len(self._in_flight) < MAX_IN_FLIGHT:
            name = next(iter(self._waiting))
            del self._waiting[name]
            found = self._streams[name].after(self._sent.get(name, START))
            if found is not None:
                event, cursor = found
                self._sent[name] = cursor
                self._in_flight.append((name, cursor))
                self._waiting[name] = None
                return event
        return None

    def acknowledge(self, ack: messages.Ack) -> None:
        """Settles everything of one stream up to an acknowledgement; a repeated one changes nothing."""
        name = (ack.stream, ack.id)
        through = Cursor(sequence=ack.through_sequence, revision=ack.through_revision)
        self._in_flight = deque(
            (sent_name, cursor)
            for sent_name, cursor in self._in_flight
            if sent_name != name or not through.covers(cursor)
        )
        if name in self._streams:
            self._streams[name].acknowledge(through)
        self.changed.set()
