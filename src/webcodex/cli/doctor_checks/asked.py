"""Asks a script of the adapters for its status, within a bound of time and of bytes (A-34, A-63)."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webcodex.cli import adapter_setup
from webcodex.cli.doctor_checks import checks
from webcodex.runner import private_files

STATUS_S: Final = 2.0
_SAID_BYTES: Final = 65_536
_FILE_BYTES: Final = 131_072


def command(script: str, *words: str | Path) -> str:
    """Returns the command that runs the script by hand with these words."""
    line = (sys.executable, "-I", "-S", adapter_setup.SCRIPTS / script, *words)
    return " ".join(checks.quoted(Path(word)) for word in line)


def started(script: str, *words: str | Path) -> subprocess.Popen[bytes]:
    """Returns the script as it runs with these words; whoever started it hears it with ``said``."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", adapter_setup.SCRIPTS / script, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
    )


def said(process: subprocess.Popen[bytes], until: float) -> tuple[int | None, Mapping[str, Any]]:
    """Returns how it ended, none if it did not by ``until`` (monotonic s), and the object that it said."""
    too_late = threading.Timer(max(0.0, until - time.monotonic()), process.kill)
    too_late.start()
    try:
        assert process.stdout is not None
        content = process.stdout.read(_SAID_BYTES)
        return process.wait(max(0.0, until - time.monotonic())), _object(content)
    except subprocess.TimeoutExpired:
        return None, {}
    finally:
        too_late.cancel()


def ended(process: subprocess.Popen[bytes]) -> None:
    """Leaves nothing of the process, heard or not."""
    process.kill()
    process.communicate()


def stored(file: Path) -> Mapping[str, Any]:
    """Returns what a private file holds, or nothing where its script itself says what is wrong with it."""
    try:
        return _object(private_files.read(file, most_bytes=_FILE_BYTES)[0])
    except (OSError, private_files.NotPrivate):
        return {}


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
