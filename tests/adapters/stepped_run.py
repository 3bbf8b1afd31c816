"""Runs an adapter script that stops itself after its N-th effect on a file, a lock or the wire.

Usage: ``stepped_run.py TRACE STEP SCRIPT ARGUMENT...``. It replaces the system calls that the script uses,
not the script. Each effect's name is a line of TRACE; STEP 0 never stops. Whoever started it sees the stop,
may do what another process would do meanwhile, and lets it go on or kills it.
"""

import _socket
import fcntl
import os
import posix
import signal
import sys
from collections.abc import Callable
from typing import Any

CHANGES = ("fsync", "rename", "unlink", "mkdir")
plain_write = posix.write


class Steps:
    """Counts effects, names them in the trace, and stops the process after the chosen one."""

    def __init__(self, trace: str, last: int) -> None:
        self._log = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._left = last
        self._locks: set[int] = set()

    def took(self, name: str) -> None:
        """One effect has happened."""
        plain_write(self._log, name.encode() + b"\n")
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)

    def traced(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The call, counted when it changes something."""

        def wrapper(*given: Any, **more: Any) -> Any:
            result = call(*given, **more)
            found = self._effect(name, *given)
            if found:
                self.took(found)
            return result

        return wrapper

    def _effect(self, name: str, subject: Any = None, flags: int = 0, *_: object) -> str:
        if name == "open":
            return "create" if flags & posix.O_CREAT else ""
        if name == "write":
            return name if subject > 2 else ""
        if name == "flock":
            self._locks.add(subject)
        if name == "close":
            return "unlock" if subject in self._locks else ""
        return name


def main() -> None:
    """The script has run with every effect traced."""
    trace, step, script, *arguments = sys.argv[1:]
    steps = Steps(trace, int(step))

    class Socket(_socket.socket):
        def sendall(self, *given: Any) -> None:
            super().sendall(*given)
            steps.took("send")

        def recv(self, *given: Any) -> bytes:
            received = super().recv(*given)
            steps.took("receive")
            return received

    for name in ("open", "write", "close", *CHANGES):
        setattr(posix, name, steps.traced(getattr(posix, name), name))
    fcntl.flock = steps.traced(fcntl.flock, "flock")
    _socket.socket = Socket  # type: ignore[misc]  # this is what the script then finds
    sys.argv = [script, *arguments]
    with open(script, encoding="utf-8") as source:  # noqa: PTH123  # as the interpreter would open it
        code = compile(source.read(), script, "exec")
    exec(code, {"__name__": "__main__", "__file__": script})  # what the interpreter would do


if __name__ == "__main__":
    main()
