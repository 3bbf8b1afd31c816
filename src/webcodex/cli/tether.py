"""Runs one of our programs as a child that never outlives whoever started it.

``python -P -m webcodex.cli.tether MODULE ARGUMENT...`` imports MODULE, waits for one byte on stdin, then
calls ``MODULE.main()``. When stdin ends the process ends, by SIGTERM once the program runs: the other end of
the pipe is held by the starter alone, so the program ends with its starter, however that ends.
"""

import importlib
import os
import signal
import sys
import threading
from typing import NoReturn


def main() -> NoReturn:
    """Ends with the exit code of the program."""
    line = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    _, module, *arguments = sys.argv
    sys.argv = [module, *arguments]
    program = importlib.import_module(module)
    if not os.read(line, 1):
        sys.exit(1)
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    sys.exit(program.main())


def _end_with(line: int) -> None:
    while os.read(line, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
