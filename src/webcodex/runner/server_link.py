"""Dials the Server, again and again for as long as the process lives (R-30, R-36)."""

import asyncio
import contextlib
import logging
import random
from time import monotonic
from typing import Final

import websockets
from websockets.asyncio import client

from webcodex.protocol import bounds, link
from webcodex.runner import backoff, conversation, presence, settings, work

_CLOSE_WITHIN_S: Final = 3.0
_CREDENTIAL_REFUSED: Final = frozenset({401, 403})

log = logging.getLogger(__name__)

_SILENT: Final = logging.getLogger("webcodex.runner.websockets")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False  # its debug lines hold headers, and so the token


class _Dial(client.connect):
    """One attempt to connect, straight to the configured address."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Returns a redirect as the failure it is: none is followed (R-30)."""
        return exc


async def keep(
    configured: settings.Settings, runner: presence.Presence, tasks: work.Work, stop: asyncio.Event
) -> None:
    """Stays connected as well as it can until `stop` is set, and has said goodbye by then."""
    pause = backoff.Backoff()
    while not stop.is_set():
        parting, connected_s = await _attempt(configured, runner, tasks, stop)
        pause, wait_s = pause.after(
            parting,
            connected_s=connected_s,
            chance=random.random(),  # noqa: S311 - spreads reconnects, guards nothing
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await stop.wait()


async def _attempt(
    configured: settings.Settings, runner: presence.Presence, tasks: work.Work, stop: asyncio.Event
) -> tuple[backoff.Parting, float]:
    """Returns how one connection ended and for how many seconds it was registered."""
    try:
        socket = await _dialled(configured, stop)
    except websockets.InvalidStatus as error:
        status = error.response.status_code
        log.warning("action=link_refused status=%d", status)
        refused = status in _CREDENTIAL_REFUSED
        return backoff.Parting.CREDENTIAL_REFUSED if refused else backoff.Parting.LOST, 0.0
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        log.warning("action=link_unreachable error=%s", type(error).__name__)
        return backoff.Parting.LOST, 0.0
    if socket is None:
        return backoff.Parting.LOST, 0.0
    talk = conversation.Conversation(socket, runner, tasks)
    close_code = 1000
    try:
        await talk.hold(stop)
    except link.LinkOver as error:
        close_code = error.close_code
        log.warning("action=link_over why=%s", error)
    except (OSError, websockets.WebSocketException) as error:
        log.warning("action=link_lost error=%s", type(error).__name__)
    finally:
        await socket.close(close_code)
    forbidden = talk.verdict is conversation.Verdict.FORBIDDEN
    connected_s = 0.0 if talk.registered_at is None else monotonic() - talk.registered_at
    return backoff.Parting.CREDENTIAL_REFUSED if forbidden else backoff.Parting.LOST, connected_s


async def _dialled(configured: settings.Settings, stop: asyncio.Event) -> client.ClientConnection | None:
    """Returns an open socket, or None when the Runner was told to stop before there was one."""
    dialling = asyncio.create_task(_dial(configured))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({dialling, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if dialling.done():
        return dialling.result()
    dialling.cancel()
    await asyncio.gather(dialling, return_exceptions=True)
    return None


async def _dial(configured: settings.Settings) -> client.ClientConnection:
    return await _Dial(
        configured.link_url,
        origin=None,
        additional_headers={"Authorization": f"Bearer {configured.token}"},
        user_agent_header=f"webcodex-runner/{presence.VERSION}",
        compression=None,
        proxy=None if configured.link_url.startswith("ws://") else True,
        open_timeout=configured.connect_timeout_s,
        ping_interval=None,
        close_timeout=_CLOSE_WITHIN_S,
        max_size=bounds.MAX_FRAME_BYTES,
        logger=_SILENT,
    )
