"""Serves one Runner's WebSocket from its hello to its end; the rules are ``protocol.link``'s (R-30..R-45).

Sends what is stored only after it is stored. However it ends, nobody is left waiting.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access, jobs
from webcodex.protocol import calls, fields, hello, lease, link, link_events, messages
from webcodex.server import authentication, job_streams, runner_registration, runner_socket
from webcodex.storage.database import Database, StoreError, Work

log = logging.getLogger(__name__)

CLOSE_NORMAL: Final = 1000
CLOSE_REFUSED: Final = 1008
CLOSE_TRY_AGAIN: Final = 1013
SEEN_EVERY_S: Final = 15.0
"""How often a live lease is written and its credential looked at again."""


class AnswerLost(Exception):
    """The request was sent, or may have been, and its connection ended (R-45)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """Where time comes from, in Unix s and monotonic s; a quiet link is looked at every ``tick_every_s``."""

    now: Callable[[], int]
    monotonic: Callable[[], float]
    tick_every_s: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One request of R-41 before it has an id; ``budget_s`` is the Runner's, ``wait_s`` the Server's."""

    kind: str
    body: dict[str, Any]
    project_id: str
    requested_by: str
    budget_s: float
    wait_s: float


class Connection:
    """One WebSocket whose credential is good; it holds a client_id once its hello is accepted."""

    def __init__(
        self,
        *,
        connection_id: str,
        socket: runner_socket.Socket,
        database: Database,
        clocks: Clocks,
        job_keeper: job_streams.JobStreams,
        caller: Callable[[], Awaitable[access.Caller]],
        present: MutableMapping[str, "Connection"],
    ) -> None:
        """Takes the place of its client_id in ``present`` while it holds it; asks ``caller`` who it is."""
        self._link = link.ServerLink(connection_id=connection_id, now=clocks.monotonic())
        self._socket = socket
        self._database = database
        self._clocks = clocks
        self._jobs = job_keeper
        self._reports: list[jobs.Report] = []
        self._reporter: job_streams.Reporter | None = None
        self._caller = caller
        self._present = present
        self._told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting: dict[str, asyncio.Future[calls.Result | None]] = {}
        self._holding: runner_registration.Holding | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._noted_at = clocks.monotonic()

    @property
    def connection_id(self) -> str:
        """Returns the connection's own name."""
        return self._link.connection_id

    @property
    def is_open(self) -> bool:
        """Says whether the Runner may be asked something."""
        return self._link.state is link.State.OPEN

    def can(self, capability: str) -> bool:
        """Says whether the Runner's hello promised ``capability`` (R-33)."""
        return capability in self._capabilities

    def tell_to_end(self, close_code: int) -> None:
        """Makes every waiting caller lose its answer now; the WebSocket closes soon after."""
        self._release()
        if not self._told.done():
            self._told.set_result(close_code)

    async def serve(self) -> None:
        """Returns when the connection has ended, its last contact is stored and nobody waits for it."""
        try:
            await self._socket.accept()
            await self._converse()
        except link.LinkOver as over:
            log.info("action=runner_link_over connection=%s why=%s", self._link.connection_id, over)
            self._release()
            await self._take_leave(over)
        except runner_socket.Gone:
            log.info("action=runner_link_lost connection=%s", self._link.connection_id)
        finally:
            self._release()
            self._socket.let_go()
            await self._lose_contact()
            if self._link.last_received > self._noted_at:
                await self._note_seen()

    async def ask(self, question: Question) -> calls.Result:
        """Returns the Runner's answer.

        Raises:
            link.CannotAsk: nothing was sent.
            protocol.fields.Malformed: nothing was sent.
            AnswerLost: the connection ended.
            TimeoutError: no answer came within ``wait_s``.

        """
        request_id, text = self._link.request(
            kind=question.kind,
            body=question.body,
            budget_ms=int(question.budget_s * 1000),
            requested_by=question.requested_by,
            created_at=self._clocks.now(),
            project_id=question.project_id,
        )
        answer: asyncio.Future[calls.Result | None] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            async with asyncio.timeout(question.wait_s):
                await self._socket.send(text)
                result = await answer
        except runner_socket.Gone:
            raise AnswerLost from None
        finally:
            self._waiting.pop(request_id, None)
            self._link.abandon(request_id)
        if result is None:
            raise AnswerLost
        return result

    async def _converse(self) -> None:
        while True:
            self._link.tick(self._clocks.monotonic())
            # Reports that wait together are stored together: as long as there are more, none is stored.
            frame = await self._socket.receive(
                self._told, 0.0 if self._reports else self._clocks.tick_every_s
            )
            if self._told.done():
                raise link.LinkOver("it was told to end", close_code=self._told.result())
            if frame is None:
                await self._store_reports()
                continue
            if isinstance(frame, bytes):
                raise self._link.refuse_binary()
            for event in self._link.receive_text(frame, self._clocks.monotonic()):
                await self._follow(event)
            await self._renew()

    async def _follow(self, event: link_events.Event) -> None:
        if not isinstance(event, link_events.StreamEventReceived):
            await self._store_reports()
        match event:
            case link_events.HelloReceived():
                await self._register(event.hello)
            case link_events.ResultReceived():
                self._settle(event.request_id, event.result)
            case link_events.Pinged() | link_events.InventoryReceived():
                await self._socket.send(event.reply)
            case link_events.InventoryPublished():
                await self._publish(event)
            case link_events.MetadataChanged():
                changed, holding = event.metadata, self._held()
                await self._store(lambda tx: runner_registration.change_facts(tx, holding, changed))
            case link_events.GoodbyeReceived():
                await self._let_leave()
            case link_events.StreamEventReceived():
                await self._take_report(event.event)
            case link_events.ResultIgnored():
                pass

    async def _register(self, said: hello.Hello) -> None:
        caller = await self._known_caller()
        try:
            inventory = job_streams.inventory(said)
        except fields.Malformed:
            raise self._refusal("register_failed", lease.Refusal.INVENTORY_INVALID) from None
        older = self._present.get(said.client_id)
        present_seen_at = None if older is None else older.seen_at()
        now = self._clocks.now()
        try:
            admission, reconciled = await self._store(
                lambda tx: (
                    runner_registration.register(
                        tx, caller, said, self._link.connection_id, now=now, present_seen_at=present_seen_at
                    ),
                    self._jobs.reconcile(tx, said.client_id, inventory),
                )
            )
        except runner_registration.Forbidden:
            raise self._refusal("register_forbidden") from None
        except runner_registration.Refused as refused:
            raise self._refusal("register_failed", refused.reason) from None
        if self._told.done():
            raise link.LinkOver("it was told to end", close_code=self._told.result())
        # Registrations are committed and answered in one order, so whoever is present here came before.
        older = self._present.pop(said.client_id, None)
        if older is not None:
            older.tell_to_end(link.CLOSE_GOING_AWAY)
        self._capabilities = frozenset(name for name, has in said.capabilities.items() if has)
        self._holding = runner_registration.Holding(
            client_id=said.client_id, connection_id=self._link.connection_id
        )
        self._reporter = job_streams.Reporter(
            holding=self._holding, instance_id=said.runner_instance_id, store_id=said.store_id
        )
        self._noted_at = self._clocks.monotonic()
        self._present[said.client_id] = self
        self._jobs.moved(reconciled.job_ids)
        await self._socket.send(self._link.registered(reconciled.resume))
        log.info("action=runner_registered client=%s admission=%s", said.client_id, admission)

    async def _take_report(self, event: messages.StreamEvent) -> None:
        if event.stream != job_streams.STREAM:
            return  # Nothing stores Runs yet, and what is not stored is not acknowledged.
        try:
            self._reports.append(job_streams.report(event))
        except fields.Malformed as error:
            self._reports.clear()
            raise link.ProtocolViolation(str(error)) from error
        if len(self._reports) >= job_streams.MOST_TOGETHER:
            await self._store_reports()

    async def _store_reports(self) -> None:
        """Leaves what was reported stored, then acknowledged (R-47)."""
        if not self._reports:
            return
        reports, self._reports, reporter = self._reports, [], self._reporter
        assert reporter is not None
        acks = await self._store(lambda tx: self._jobs.store(tx, reporter, reports))
        for ack in acks:
            await self._socket.send(self._link.ack(ack))
        self._jobs.moved(ack.id for ack in acks)

    async def _lose_contact(self) -> None:
        """Leaves the Runner's active Jobs waiting for it, unless another connection speaks for it (R-64)."""
        holding = self._holding
        if holding is None:
            return
        try:
            moved = await self._database.write(lambda tx: self._jobs.lose_contact(tx, holding))
        except runner_registration.NotHeld:
            return
        except StoreError as error:
            log.warning(
                "action=contact_not_noted client=%s error=%s", holding.client_id, type(error).__name__
            )
        else:
            self._jobs.moved(moved)

    async def _publish(self, event: link_events.InventoryPublished) -> None:
        holding = self._held()
        await self._store(lambda tx: runner_registration.publish(tx, holding, event.projects))
        await self._socket.send(event.reply)

    async def _let_leave(self) -> None:
        holding, seen_at = self._held(), self.seen_at()
        await self._store(lambda tx: runner_registration.note_goodbye(tx, holding, seen_at))
        self._noted_at = self._link.last_received
        raise link.LinkOver("it said goodbye", close_code=CLOSE_NORMAL)

    async def _renew(self) -> None:
        if self._holding is None or self._clocks.monotonic() - self._noted_at < SEEN_EVERY_S:
            return
        await self._known_caller()
        await self._note_seen()

    async def _note_seen(self) -> None:
        holding, seen_at = self._holding, self.seen_at()
        if holding is None:
            return
        noted_at = self._link.last_received
        try:
            await self._database.write(lambda tx: runner_registration.note_seen(tx, holding, seen_at))
            self._noted_at = noted_at
        except runner_registration.NotHeld:
            self.tell_to_end(link.CLOSE_GOING_AWAY)
        except StoreError as error:
            log.warning("action=runner_not_noted client=%s error=%s", holding.client_id, type(error).__name__)

    async def _known_caller(self) -> access.Caller:
        """Returns who the credential stands for at this moment; a revoked one ends the connection (C-08)."""
        try:
            return await self._caller()
        except (authentication.Unauthorized, authentication.WrongCredential):
            raise self._refusal("register_forbidden") from None
        except StoreError:
            raise link.LinkOver("the store did not answer", close_code=CLOSE_TRY_AGAIN) from None

    async def _store(self, work: Work[Any]) -> Any:
        try:
            return await self._database.write(work)
        except runner_registration.NotHeld:
            raise link.LinkOver("another connection took over", close_code=link.CLOSE_GOING_AWAY) from None
        except StoreError:
            raise link.LinkOver("the store did not answer", close_code=CLOSE_TRY_AGAIN) from None

    def seen_at(self) -> int:
        """Returns when the Runner was last heard, in Unix s."""
        quiet_s = max(0.0, self._clocks.monotonic() - self._link.last_received)
        return self._clocks.now() - int(quiet_s)

    def _held(self) -> runner_registration.Holding:
        assert self._holding is not None
        return self._holding

    def _refusal(self, code: str, reason: str | None = None) -> link.LinkOver:
        self._release()
        words = self._link.refuse(code, reason)
        return link.LinkOver(f"refused: {reason or code}", close_code=CLOSE_REFUSED, last_words=words)

    async def _take_leave(self, over: link.LinkOver) -> None:
        if over.last_words is not None:
            with contextlib.suppress(runner_socket.Gone):
                await self._socket.send(over.last_words)
        await self._socket.close(over.close_code)

    def _release(self) -> None:
        holding = self._holding
        if holding is not None and self._present.get(holding.client_id) is self:
            del self._present[holding.client_id]
        for lost in self._link.end():
            self._settle(lost.request_id, None)

    def _settle(self, request_id: str, result: calls.Result | None) -> None:
        answer = self._waiting.get(request_id)
        if answer is not None and not answer.done():
            answer.set_result(result)
