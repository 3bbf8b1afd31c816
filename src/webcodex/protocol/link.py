"""The Server's side of one Runner connection: text frames in, events and text frames out; must never do I/O.

How an edge drives it, one `ServerLink` per accepted WebSocket (events are in `link_events`):

1. Before anything: `Authorization` holds a Runner token (C-04, C-13) or the bootstrap credential, there is
   no `Origin`, and the socket takes frames of at most 8 MiB. Then
   ``link = ServerLink(connection_id="conn_...", now=monotonic())``.
2. For each text frame: ``for event in link.receive_text(text, now)``. Where an event carries `reply`, send
   it. After a binary frame: ``raise link.refuse_binary()``.
3. On `HelloReceived`: compare the token with `hello.client_id` (else `refuse("register_forbidden")`), ask
   `lease.decide` inside the transaction that stores the new lease (else `refuse("register_failed", reason)`),
   end the older connection of that client, then send `registered(resume)`. Until then the Runner waits, and
   its pings are answered. `hello.projects` is the whole inventory, or None when pages follow: then the stored
   one stays until `InventoryPublished`. After a refusal is sent, close the socket with 1008.
4. Keep one timer: at `link.due_at()` call `link.tick(now)`, then set it again. It covers the hello (15 s),
   silence (60 s) and half an inventory (120 s).
5. When `receive_text` or `tick` raise `LinkOver`: send `last_words` unless None, close with `close_code`.
6. To ask: ``request_id, frame = link.request(...)``, send `frame`, wait for `ResultReceived` of that id. When
   the caller stops waiting, `link.abandon(request_id)`: its late answer is then only `ResultIgnored`.
7. When the socket has ended, for any reason: `link.end()` names every request that lost its answer. A lost
   CHANGE is `outcome_unknown` to its caller, a lost READ is `runner_unavailable` (R-45).

`now` is a monotonic clock in seconds throughout; only `lease` counts in Unix s.

    LinkOver
     +-- ProtocolViolation   the Runner broke the protocol, or its first frame did not come in time
     +-- PeerSilent          nothing arrived for 60 s
    CannotAsk
     +-- NotOpen             not registered yet, or already leaving
     +-- TooManyRequests     256 are open: `runner_unavailable`, `wait` (R-41)
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.protocol import bounds, calls, fields, hello, inventory, link_events, messages, records

CLOSE_GOING_AWAY: Final = 1001


class LinkOver(Exception):
    """The connection has to end: send `last_words` if there are any, then close with `close_code`."""

    def __init__(self, why: str, *, close_code: int, last_words: str | None = None) -> None:
        super().__init__(why)
        self.close_code = close_code
        self.last_words = last_words


class ProtocolViolation(LinkOver):
    """The peer sent what it may not, or its first frame did not come in time (R-30, R-32)."""

    def __init__(self, why: str, *, last_words: str | None = None) -> None:
        super().__init__(why, close_code=bounds.CLOSE_PROTOCOL_ERROR, last_words=last_words)


class PeerSilent(LinkOver):
    """Nothing arrived for 60 s (R-34)."""

    def __init__(self) -> None:
        super().__init__("the peer fell silent", close_code=CLOSE_GOING_AWAY)


class CannotAsk(Exception):
    """The request was not made and nothing was sent."""


class NotOpen(CannotAsk):
    """The Runner is not registered on this connection, or has said goodbye."""


class TooManyRequests(CannotAsk):
    """256 requests are open on this connection (R-41)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostRequest:
    """A request whose answer can no longer come (R-45)."""

    request_id: str
    kind: str
    effect: calls.Effect


class State(enum.StrEnum):
    """Where the connection is in its life."""

    AWAITING_HELLO = "awaiting_hello"
    DECIDING = "deciding"
    OPEN = "open"
    LEAVING = "leaving"
    CLOSED = "closed"


class Step(enum.StrEnum):
    """What moves a connection on."""

    HELLO = "hello"
    REGISTERED = "registered"
    GOODBYE = "goodbye"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[State, Mapping[Step, State]]] = {
    State.AWAITING_HELLO: {Step.HELLO: State.DECIDING, Step.ENDED: State.CLOSED},
    State.DECIDING: {
        Step.REGISTERED: State.OPEN,
        Step.GOODBYE: State.LEAVING,
        Step.ENDED: State.CLOSED,
    },
    State.OPEN: {Step.GOODBYE: State.LEAVING, Step.ENDED: State.CLOSED},
    State.LEAVING: {Step.ENDED: State.CLOSED},
    State.CLOSED: {Step.ENDED: State.CLOSED},
}

