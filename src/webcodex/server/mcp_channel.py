"""Is the SDK's view of one request: who asks, what it may be told meanwhile, and that it is asked nothing."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NoReturn

import anyio
from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext

from webcodex.server.mcp_answers import RequestId
from webcodex.server.mcp_progress import Progress

_TRANSPORT: Final = TransportContext(kind="streamable-http", can_send_request=False)


class Channel:
    """The SDK's ``DispatchContext``; a handler finds ``exchange`` as the ``request`` of its context."""

    transport = _TRANSPORT
    can_send_request = False

    def __init__(self, exchange: object, request_id: RequestId, progress: Progress | None) -> None:
        self.message_metadata = ServerMessageMetadata(request_context=exchange)
        self.request_id = request_id
        self._progress = progress

    def connection(self, spoken: str) -> Connection:
        """Returns the connection, in the revision ``spoken``, that holds this request alone."""
        made = Connection(self, protocol_version=spoken)
        made.initialized.set()
        return made

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """Is never set: no message of a client reaches another of its requests."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, _params: Mapping[str, Any] | None, _opts: CallOptions | None = None
    ) -> NoReturn:
        """Refuses: a stateless server has no client to ask.

        Raises:
            NoBackChannelError: always.

        """
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Drops the notification: a stream holds progress alone (M-21)."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the client, if it asked to be told."""
        if self._progress is not None:
            await self._progress.tell(progress, total, message)
