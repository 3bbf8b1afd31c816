"""The Runner's side of one connection: text frames in, events and text frames out; must never do I/O.

`now` is a monotonic clock in seconds. A request belongs to its connection: once `end` was called nothing of
it is answered any more (R-45), and a request named for another connection is not taken up.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webcodex.protocol import bounds, calls, fields, hello, link, messages


@dataclass(frozen=True, kw_only=True, slots=True)
class Welcomed:
    """The Server accepted the hello; streams go on after `resume` (R-48)."""

    connection_id: str
    resume: tuple[messages.Resume, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnedAway:
    """The Server refuses or ends the connection and closes next (R-32)."""

    code: str
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkReceived:
    """A request to be answered before `deadline` on the Runner's clock (R-41)."""

    request: calls.Request
    deadline: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Declined:
    """A request beyond the 256 open ones; `reply` answers it and nothing was begun."""

    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """The Server has a stream up to here, committed (R-47)."""

    ack: messages.Ack


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryAnswered:
    """What became of the inventory a page belongs to (R-35)."""

    status: messages.InventoryStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Ponged:
    """The Server is alive."""


Event = Welcomed | TurnedAway | WorkReceived | Declined | Acknowledged | InventoryAnswered | Ponged


class State(enum.StrEnum):
    """Where the connection is in its life, seen from the Runner."""

    CONNECTED = "connected"
    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"


class Step(enum.StrEnum):
    """What moves a connection on."""

    HELLO_SENT = "hello_sent"
    REGISTERED = "registered"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[State, Mapping[Step, State]]] = {
    State.CONNECTED: {Step.HELLO_SENT: State.WAITING, Step.ENDED: State.CLOSED},
    State.WAITING: {Step.REGISTERED: State.OPEN, Step.ENDED: State.CLOSED},
    State.OPEN: {Step.ENDED: State.CLOSED},
    State.CLOSED: {Step.ENDED: State.CLOSED},
}

ALLOWED: Final[Mapping[State, frozenset[str]]] = {
    State.CONNECTED: frozenset({messages.Error.TYPE}),
    State.WAITING: frozenset({messages.Registered.TYPE, messages.Pong.TYPE, messages.Error.TYPE}),
    State.OPEN: frozenset(
        {
            calls.Request.TYPE,
            messages.Ack.TYPE,
            messages.Pong.TYPE,
            messages.InventoryStatus.TYPE,
            messages.Error.TYPE,
        }
    ),
}
"""Which frames a Server may send in which state."""

OVERLOADED: Final = calls.Failure(
    code="runner_unavailable",
    message="The Runner has 256 open requests; ask again later.",
    failure_kind="unavailable",
    recovery_kind="wait",
)
UNSENDABLE: Final = calls.Failure(
    code="internal_error",
    message="The answer does not fit into a reply; ask for less.",
    failure_kind="invalid",
    recovery_kind="fix_input",
)


