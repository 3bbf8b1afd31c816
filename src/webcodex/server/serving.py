"""Serves the application on one socket until a signal ends it, with uvicorn."""

import asyncio
import gc
import importlib.util
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from webcodex.protocol import bounds
from webcodex.server.app import Application

log = logging.getLogger(__name__)

KEEP_ALIVE_S: Final = 65
STOP_WITHIN_S: Final = 5


def run(application: Application, listener: socket.socket, url: str) -> None:
    """Serves ``application`` on ``listener`` until SIGINT or SIGTERM, and says on stdout when it accepts."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(application, listener, url))


async def _serve(application: Application, listener: socket.socket, url: str) -> None:
    asyncio.get_running_loop().set_exception_handler(_log_loop_fault)
    server = _Server(_configuration(application), url)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn takes these over and raises them again at its end, which must then end nothing more.
        signal.signal(number, server.ask_to_stop)
    async with application.running():
        await server.serve(sockets=[listener])
    log.info("action=stopped")


class _Server(uvicorn.Server):
    """Says on stdout when it accepts connections."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts connections, then prints the one line that says so."""
        await super().startup(sockets)
        # Full collections over the long-lived schema objects are what slows single requests down.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        sys.stdout.write(f"webcodex-server ready on {self._url}\n")
        sys.stdout.flush()

    def ask_to_stop(self, _number: int, _frame: object) -> None:
        """Ends the Server soon, also when the signal comes before it serves."""
        self.should_exit = True


def _configuration(application: Application) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        **_protocols(),
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        ws_max_size=bounds.MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
    )


def _protocols() -> dict[str, Any]:
    if importlib.util.find_spec("httptools") is None:
        return {"http": "h11", "ws": "websockets-sansio"}
    from webcodex.server import connections  # noqa: PLC0415 - it needs httptools

    return {"http": connections.HttpConnection, "ws": connections.WebSocketConnection}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - not everywhere

    return uvloop.new_event_loop


def _log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("action=loop_fault", exc_info=context.get("exception"))
