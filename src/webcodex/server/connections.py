"""Bounds what a connection may send before it is a request, and says nothing of it (M-02).

``httptools`` keeps an endless header in memory and waits for a slow one for ever; ``websockets`` repeats
header values when it refuses a handshake. Where ``httptools`` does not exist, uvicorn uses h11, which has
bounds of its own.
"""

import asyncio
import http
import logging
from typing import Any, Final

from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Response
from websockets.server import ServerProtocol

from webcodex.server import answers

HEAD_BYTES: Final = 64 * 1024


class HttpConnection(HttpToolsProtocol):
    """One connection whose request heads are bounded in size and time."""

    head_s = 30.0
    """How long a head may take, and the first one to begin, in seconds."""

    _head_bytes = 0
    _is_in_head = True
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first head."""
        super().connection_made(transport)
        self._head_deadline = self.loop.call_later(self.head_s, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits for nothing any more."""
        self._end_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Passes ``data`` on, unless it makes a head too long."""
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head or not self._head_bytes:
            return
        if self._head_bytes > HEAD_BYTES:
            self.send_400_response("Request head too large")
        elif self._head_deadline is None:
            self._head_deadline = self.loop.call_later(self.head_s, self.transport.close)

    def on_headers_complete(self) -> None:
        """Ends the head."""
        self._is_in_head = False
        self._end_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expects the next head."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no request in the form of M-08, and ends the connection."""
        body = answers.error(400, msg).body
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        )
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _end_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None


class _FixedRefusals(ServerProtocol):
    def reject(self, status: http.HTTPStatus | int, text: str) -> Response:  # noqa: ARG002 - it repeats headers
        """Refuses with a sentence that holds nothing of the request."""
        return super().reject(status, "This is no WebSocket handshake that this Server takes.\n")


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket connection, without compression."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _FixedRefusals(max_size=config.ws_max_size, logger=logging.getLogger("uvicorn.error"))

    async def send(self, message: ASGISendEvent) -> None:
        """Sends ``message``; a complete denial ends the handshake, which uvicorn 0.54 logs as an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
