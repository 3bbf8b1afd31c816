"""One open connection to the Server, from the hello to its end; what is said is `protocol.runner_link`'s."""

import asyncio
import contextlib
import enum
import logging
import threading
from time import monotonic
from typing import Final

import websockets
from websockets.asyncio import client

from webcodex.protocol import calls, link, messages, runner_link
from webcodex.runner import deadline, failures, presence, work

_SEND_WITHIN_S: Final = 30.0
_SHORTEST_NAP_S: Final = 0.01

log = logging.getLogger(__name__)


class Verdict(enum.Enum):
    """What the Server made of the hello."""

    NONE = enum.auto()
    WELCOMED = enum.auto()
    FORBIDDEN = enum.auto()
    TURNED_AWAY = enum.auto()


class Conversation:
    """The Runner's half of one connection; nothing outlives `hold`."""

    def __init__(self, socket: client.ClientConnection, runner: presence.Presence, tasks: work.Work) -> None:
        self.verdict = Verdict.NONE
        self.registered_at: float | None = None
        self._socket = socket
        self._runner = runner
        self._work = tasks
        self._outbox = tasks.jobs.shelf.outbox
        self._link = runner_link.RunnerLink(
            client_id=runner.client_id, runner_instance_id=runner.instance_id, now=monotonic()
        )
        self._registered = asyncio.Event()
        self._over = threading.Event()
        self._serving: set[asyncio.Task[None]] = set()

    async def hold(self, stop: asyncio.Event) -> None:
        """Says hello and serves until the connection ends, or until `stop` is set and goodbye is said.

        Raises:
            LinkOver: the Server broke the protocol or fell silent.
            WebSocketException: the connection broke.

        """
        await self._work.settled()
        await self._send(self._link.hello(self._runner.hello()))
        parts = [
            asyncio.create_task(part)
            for part in (self._listen(), self._keep_alive(), self._publish(), self._tell(), self._leave(stop))
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            self._over.set()
            self._link.end()
            self._outbox.end()
            for task in (*parts, *self._serving):
                task.cancel()
            await asyncio.gather(*parts, *self._serving, return_exceptions=True)

    async def _send(self, frame: str) -> None:
        try:
            async with asyncio.timeout(_SEND_WITHIN_S):
                await self._socket.send(frame)
        except TimeoutError as error:
            raise link.PeerSilent from error

    async def _listen(self) -> None:
        async for message in self._socket:
            if isinstance(message, bytes):
                raise link.ProtocolViolation("frames are text")
            for event in self._link.receive_text(message, monotonic()):
                await self._take(event)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(max(_SHORTEST_NAP_S, self._link.due_at() - monotonic()))
            ping = self._link.tick(monotonic())
            if ping is not None:
                await self._send(ping)

    async def _publish(self) -> None:
        await self._registered.wait()
        while True:
            await self._runner.inventory_changed.wait()
            for page in self._runner.pages():
                await self._send(messages.text(page))

    async def _tell(self) -> None:
        """Sends what the Runs and Jobs have to tell, for as long as the Server takes note of it (R-47)."""
        while True:
            await self._outbox.changed.wait()
            self._outbox.changed.clear()
            await self._send_events()

    async def _send_events(self) -> None:
        while (event := self._outbox.take()) is not None:
            await self._send(messages.text(event))

    async def _leave(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._send_events()
        farewell = self._link.goodbye("shutdown")
        if farewell is not None:
            await self._send(farewell)

    async def _take(self, event: runner_link.Event) -> None:
        match event:
            case runner_link.WorkReceived():
                serving = asyncio.create_task(self._serve(event))
                self._serving.add(serving)
                serving.add_done_callback(self._serving.discard)
            case runner_link.Declined():
                await self._send(event.reply)
            case runner_link.Welcomed():
                self.verdict = Verdict.WELCOMED
                self.registered_at = monotonic()
                self._registered.set()
                self._outbox.begin(event.resume)
                log.info("action=link_registered connection=%s", event.connection_id)
            case runner_link.TurnedAway():
                forbidden = event.code == "register_forbidden"
                self.verdict = Verdict.FORBIDDEN if forbidden else Verdict.TURNED_AWAY
                log.warning("action=link_turned_away code=%s reason=%s", event.code, event.reason)
            case runner_link.InventoryAnswered():
                log.info("action=inventory_answered status=%s", event.status.status)
            case runner_link.Acknowledged():
                self._outbox.acknowledge(event.ack)
            case runner_link.Ponged():
                pass

    async def _serve(self, received: runner_link.WorkReceived) -> None:
        until = deadline.Deadline(at=received.deadline, given_up=self._over)
        answered, execution = await self._answer(received.request, until)
        request_id = received.request.request_id
        frame = self._link.answer(request_id, answered, execution=execution, now=monotonic())
        if frame is not None:
            with contextlib.suppress(websockets.ConnectionClosed, link.LinkOver):
                await self._send(frame)

    async def _answer(
        self, request: calls.Request, until: deadline.Deadline
    ) -> tuple[dict[str, object] | calls.Failure, calls.ExecutionState]:
        try:
            return await self._work.answer(request, until), calls.ExecutionState.COMPLETED
        except failures.RequestFailed as error:
            return error.failure, error.execution
        except Exception:  # one request must not end the connection of all
            log.exception("action=request_failed request=%s", request.request_id)
            return failures.INTERNAL, calls.ExecutionState.OUTCOME_UNKNOWN
