"""The Runner's side of its supervisors: prepare, start, order, and what each tree came to (R-65).

A tree is prepared first: its supervisor waits, harmless, and is gone when the Runner is. Once the caller has
recorded it durably, `start` lets the child begin. Nothing is ever signalled here but through its supervisor.
"""

import asyncio
import contextlib
import enum
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from webcodex.runner import left_processes, supervisor

START_WITHIN_S: Final = 10.0
OVERDUE_S: Final = 5.0
"""How long after the hard end a supervisor that does not report is no longer waited for."""

_REAP_WITHIN_S: Final = 5.0
_CHUNK_BYTES: Final = 4096
_NEEDED: Final = ("LD_LIBRARY_PATH",)  # some interpreters find their own library by it
_PROGRAM: Final = Path(supervisor.__file__)


class SpawnFailed(Exception):
    """The child could not be started, and nothing of it is left."""


class StartUnproven(Exception):
    """Whether the child ran is not known; the tree has been ended as well as it can be."""


class End(enum.Enum):
    """What is proven at the end of a tree."""

    EMPTY = enum.auto()
    SUPERVISOR_LOST = enum.auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a child ended: by itself with `code`, or by the signal of that name."""

    code: int | None
    signal: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stdio:
    """The child's descriptors: its working directory and its streams; the tree closes none of them."""

    cwd: int
    stdin: int
    stdout: int
    stderr: int


