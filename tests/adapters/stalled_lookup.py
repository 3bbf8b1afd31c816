"""Runs a script on a machine whose name resolution never answers: ``stalled_lookup.py SCRIPT ...``."""

import socket
import sys
import time

STALL_S = 600


def stall(*_: object, **__: object) -> None:
    """Blocks as the system's resolver does: no time-out of a socket ends it."""
    time.sleep(STALL_S)


socket.getaddrinfo = stall  # type: ignore[assignment]  # this is what the script then finds
sys.argv = sys.argv[1:]
with open(sys.argv[0], encoding="utf-8") as source:  # noqa: PTH123  # as the interpreter would open it
    code = compile(source.read(), sys.argv[0], "exec")
exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})  # what the interpreter would do
