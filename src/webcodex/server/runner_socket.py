"""Bounds one accepted WebSocket: one frame is sent at a time, each within a deadline; knows no frame."""

import asyncio
import contextlib
from typing import Any, Final

from starlette.types import Message, Receive, Send

SEND_S: Final = 30.0
CLOSE_S: Final = 3.0


class Gone(Exception):
    """The peer left, or takes nothing any more."""


class Socket:
    """A WebSocket that was asked for and not yet accepted."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._sending = asyncio.Lock()
        self._coming: asyncio.Task[Message] | None = None

    async def accept(self) -> None:
        """Opens the WebSocket.

        Raises:
            Gone: nobody is there.

        """
        await self._deliver({"type": "websocket.accept"}, SEND_S)

    async def receive(self, told: asyncio.Future[int], within_s: float) -> str | bytes | None:
        """Returns the next frame; none when it did not come in time or ``told`` came first.

        Raises:
            Gone: the peer left.

        """
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._receive())
        either: set[asyncio.Future[Any]] = {self._coming, told}
        await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if told.done() or not self._coming.done():
            return None
        message, self._coming = self._coming.result(), None
        if message["type"] != "websocket.receive":
            raise Gone
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text

    async def send(self, text: str) -> None:
        """Sends one text frame after those that wait already.

        Raises:
            Gone: whether any of it arrived is not known.

        """
        await self._deliver({"type": "websocket.send", "text": text}, SEND_S)

    async def close(self, code: int) -> None:
        """Closes the WebSocket if the peer still takes it."""
        with contextlib.suppress(Gone):
            await self._deliver({"type": "websocket.close", "code": code}, CLOSE_S)

    def let_go(self) -> None:
        """Waits for no further frame."""
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    async def _deliver(self, message: Message, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s), self._sending:
                await self._send(message)
        except (OSError, TimeoutError):
            raise Gone from None
        except RuntimeError:
            # What an ASGI server says to a message after the end of its exchange.
            raise Gone from None
