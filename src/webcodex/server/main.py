"""Starts the Server as a process: `webcodex-server`."""

import argparse
import errno
import importlib.metadata
import os
import signal
import socket
import sys
from typing import Final, NoReturn

from webcodex.server import logs, settings
from webcodex.storage import migrate
from webcodex.storage.database import StoreError

NOT_STARTED: Final = 2
BACKLOG: Final = 1024

_TAKEN: Final = (
    "WEBCODEX_ADDR names a port that another process uses; stop that process or choose another port."
)
_UNBOUND: Final = "WEBCODEX_ADDR names an address that this machine cannot listen on; choose another one."
_NO_FILE: Final = "The database in WEBCODEX_DATA cannot be opened; stop whatever holds it, or restore it."
_NO_SERVICE: Final = "The database of WEBCODEX_DATABASE_URL cannot be reached; start it, or mend the address."


class _CannotStart(Exception):
    """The Server cannot start; the text says what to do."""


def main() -> int:
    """Serves until SIGINT or SIGTERM and returns 0, or returns 2 when the Server cannot start (10.1)."""
    parser = argparse.ArgumentParser(
        prog="webcodex-server", description="The WebCodex Server. WEBCODEX_* environment variables set it up."
    )
    version = importlib.metadata.version("webcodex")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    parser.parse_args()
    logs.begin()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        chosen = settings.load(os.environ)
        with _listener(chosen) as listener:
            _serve(chosen, listener)
    except (settings.BadSetting, _CannotStart) as reason:
        sys.stderr.write(f"webcodex-server: {reason}\n")
        return NOT_STARTED
    return 0


def _leave(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


def _serve(chosen: settings.Settings, listener: socket.socket) -> None:
    from webcodex.server import app, serving  # noqa: PLC0415 - a second to import, which no refusal needs

    try:
        application = app.Application(chosen)
        serving.run(application, listener, _url(chosen, listener))
    except StoreError:
        raise _CannotStart(_NO_FILE if chosen.database_url is None else _NO_SERVICE) from None
    except migrate.UnknownSchema as error:
        place = "WEBCODEX_DATA" if chosen.database_url is None else "WEBCODEX_DATABASE_URL"
        raise _CannotStart(f"The database of {place} cannot be used: {error}.") from None


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


def _url(chosen: settings.Settings, listener: socket.socket) -> str:
    host = f"[{chosen.addr_host}]" if ":" in chosen.addr_host else chosen.addr_host
    return f"http://{host}:{listener.getsockname()[1]}"
