"""Sends the answer to one MCP request: one body, or the last event of a stream once one has begun (M-21)."""

import asyncio
import json
from typing import Final

from starlette.types import Receive, Send

from webcodex.core.json_value import JsonObject
from webcodex.server import answers, request_body
from webcodex.server.answers import Answer

_BEGIN: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Reply:
    """What goes back for one request whose body has been read; ``end`` is called once and is the last."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_begun = False
        self._turn = asyncio.Lock()

    async def tell(self, message: JsonObject) -> None:
        """Sends ``message`` as an event; the first one begins the stream."""
        async with self._turn:
            if not self._is_begun:
                await self._send(_BEGIN)
                self._is_begun = True
            await self._send(_event(_encode(message).encode(), more=True))

    async def client_left(self) -> None:
        """Returns when the client has closed the connection; never before it sent its whole body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def end(self, answer: Answer) -> None:
        """Sends ``answer``, whose status says nothing any more once a stream has begun."""
        if self._is_begun:
            await self._send(_event(answer.body, more=False))
        elif answers.CLOSE in answer.headers:
            await request_body.refuse_rest(answer, self._receive, self._send)
        else:
            await answers.send_whole(answer, self._send)


def _event(message: bytes, *, more: bool) -> dict[str, object]:
    body = b"event: message\ndata: %b\n\n" % message
    return {"type": "http.response.body", "body": body, "more_body": more}
