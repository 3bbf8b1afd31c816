"""Runs the Server as a process: `webcodex-server`."""

import argparse
import asyncio
import errno
import gc
import importlib.metadata
import importlib.util
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from webcodex.protocol import bounds
from webcodex.server import app, logs, settings
from webcodex.storage import migrate
from webcodex.storage.database import StoreUnavailable

log = logging.getLogger(__name__)

NOT_STARTED: Final = 2
KEEP_ALIVE_S: Final = 65
STOP_WITHIN_S: Final = 5
BACKLOG: Final = 1024

_TAKEN: Final = (
    "WEBCODEX_ADDR names a port that another process uses; stop that process or choose another port."
)
_UNBOUND: Final = "WEBCODEX_ADDR names an address that this machine cannot listen on; choose another one."
_NO_DATABASE: Final = "The database in WEBCODEX_DATA cannot be opened; stop whatever holds it, or restore it."


class _CannotStart(Exception):
    """The Server cannot start; the text says what to do."""


def main() -> int:
    """Serves until SIGINT or SIGTERM and returns 0, or returns 2 when the Server cannot start (10.1)."""
    parser = argparse.ArgumentParser(
        prog="webcodex-server", description="The WebCodex Server. WEBCODEX_* environment variables set it up."
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {importlib.metadata.version('webcodex')}"
    )
    parser.parse_args()
    logs.begin()
    try:
        chosen = settings.load(os.environ)
        listener = _listener(chosen)
        application = _application(chosen)
    except (settings.BadSetting, _CannotStart) as reason:
        sys.stderr.write(f"webcodex-server: {reason}\n")
        return NOT_STARTED
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(application, chosen, listener))
    return 0


def _application(chosen: settings.Settings) -> app.Application:
    try:
        return app.Application(chosen)
    except StoreUnavailable:
        raise _CannotStart(_NO_DATABASE) from None
    except migrate.UnknownSchema as error:
        raise _CannotStart(f"The database in WEBCODEX_DATA: {error}.") from None


def _listener(chosen: settings.Settings) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            chosen.addr_host, chosen.addr_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError:
        raise _CannotStart(_UNBOUND) from None
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _CannotStart(_TAKEN if error.errno == errno.EADDRINUSE else _UNBOUND) from None
    return listener


async def _serve(application: app.Application, chosen: settings.Settings, listener: socket.socket) -> None:
    asyncio.get_running_loop().set_exception_handler(_log_loop_fault)
    server = _Server(_configuration(application), _url(chosen, listener))
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


def _configuration(application: app.Application) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        **_protocols(),
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
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


def _url(chosen: settings.Settings, listener: socket.socket) -> str:
    host = f"[{chosen.addr_host}]" if ":" in chosen.addr_host else chosen.addr_host
    return f"http://{host}:{listener.getsockname()[1]}"


def _log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("action=loop_fault", exc_info=context.get("exception"))
