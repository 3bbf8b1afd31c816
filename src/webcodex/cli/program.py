"""Says how to call this program again, so that what a sentence advises can be pasted into a shell."""

import os
import shlex
import sys
from pathlib import Path

import click


def command(words: str) -> str:
    """Returns the command line that runs ``words`` on the data directory this command was given."""
    context = click.get_current_context(silent=True)
    given = context.params.get("data") if context is not None else None
    rest = f" --data {shlex.quote(os.path.abspath(given))}" if given else ""  # noqa: PTH100 - as it was given
    return f"{name()} {words}{rest}"


def name() -> str:
    """Returns ``webcodex`` where a shell finds this very program by it, else its absolute path."""
    own = Path(sys.executable).with_name("webcodex")
    for folder in os.get_exec_path():
        candidate = Path(folder, own.name)
        if candidate.exists():
            return own.name if own.exists() and candidate.samefile(own) else shlex.quote(str(own))
    return shlex.quote(str(own))