class Tree:
    """One supervisor and what it owns; made by `prepare`."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", mark: str, orders: int, reports: int, overdue_s: float
    ) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self._process = process
        self._orders = orders
        self._reports = reports
        self._unsent = bytearray()
        self._unread = bytearray()
        self._started: asyncio.Future[tuple[int, str]] = loop.create_future()
        self._end = End.SUPERVISOR_LOST
        self._silent = asyncio.Event()
        self._overdue_s = overdue_s
        self._timers: list[asyncio.TimerHandle] = []
        self._given_up: asyncio.Task[None] | None = None
        self.recorded = left_processes.Recorded(supervisor_pid=process.pid, supervisor_mark=mark)
        loop.add_reader(reports, self._read)

    async def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> left_processes.Recorded:
        """Returns what to record of the tree once its child runs.

        Raises:
            SpawnFailed: it does not run and never did.
            StartUnproven: the supervisor fell silent.

        """
        words = [*argv, *(f"{name}={value}" for name, value in environment.items())]
        payload = b"\0".join([str(len(argv)).encode(), *(os.fsencode(word) for word in words)])
        self._order(f"start {len(payload)}\n".encode() + payload)
        await asyncio.wait({self._started}, timeout=START_WITHIN_S)
        if not self._started.done():
            await self.break_up()
            raise StartUnproven
        child_pid, child_mark = self._started.result()
        self.recorded = replace(self.recorded, child_pid=child_pid, child_mark=child_mark)
        return self.recorded

    def stop(self, grace_s: float, overdue_s: float | None = None) -> None:
        """Orders the tree's end: politely at once, hard after `grace_s`; 0 is hard at once.

        A supervisor that has not brought it about `overdue_s` later is given up.
        """
        self._order(f"stop {int(grace_s * 1000)}\n".encode())
        self._expect_end(grace_s + (self._overdue_s if overdue_s is None else overdue_s))

    async def ended(self) -> End:
        """Returns once the supervisor is gone, and says whether the tree is proven to be gone with it.

        Where it is not, what was recorded of the tree has been ended as well as it can be.
        """
        await self._silent.wait()
        await asyncio.to_thread(self._bury)
        if self._end is End.SUPERVISOR_LOST:
            await asyncio.to_thread(left_processes.end_group, self.recorded)
        return self._end

    async def abandon(self) -> None:
        """Leaves the tree to its supervisor, which ends it, and waits for that as long as it may take."""
        self._close_orders()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_WITHIN_S):
                await self._silent.wait()
                await asyncio.to_thread(self._bury)

    async def break_up(self) -> None:
        """Ends the tree without its supervisor, which does not do as ordered; the end is then unproven."""
        await asyncio.to_thread(left_processes.end_trees, [self.recorded], patience_s=0.0)

    def _expect_end(self, within_s: float) -> None:
        if not self._silent.is_set():
            self._timers.append(asyncio.get_running_loop().call_later(within_s, self._give_up))

    def _give_up(self) -> None:
        if self._given_up is None or self._given_up.done():
            self._given_up = asyncio.get_running_loop().create_task(self.break_up())

    def _bury(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_WITHIN_S)

    def _order(self, line: bytes) -> None:
        self._unsent += line
        self._write()

    def _write(self) -> None:
        """Writes what the pipe takes now; the rest follows when it takes more."""
        if self._orders < 0:
            return
        try:
            while self._unsent:
                written = os.write(self._orders, self._unsent)
                del self._unsent[:written]
        except BlockingIOError:
            asyncio.get_running_loop().add_writer(self._orders, self._write)
            return
        except BrokenPipeError:
            self._unsent.clear()  # the end of the reports tells the rest
        asyncio.get_running_loop().remove_writer(self._orders)

    def _close_orders(self) -> None:
        if self._orders >= 0:
            asyncio.get_running_loop().remove_writer(self._orders)
            os.close(self._orders)
            self._orders = -1

    def _read(self) -> None:
        chunk = os.read(self._reports, _CHUNK_BYTES)
        self._unread += chunk
        while b"\n" in self._unread:
            line, _, rest = bytes(self._unread).partition(b"\n")
            self._unread = bytearray(rest)
            self._take(line.decode("ascii"))
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._reports)
            os.close(self._reports)
            self._close_orders()
            self._fail(StartUnproven())
            for timer in self._timers:
                timer.cancel()
            self._silent.set()

    def _fail(self, error: Exception) -> None:
        if not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # it may be that nobody asks

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "started":
                pid, _, mark = rest.partition(" ")
                self._started.set_result((int(pid), mark))
            case "failed":
                self._fail(SpawnFailed())
            case "exited":
                self._exit(Exit(code=int(rest), signal=None))
            case "killed":
                self._exit(Exit(code=None, signal=signal_name(int(rest))))
            case "empty":
                self._end = End.EMPTY

    def _exit(self, left: Exit) -> None:
        self.exited.set_result(left)
        self._expect_end(supervisor.GRACE_MS / 1000 + self._overdue_s)  # it ends the rest by itself


def signal_name(number: int) -> str:
    """Returns ``SIGKILL`` for 9, and a name with the number for one without a name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


async def prepare(stdio: Stdio, *, overdue_s: float = OVERDUE_S) -> Tree:
    """Returns a tree whose supervisor waits to be told to start its child.

    Raises:
        OSError: not even the supervisor can be started; nothing is left of it.

    """
    with ExitStack() as ours, ExitStack() as its:
        orders_read, orders = _pipe(its, ours)
        reports, reports_write = _pipe(ours, its)
        inherited = (orders_read, reports_write, stdio.cwd, stdio.stdin, stdio.stdout, stdio.stderr)
        process, mark = await asyncio.to_thread(_spawn, inherited)
        ours.pop_all()
    for descriptor in (orders, reports):
        os.set_blocking(descriptor, False)
    return Tree(process, mark, orders, reports, overdue_s)


def _pipe(of_read: ExitStack, of_write: ExitStack) -> tuple[int, int]:
    """Returns the two ends of a pipe, each closed by its own stack."""
    read, write = os.pipe()
    of_read.callback(os.close, read)
    of_write.callback(os.close, write)
    return read, write


def _spawn(inherited: Sequence[int]) -> tuple["subprocess.Popen[bytes]", str]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_PROGRAM), *map(str, inherited)],
        cwd="/",
        env={name: os.environ[name] for name in _NEEDED if name in os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=tuple(inherited),
        start_new_session=True,
    )
    return process, supervisor.mark_of(process.pid)
