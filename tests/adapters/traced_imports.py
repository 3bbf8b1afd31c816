"""Runs a script and notes each module it loads: ``traced_imports.py FILE SCRIPT ...``.

The names of modules that the interpreter had loaded before are not in it.
"""

import posix
import sys

sys.argv = sys.argv[1:]
_log = posix.open(sys.argv.pop(0), posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)


def note(event: str, arguments: tuple[object, ...]) -> None:
    """One import has begun."""
    if event == "import":
        posix.write(_log, f"{arguments[0]}\n".encode())


sys.addaudithook(note)
with open(sys.argv[0], encoding="utf-8") as source:  # noqa: PTH123  # as the interpreter would open it
    code = compile(source.read(), sys.argv[0], "exec")
exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})  # what the interpreter would do
