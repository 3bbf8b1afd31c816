"""Tells a client that asked for it what its request is waiting for (M-21).

Never tells anything of the request, and nothing once its answer is there.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

from webcodex.server import mcp_screening, request_body
from webcodex.server.answers import Answer
from webcodex.server.mcp_stream import Reply

ACCEPT_HEADER: Final = b"accept"

_EVENTS: Final = "text/event-stream"
_NEVER: Final = re.compile(r"q=0(\.0{0,3})?")

Token = str | int


def token(params: Mapping[str, Any], accept: Iterable[str]) -> Token | None:
    """Returns the progress token of a request whose client takes an event stream, else none."""
    meta = params.get("_meta")
    found = meta.get("progressToken") if isinstance(meta, dict) else None
    return found if mcp_screening.is_id(found) and _names_events(accept) else None


class Progress:
    """What one request waits for, told at most every ``every_s`` seconds, first after as long."""

    def __init__(self, reply: Reply, known_as: Token, every_s: float) -> None:
        self._reply = reply
        self._token = known_as
        self._every_s = every_s
        self._awaited: str | None = None
        self._told: float | None = None

    async def report(self, message: str) -> None:
        """Notes what the request waits for from now on (see ``tools.ports.Progress``)."""
        self._awaited = message

    async def tell(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Sends one notification at once, if ``progress`` is more than was told before."""
        if self._told is not None and progress <= self._told:
            return
        self._told = progress
        given = {"progressToken": self._token, "progress": progress, "total": total, "message": message}
        params = {key: value for key, value in given.items() if value is not None}
        await self._reply.tell({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    async def through(self, work: Coroutine[Any, Any, Answer], *, ends_with_client: bool) -> Answer:
        """Returns the answer that ``work`` makes, and tells of it meanwhile.

        Raises:
            Gone: the client left; ``work`` was cancelled if it ``ends_with_client``, and has ended.

        """
        working = asyncio.create_task(work)
        try:
            if await self._is_heard_to_the_end(working):
                return await working
            if ends_with_client:
                working.cancel()
            await asyncio.wait({working})
        finally:
            await _ended(working)
        raise request_body.Gone

    async def _is_heard_to_the_end(self, working: asyncio.Task[Answer]) -> bool:
        """Returns true when ``working`` is done, and false when the client has left before."""
        now = asyncio.get_running_loop().time
        began = now()
        await asyncio.wait({working}, timeout=self._every_s)
        if working.done():
            return True
        leaving = asyncio.create_task(self._reply.client_left())
        try:
            while not working.done() and not leaving.done():
                if self._awaited is not None:
                    await self.tell(round(now() - began, 2), message=self._awaited)
                waited = {working, leaving}
                await asyncio.wait(waited, timeout=self._every_s, return_when=asyncio.FIRST_COMPLETED)
            return working.done()
        finally:
            await _ended(leaving)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Returns when ``task`` is over and nobody will hear of its failure again; a running one is cancelled."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _names_events(accept: Iterable[str]) -> bool:
    for offered in ",".join(accept).lower().split(","):
        media_type, *parameters = (part.strip() for part in offered.split(";"))
        if media_type == _EVENTS:
            return not any(_NEVER.fullmatch(parameter) for parameter in parameters)
    return False