ALLOWED: Final[Mapping[State, frozenset[str]]] = {
    State.AWAITING_HELLO: frozenset({hello.Hello.TYPE}),
    State.DECIDING: frozenset({messages.Ping.TYPE, messages.Goodbye.TYPE}),
    State.OPEN: frozenset(
        {
            calls.Result.TYPE,
            messages.StreamEvent.TYPE,
            messages.Ping.TYPE,
            messages.RuntimeMetadata.TYPE,
            messages.InventoryPage.TYPE,
            messages.Goodbye.TYPE,
        }
    ),
}
"""Which frames a Runner may send in which state; after its goodbye whatever still arrives is ignored."""

REFUSALS: Final[Mapping[str, str]] = {
    "expected_register": "The first frame must be a valid hello within 15 seconds.",
    "register_forbidden": "This credential may not register this client_id.",
    "register_failed": "The registration was refused.",
    "protocol_unsupported": "This protocol generation is not served.",
}


@dataclass(slots=True)
class _Open:
    kind: str
    effect: calls.Effect
    awaited: bool = True


class ServerLink:
    """One Runner connection as the Server sees it; see the module's guide."""

    def __init__(self, *, connection_id: str, now: float) -> None:
        self.connection_id = connection_id
        self.state = State.AWAITING_HELLO
        self._opened_at = now
        self._last_received = now
        self._client_id = ""
        self._instance_id = ""
        self._asked = 0
        self._open: dict[str, _Open] = {}
        self._assembly = inventory.Assembly()

    @property
    def last_received(self) -> float:
        """Returns when the newest sound frame arrived, on the edge's clock."""
        return self._last_received

    def receive_text(self, text: str, now: float) -> list[link_events.Event]:
        """Returns what one text frame means, in order; none for a frame of unknown type.

        Raises:
            ProtocolViolation: the frame is malformed or not allowed now.

        """
        if self.state in {State.LEAVING, State.CLOSED}:
            return []
        frame = self._parse(text)
        if frame is None:
            self._last_received = now
            return []
        if frame.TYPE not in ALLOWED[self.state]:
            raise self._violation(f"a {frame.TYPE} frame is not allowed while {self.state}")
        self._last_received = now
        return [self._meaning(frame, now)]

    def refuse_binary(self) -> ProtocolViolation:
        """Returns why a binary frame ends the connection (R-30)."""
        return self._violation("frames are text")

    def registered(self, resume: Sequence[messages.Resume] = ()) -> str:
        """Returns the frame that accepts the hello; requests may follow it.

        Raises:
            NotOpen: the Runner has said goodbye meanwhile, or no hello waits for an answer.

        """
        self._move(Step.REGISTERED)
        client = messages.Client(client_id=self._client_id, connection_id=self.connection_id)
        return messages.text(messages.Registered(client=client, resume=tuple(resume)))

    def refuse(self, code: str, reason: str | None = None) -> str:
        """Returns the frame that refuses the hello with a code of R-32; the edge closes after it."""
        self._move(Step.ENDED)
        return _refusal(code, reason)

    def request(
        self,
        *,
        kind: str,
        body: fields.JsonObject,
        budget_ms: int,
        requested_by: str,
        created_at: int,
        project_id: str | None = None,
    ) -> tuple[str, str]:
        """Returns the id and the frame of a new open request (R-41); `created_at` is in Unix s.

        Raises:
            CannotAsk: nothing may be asked now.
            Malformed: the Runner would refuse the frame, or it would be longer than 8 MiB.

        """
        if self.state is not State.OPEN:
            raise NotOpen(f"the connection is {self.state}")
        if len(self._open) >= bounds.MAX_OPEN_REQUESTS:
            raise TooManyRequests("256 requests are open")
        request_id = f"req_{self._asked + 1}"
        frame = calls.Request(
            request_id=request_id,
            connection_id=self.connection_id,
            kind=kind,
            budget_ms=budget_ms,
            requested_by=requested_by,
            created_at=created_at,
            body=body,
            project_id=project_id,
        )
        calls.Request.read(fields.Fields(records.wire(frame), frame.TYPE))
        text = messages.text(frame)
        self._asked += 1
        self._open[request_id] = _Open(kind, calls.effect_of(kind, body))
        return request_id, text

    def abandon(self, request_id: str) -> None:
        """Leaves nobody waiting for the request; it stays open until the Runner answers it."""
        if request_id in self._open:
            self._open[request_id].awaited = False

    def ack(self, acknowledgement: messages.Ack) -> str:
        """Returns the frame that acknowledges a stream; only after a committed write (R-47)."""
        return messages.text(acknowledgement)

    def due_at(self) -> float:
        """Returns when `tick` has something to say, on the edge's clock."""
        if self.state is State.AWAITING_HELLO:
            return self._opened_at + bounds.HELLO_WITHIN_S
        silent_at = self._last_received + bounds.ONLINE_S
        if self._assembly.identity is None:
            return silent_at
        return min(silent_at, self._assembly.deadline)

    def tick(self, now: float) -> None:
        """Drops an inventory that stayed incomplete for 120 s.

        Raises:
            ProtocolViolation: no hello came within 15 s.
            PeerSilent: nothing came for 60 s.

        """
        if self.state is State.CLOSED:
            return
        if self.state is State.AWAITING_HELLO and now >= self._opened_at + bounds.HELLO_WITHIN_S:
            raise self._violation("no hello came within 15 seconds")
        if now >= self._last_received + bounds.ONLINE_S:
            raise PeerSilent
        self._assembly = inventory.expire(self._assembly, now)

    def end(self) -> list[LostRequest]:
        """Closes the link and returns every awaited request that lost its answer; later calls return none."""
        self._move(Step.ENDED)
        lost = [
            LostRequest(request_id=request_id, kind=asked.kind, effect=asked.effect)
            for request_id, asked in self._open.items()
            if asked.awaited
        ]
        self._open.clear()
        return lost

    def _move(self, step: Step) -> None:
        following = TRANSITIONS[self.state].get(step)
        if following is None:
            raise NotOpen(f"{step} is not possible while {self.state}")
        self.state = following

    def _parse(self, text: str) -> messages.FromRunner | None:
        try:
            frame = messages.from_runner(text)
        except hello.InventoryInvalid as error:
            if self.state is not State.AWAITING_HELLO:
                raise self._violation(str(error)) from error
            raise ProtocolViolation(
                str(error), last_words=_refusal("register_failed", "inventory_invalid")
            ) from error
        except hello.GenerationUnsupported as error:
            raise ProtocolViolation(str(error), last_words=_refusal("protocol_unsupported")) from error
        except fields.Malformed as error:
            raise self._violation(str(error)) from error
        if frame is None and self.state is State.AWAITING_HELLO:
            raise self._violation("the first frame is no hello")
        return frame

    def _violation(self, why: str) -> ProtocolViolation:
        first = self.state is State.AWAITING_HELLO
        return ProtocolViolation(why, last_words=_refusal("expected_register") if first else None)

    def _meaning(self, frame: messages.FromRunner, now: float) -> link_events.Event:
        match frame:
            case hello.Hello():
                self._move(Step.HELLO)
                self._client_id = frame.client_id
                self._instance_id = frame.runner_instance_id
                return link_events.HelloReceived(hello=frame)
            case calls.Result():
                return self._result(frame)
            case messages.InventoryPage():
                return self._page(frame, now)
            case messages.Goodbye():
                self._move(Step.GOODBYE)
                return link_events.GoodbyeReceived(reason=frame.reason)
            case _:
                return _notice(frame)

    def _result(self, result: calls.Result) -> link_events.Event:
        ours = result.connection_id == self.connection_id and result.runner_instance_id == self._instance_id
        asked = self._open.pop(result.request_id, None) if ours else None
        if asked is None or not asked.awaited:
            return link_events.ResultIgnored(request_id=result.request_id)
        return link_events.ResultReceived(request_id=result.request_id, kind=asked.kind, result=result)

    def _page(self, page: messages.InventoryPage, now: float) -> link_events.Event:
        taken = inventory.receive(self._assembly, page, now)
        self._assembly = taken.assembly
        reply = messages.text(
            messages.InventoryStatus(
                generation=page.generation,
                snapshot_sequence=page.snapshot_sequence,
                status=taken.status,
            )
        )
        if taken.projects is None:
            return link_events.InventoryReceived(status=taken.status, reply=reply)
        return link_events.InventoryPublished(projects=taken.projects, reply=reply)


def _notice(frame: messages.Ping | messages.RuntimeMetadata | messages.StreamEvent) -> link_events.Event:
    match frame:
        case messages.Ping():
            return link_events.Pinged(reply=messages.text(messages.Pong(ts=frame.ts)))
        case messages.RuntimeMetadata():
            return link_events.MetadataChanged(metadata=frame)
        case messages.StreamEvent():
            return link_events.StreamEventReceived(event=frame)


def _refusal(code: str, reason: str | None = None) -> str:
    supported = (bounds.GENERATION,) if code == "protocol_unsupported" else None
    return messages.text(
        messages.Error(code=code, message=REFUSALS[code], reason=reason, supported=supported)
    )
