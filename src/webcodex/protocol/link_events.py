"""What the Server learns from one Runner connection; the words of `link.ServerLink`."""

from dataclasses import dataclass

from webcodex.protocol import calls, hello, inventory, messages


@dataclass(frozen=True, kw_only=True, slots=True)
class HelloReceived:
    """The Runner asks to register; answer with `registered` or `refuse`."""

    hello: hello.Hello


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultReceived:
    """A request of this connection is answered: `result.body` or `result.error`, never both."""

    request_id: str
    kind: str
    result: calls.Result


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultIgnored:
    """A result names no open request of this client, instance and connection, or nobody waits for it."""

    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinged:
    """The Runner is alive; `reply` is the pong to send."""

    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryReceived:
    """A page arrived that publishes nothing (yet); `reply` says what became of it."""

    status: inventory.SetStatus
    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryPublished:
    """The Runner's whole inventory is known and replaces the stored one at once; `reply` says so."""

    projects: tuple[hello.ProjectEntry, ...]
    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataChanged:
    """Host facts or providers changed; what is None did not."""

    metadata: messages.RuntimeMetadata


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamEventReceived:
    """A Run or Job moved; acknowledge it with `ack` once it is committed (R-47)."""

    event: messages.StreamEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class GoodbyeReceived:
    """The Runner leaves on purpose: the lease is free at once; close with 1000."""

    reason: str


Event = (
    HelloReceived
    | ResultReceived
    | ResultIgnored
    | Pinged
    | InventoryReceived
    | InventoryPublished
    | MetadataChanged
    | StreamEventReceived
    | GoodbyeReceived
)
