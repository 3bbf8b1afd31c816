"""Every frame between Server and Runner and its direction (R-31); must never do I/O.

A frame is one JSON object tagged by `type`. `from_runner` and `from_server` parse what arrives at either
side: unknown types, and frames of the other direction, become None and are ignored; unknown fields are
dropped; anything malformed is `fields.Malformed`, after which the connection closes with 1002. `text` is the
way back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from webcodex.protocol import bounds, calls, fields, hello, records

STREAMS: Final = frozenset({"run", "job"})
_MAX_RESUME: Final = 256
_JSON_SMALL: Final = 16 * 1024


class Frame(Protocol):
    """A record that goes over the link as one text frame."""

    TYPE: ClassVar[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """How far the Server has one stream, so that only the rest is sent (R-48)."""

    stream: str
    id: str
    through_sequence: int
    through_revision: int

    @classmethod
    def read(cls, source: fields.Fields) -> "Resume":
        """Reads the cursor in `source`."""
        return cls(
            stream=source.word("stream", STREAMS),
            id=source.matching("id", bounds.IDENTITY),
            through_sequence=source.integer("through_sequence"),
            through_revision=source.integer("through_revision"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """Who the Server took the connection for, and the connection's own name."""

    client_id: str
    connection_id: str

    @classmethod
    def read(cls, source: fields.Fields) -> "Client":
        """Reads the client in `source`."""
        return cls(
            client_id=source.matching("client_id", bounds.CLIENT_ID),
            connection_id=source.matching("connection_id", bounds.IDENTITY),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """S→R: the hello is accepted; a refusal is an `error` frame instead."""

    TYPE: ClassVar[str] = "registered"
    client: Client
    success: bool = True
    protocol: int = bounds.GENERATION
    resume: tuple[Resume, ...] = ()

    @classmethod
    def read(cls, source: fields.Fields) -> "Registered":
        """Reads the registration in `source`."""
        if not source.boolean("success"):
            raise fields.Malformed("registered.success is false; a refusal is an error frame")
        return cls(
            client=Client.read(source.nested("client")),
            protocol=source.integer("protocol", least=bounds.GENERATION, most=bounds.GENERATION),
            resume=source.each("resume", Resume.read, most=_MAX_RESUME),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamEvent:
    """R→S: one numbered event or one change of state of a Run or Job (R-46)."""

    TYPE: ClassVar[str] = "event"
    stream: str
    id: str
    sequence: int | None
    first_retained_sequence: int | None
    body: fields.JsonObject | None
    snapshot: fields.JsonObject

    @classmethod
    def read(cls, source: fields.Fields) -> "StreamEvent":
        """Reads the event in `source`: a sequence and a body, or neither."""
        sequence = source.integer_or_none("sequence")
        body = source.object_or_none("body")
        if (sequence is None) is not (body is None):
            raise fields.Malformed("event holds only one of sequence and body")
        stream = source.word("stream", STREAMS)
        if stream == "job" and sequence is not None:
            raise fields.Malformed("event numbers a Job snapshot")
        return cls(
            stream=stream,
            id=source.matching("id", bounds.IDENTITY),
            sequence=sequence,
            first_retained_sequence=source.integer_or_none("first_retained_sequence"),
            body=body,
            snapshot=source.object("snapshot"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ack:
    """S→R: everything of one stream up to here is committed (R-47)."""

    TYPE: ClassVar[str] = "ack"
    stream: str
    id: str
    through_sequence: int
    through_revision: int

    @classmethod
    def read(cls, source: fields.Fields) -> "Ack":
        """Reads the acknowledgement in `source`."""
        cursor = Resume.read(source)
        return cls(
            stream=cursor.stream,
            id=cursor.id,
            through_sequence=cursor.through_sequence,
            through_revision=cursor.through_revision,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ping:
    """R→S, every 30 s; `ts` is the sender's own and comes back unread."""

    TYPE: ClassVar[str] = "ping"
    ts: int

    @classmethod
    def read(cls, source: fields.Fields) -> "Ping":
        """Reads the ping in `source`."""
        return cls(ts=source.integer("ts"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Pong:
    """S→R: the `ts` of the ping it answers."""

    TYPE: ClassVar[str] = "pong"
    ts: int

    @classmethod
    def read(cls, source: fields.Fields) -> "Pong":
        """Reads the pong in `source`."""
        return cls(ts=source.integer("ts"))


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeMetadata:
    """R→S: changed host facts or providers; what is None did not change."""

    TYPE: ClassVar[str] = "runtime_metadata"
    display_name: str | None = field(default=None, metadata=records.OMIT_NONE)
    owner: str | None = field(default=None, metadata=records.OMIT_NONE)
    hostname: str | None = field(default=None, metadata=records.OMIT_NONE)
    host_context: fields.JsonObject | None = field(default=None, metadata=records.OMIT_NONE)
    coding_agent_providers: tuple[hello.Provider, ...] | None = field(
        default=None, metadata=records.OMIT_NONE
    )

    @classmethod
    def read(cls, source: fields.Fields) -> "RuntimeMetadata":
        """Reads the changed facts in `source`."""
        return cls(
            display_name=source.text_or_none("display_name", most=128),
            owner=source.text_or_none("owner", most=128),
            hostname=source.text_or_none("hostname", most=128),
            host_context=source.object_or_none("host_context", most_bytes=_JSON_SMALL),
            coding_agent_providers=source.each_or_none("coding_agent_providers", hello.Provider.read, most=8),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryPage:
    """R→S: one page of a whole Project inventory; `complete` marks the last one (R-35)."""

    TYPE: ClassVar[str] = "project_inventory_page"
    generation: int
    snapshot_sequence: int
    page_index: int
    complete: bool
    projects: tuple[hello.ProjectEntry, ...]

    @classmethod
    def read(cls, source: fields.Fields) -> "InventoryPage":
        """Reads the page in `source`."""
        return cls(
            generation=source.integer("generation"),
            snapshot_sequence=source.integer("snapshot_sequence"),
            page_index=source.integer("page_index", most=bounds.MAX_PAGES - 1),
            complete=source.boolean("complete"),
            projects=source.each("projects", hello.ProjectEntry.read, most=bounds.MAX_PAGE_PROJECTS),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryStatus:
    """S→R: what became of the set a page belongs to: `pending`, `published`, `stale` or `invalid`."""

    TYPE: ClassVar[str] = "project_inventory_status"
    generation: int
    snapshot_sequence: int
    status: str

    @classmethod
    def read(cls, source: fields.Fields) -> "InventoryStatus":
        """Reads the status in `source`."""
        return cls(
            generation=source.integer("generation"),
            snapshot_sequence=source.integer("snapshot_sequence"),
            status=source.text("status", most=64),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Goodbye:
    """R→S: this Runner leaves on purpose; the lease is free at once."""

    TYPE: ClassVar[str] = "goodbye"
    reason: str

    @classmethod
    def read(cls, source: fields.Fields) -> "Goodbye":
        """Reads the farewell in `source`."""
        return cls(reason=source.text("reason", most=128, least=0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Error:
    """S→R: why the Server closes next (R-32)."""

    TYPE: ClassVar[str] = "error"
    code: str
    message: str
    reason: str | None = field(default=None, metadata=records.OMIT_NONE)
    supported: tuple[int, ...] | None = field(default=None, metadata=records.OMIT_NONE)

    @classmethod
    def read(cls, source: fields.Fields) -> "Error":
        """Reads the refusal in `source`; `supported` is for people and is not read back."""
        return cls(
            code=source.text("code", most=64),
            message=source.text("message", most=512, least=0),
            reason=source.text_or_none("reason", most=64),
        )


FromRunner = hello.Hello | calls.Result | StreamEvent | Ping | RuntimeMetadata | InventoryPage | Goodbye
FromServer = Registered | calls.Request | Ack | Pong | InventoryStatus | Error

_FROM_RUNNER: Final[Mapping[str, Callable[[fields.Fields], FromRunner]]] = {
    hello.Hello.TYPE: hello.Hello.read,
    calls.Result.TYPE: calls.Result.read,
    StreamEvent.TYPE: StreamEvent.read,
    Ping.TYPE: Ping.read,
    RuntimeMetadata.TYPE: RuntimeMetadata.read,
    InventoryPage.TYPE: InventoryPage.read,
    Goodbye.TYPE: Goodbye.read,
}
_FROM_SERVER: Final[Mapping[str, Callable[[fields.Fields], FromServer]]] = {
    Registered.TYPE: Registered.read,
    calls.Request.TYPE: calls.Request.read,
    Ack.TYPE: Ack.read,
    Pong.TYPE: Pong.read,
    InventoryStatus.TYPE: InventoryStatus.read,
    Error.TYPE: Error.read,
}


def text(frame: Frame) -> str:
    """Returns the frame as the text that goes over the link.

    Raises:
        Malformed: it would be longer than 8 MiB or is not JSON.

    """
    return fields.encode({"type": frame.TYPE, **records.wire(frame)})


def from_runner(received: str) -> FromRunner | None:
    """Returns the frame a Runner sent; None for a type no Runner of this generation sends.

    Raises:
        Malformed: the text is not a frame; `hello.InventoryInvalid` if only a hello's inventories are not.

    """
    members = fields.decode(received)
    read = _FROM_RUNNER.get(_type_of(members))
    return None if read is None else read(fields.Fields(members, _type_of(members)))


def from_server(received: str) -> FromServer | None:
    """Returns the frame a Server sent; None for a type no Server of this generation sends.

    Raises:
        Malformed: the text is not a frame.

    """
    members = fields.decode(received)
    read = _FROM_SERVER.get(_type_of(members))
    return None if read is None else read(fields.Fields(members, _type_of(members)))


def _type_of(members: Mapping[str, Any]) -> str:
    kind = members.get("type")
    if not isinstance(kind, str):
        raise fields.Malformed("the frame has no type")
    return kind
