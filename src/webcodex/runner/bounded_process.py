"""Runs one short program to its end with a deadline and a bound on what it says; it outlives neither."""

import contextlib
import enum
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

from webcodex.runner import deadline

_CHUNK_BYTES: Final = 65_536
_LOOK_UP_S: Final = 0.25
"""How soon work that was given up is noticed."""


class Ending(enum.Enum):
    """Why the program is no longer running."""

    EXITED = enum.auto()
    TIMED_OUT = enum.auto()
    TOO_LONG = enum.auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one program; `exit_code` counts only where it exited by itself."""

    ending: Ending
    exit_code: int
    output: bytes


def run(
    argv: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    until: deadline.Deadline,
    most_bytes: int,
) -> Outcome:
    """Returns the standard output of `argv`, at most `most_bytes` of it, once the program is gone.

    It runs in a session of its own with an empty input and exactly the given environment; where it does not
    exit by itself, its whole process group is killed.

    Raises:
        OSError: the program cannot be started.

    """
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        output = bytearray()
        ending = Ending.TIMED_OUT
        try:
            ending = _collect(process.stdout, output, until, most_bytes)
            if ending is Ending.EXITED:
                process.wait(until.remaining_s())
        except subprocess.TimeoutExpired:
            ending = Ending.TIMED_OUT
        finally:
            if ending is not Ending.EXITED:
                _end_group(process.pid)
        return Outcome(ending=ending, exit_code=process.wait(), output=bytes(output))


def _end_group(pid: int) -> None:
    """Kills the whole group of a leader that is not reaped yet, so the group is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _collect(pipe: IO[bytes], output: bytearray, until: deadline.Deadline, most_bytes: int) -> Ending:
    descriptor = pipe.fileno()
    while True:
        remaining_s = until.remaining_s()
        if remaining_s <= 0:
            return Ending.TIMED_OUT
        if not select.select([descriptor], [], [], min(remaining_s, _LOOK_UP_S))[0]:
            continue
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return Ending.EXITED
        output += chunk
        if len(output) > most_bytes:
            del output[most_bytes:]
            return Ending.TOO_LONG