class RunnerLink:
    """One connection to the Server as the Runner sees it."""

    def __init__(self, *, client_id: str, runner_instance_id: str, now: float) -> None:
        self.state = State.CONNECTED
        self.connection_id = ""
        self._client_id = client_id
        self._instance_id = runner_instance_id
        self._last_received = now
        self._last_pinged = now
        self._received_at: dict[str, float] = {}

    def hello(self, greeting: hello.Hello) -> str:
        """Returns the first frame; the Server's answer is awaited from now on."""
        self._move(Step.HELLO_SENT)
        return messages.text(greeting)

    def receive_text(self, text: str, now: float) -> list[Event]:
        """Returns what one text frame means; none for a frame of unknown type or a void request.

        Raises:
            ProtocolViolation: the frame is malformed or not allowed now.

        """
        if self.state is State.CLOSED:
            return []
        try:
            frame = messages.from_server(text)
        except fields.Malformed as error:
            raise link.ProtocolViolation(str(error)) from error
        if frame is not None and frame.TYPE not in ALLOWED[self.state]:
            raise link.ProtocolViolation(f"a {frame.TYPE} frame is not allowed while {self.state}")
        self._last_received = now
        event = None if frame is None else self._meaning(frame, now)
        return [] if event is None else [event]

    def answer(
        self,
        request_id: str,
        answered: calls.Failure | fields.JsonObject,
        *,
        execution: calls.ExecutionState,
        now: float,
    ) -> str | None:
        """Returns the result frame of an open request; None when its connection is void (R-45)."""
        received_at = self._received_at.pop(request_id, None)
        if received_at is None or self.state is not State.OPEN:
            return None
        if not isinstance(answered, calls.Failure) and not _is_sendable(answered):
            answered = UNSENDABLE
        return self._result(request_id, answered, execution, duration_ms=int((now - received_at) * 1000))

    def goodbye(self, reason: str) -> str | None:
        """Returns the farewell that frees the lease at once; None where no lease is held."""
        return messages.text(messages.Goodbye(reason=reason)) if self.state is State.OPEN else None

    def due_at(self) -> float:
        """Returns when `tick` has something to say."""
        return min(self._silent_at(), self._last_pinged + bounds.PING_EVERY_S)

    def tick(self, now: float) -> str | None:
        """Returns the ping that is due every 30 s, if it is.

        Raises:
            PeerSilent: nothing came for 60 s, or no answer to the hello for 15 s.

        """
        if now >= self._silent_at():
            raise link.PeerSilent
        if now < self._last_pinged + bounds.PING_EVERY_S:
            return None
        self._last_pinged = now
        return messages.text(messages.Ping(ts=int(now * 1000)))

    def end(self) -> None:
        """Makes the connection void: nothing open on it will be answered."""
        self._move(Step.ENDED)
        self._received_at.clear()

    def _silent_at(self) -> float:
        patience_s = bounds.ONLINE_S if self.state is State.OPEN else bounds.HELLO_WITHIN_S
        return self._last_received + patience_s

    def _move(self, step: Step) -> None:
        following = TRANSITIONS[self.state].get(step)
        if following is None:
            raise link.NotOpen(f"{step} is not possible while {self.state}")
        self.state = following

    def _meaning(self, frame: messages.FromServer, now: float) -> Event | None:
        match frame:
            case messages.Registered():
                return self._registered(frame)
            case calls.Request():
                return self._request(frame, now)
            case messages.Error():
                return TurnedAway(code=frame.code, reason=frame.reason)
            case messages.Ack():
                return Acknowledged(ack=frame)
            case messages.InventoryStatus():
                return InventoryAnswered(status=frame)
            case messages.Pong():
                return Ponged()

    def _registered(self, frame: messages.Registered) -> Event:
        if frame.client.client_id != self._client_id:
            raise link.ProtocolViolation("registered names another client")
        self._move(Step.REGISTERED)
        self.connection_id = frame.client.connection_id
        return Welcomed(connection_id=self.connection_id, resume=frame.resume)

    def _request(self, request: calls.Request, now: float) -> Event | None:
        if request.connection_id != self.connection_id or request.request_id in self._received_at:
            return None
        if len(self._received_at) >= bounds.MAX_OPEN_REQUESTS:
            not_started = calls.ExecutionState.NOT_STARTED
            return Declined(reply=self._result(request.request_id, OVERLOADED, not_started, duration_ms=0))
        self._received_at[request.request_id] = now
        return WorkReceived(request=request, deadline=now + request.budget_ms / 1000)

    def _result(
        self,
        request_id: str,
        answered: calls.Failure | fields.JsonObject,
        execution: calls.ExecutionState,
        *,
        duration_ms: int,
    ) -> str:
        return messages.text(
            calls.Result(
                request_id=request_id,
                connection_id=self.connection_id,
                runner_instance_id=self._instance_id,
                duration_ms=duration_ms,
                command_execution_state=execution,
                body=None if isinstance(answered, calls.Failure) else answered,
                error=answered if isinstance(answered, calls.Failure) else None,
            )
        )


def _is_sendable(body: fields.JsonObject) -> bool:
    try:
        return fields.encoded_bytes(body) <= bounds.MAX_REPLY_BYTES
    except (ValueError, TypeError, RecursionError):
        return False
