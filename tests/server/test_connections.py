"""How long a client may take for a request, and what a store fault or a slow body is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from tests.requirements import requirement
from webcodex.server import answers, connections, request_body, routes
from webcodex.storage.database import OutcomeUnknown, StoreUnavailable

WAIT_S = 10.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer_at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    await answers.send_whole(answers.NOT_FOUND, send)


class Met:
    """A client's end of a connection, and the Server's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.server: connections.HttpConnection

    async def answered(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"}"), WAIT_S)

    async def ended(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), WAIT_S)


@asynccontextmanager
async def connected(head_s: float = 30.0) -> AsyncIterator[Met]:
    config = uvicorn.Config(answer_at_once, lifespan="off", log_config=None)
    config.load()
    made: asyncio.Queue[connections.HttpConnection] = asyncio.Queue(1)

    def connection() -> asyncio.Protocol:
        protocol = connections.HttpConnection(config, ServerState(), {})
        protocol.head_s = head_s
        made.put_nowait(protocol)
        return protocol

    listening = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    async with listening:
        met = Met(*await asyncio.open_connection(*listening.sockets[0].getsockname()))
        met.server = await made.get()
        yield met
        met.writer.close()


def body_of(*messages: Message, then_silence: bool = False) -> Receive:
    coming = iter(messages)

    async def receive() -> Any:
        message = next(coming, None)
        if message is None and then_silence:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return receive


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


@requirement("M-02")
@pytest.mark.parametrize("sent", [b"", b"G", GET[:-2]])
async def test_a_head_that_does_not_come_to_its_end_ends_the_connection(sent: bytes) -> None:
    async with connected(head_s=0.02) as met:
        met.writer.write(sent)
        assert await met.ended() == b""


@requirement("M-02")
async def test_a_later_head_has_its_own_deadline_and_the_pause_before_it_none() -> None:
    async with connected() as met:
        for _ in range(2):
            met.writer.write(GET)
            assert (await met.answered()).startswith(b"HTTP/1.1 404 Not Found\r\n")
            assert met.server._head_deadline is None
        met.server.head_s = 0.02
        met.writer.write(GET[:-2])
        assert await met.ended() == b""


@requirement("M-01")
async def test_a_body_is_read_whole_and_within_its_bound() -> None:
    whole = request_body.read(body_of(part(b"a"), part(b""), part(b"b", more=False)))
    assert await whole == b"ab"
    assert await request_body.read(body_of(part(b"x" * 4_194_304, more=False))) == b"x" * 4_194_304
    for messages in ([part(b"x" * 4_194_305, more=False)], [part(b"x" * 4_194_304), part(b"y")]):
        with pytest.raises(request_body.TooLarge):
            await request_body.read(body_of(*messages))


@requirement("M-01")
async def test_a_body_that_does_not_come_is_given_up() -> None:
    for messages in ([], [part(b"{")]):
        with pytest.raises(request_body.TooSlow):
            await request_body.read(body_of(*messages, then_silence=True), within_s=0.01)
    slow = routes.refusal(request_body.TooSlow(), "/mcp")
    assert (slow.status, answers.CLOSE in slow.headers) == (408, True)


@requirement("M-01")
async def test_a_client_that_leaves_is_told_nothing() -> None:
    gone: Message = {"type": "http.disconnect"}
    for messages in ([gone], [part(b"{"), gone]):
        with pytest.raises(request_body.Gone):
            await request_body.read(body_of(*messages))


@requirement("M-14", "M-02")
@pytest.mark.parametrize("fault", [StoreUnavailable("why"), OutcomeUnknown("why"), ValueError("PLANTED")])
def test_a_fault_of_the_server_is_one_sentence(fault: Exception) -> None:
    answer = routes.refusal(fault, "/api/tools/call")
    assert (answer.status, answer.body) == (500, b'{"status":500,"error":"Server state unavailable"}')
