"""Owns one process tree for the Runner and ends all of it when ordered, or when the Runner is gone (R-65).

A program of its own, run as ``python -I -S supervisor.py FD...``: the standard library only, and of that only
what starts fast. It copies nothing between the Runner and its child, and it never gives a tree up.

Orders arrive on the first descriptor: ``start LENGTH`` and so many bytes (the number of arguments, the
arguments and the environment, NUL between them), then any number of ``stop GRACE_MS``. Reports leave on the
second: ``started PID MARK`` or ``failed ERRNO``, ``exited CODE`` or ``killed SIGNAL``, and ``empty`` once
nothing is left. The others are the child's working directory and its three standard streams.
"""

import os
import select
import signal
import sys
import time

GRACE_MS = 2000
"""How long a tree that nobody gave other orders about may take between the polite end and the hard one."""

_LOOK_S = 0.05
_NEVER = float("inf")
_CHUNK_BYTES = 65_536
_MAX_START_BYTES = 8 * 1024 * 1024
_SET_CHILD_SUBREAPER = 36
_PROC = "/proc"
_SYSTEM = str(sys.platform)
_PS = ("ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,lstart=")
_PS_FIELDS = 5


class Process:
    """One line of the process table; `mark` is its start time, which tells it from later users of its pid."""

    __slots__ = ("group", "is_dead", "mark", "parent")

    def __init__(self, parent: int, group: int, mark: str, *, is_dead: bool) -> None:
        self.parent = parent
        self.group = group
        self.mark = mark
        self.is_dead = is_dead


Table = dict[int, Process]


def process_table() -> Table:
    """Returns every process that is visible now, by pid; one that waits to be reaped is marked dead."""
    return _table_of_proc() if os.access(f"{_PROC}/self/stat", os.R_OK) else table_of_ps()


def descendants(table: Table, root: int) -> list[int]:
    """Returns the pids of the living processes below `root`, parents before their children."""
    below: dict[int, list[int]] = {}
    for pid, process in table.items():
        below.setdefault(process.parent, []).append(pid)
    found: list[int] = []
    pending = [root]
    seen = {root}
    while pending:
        for pid in below.get(pending.pop(0), ()):
            if pid not in seen:
                seen.add(pid)
                pending.append(pid)
                found.append(pid)
    return [pid for pid in found if not table[pid].is_dead]


def mark_of(pid: int) -> str:
    """Returns the start time of a process as the table tells it; "" for one that is not there."""
    in_proc = os.access(f"{_PROC}/self/stat", os.R_OK)
    process = _process(pid, _boot()) if in_proc else table_of_ps().get(pid)
    return "" if process is None else process.mark


def end_process(pid: int, number: int) -> None:
    """Sends a signal to a process that may be gone already."""
    try:  # noqa: SIM105 - contextlib would double the start-up
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _table_of_proc() -> Table:
    boot = _boot()
    read = ((int(name), _process(int(name), boot)) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - pathlib doubles the start-up
    return {pid: process for pid, process in read if process is not None}


def _process(pid: int, boot: str) -> Process | None:
    """Returns what /proc says; its start times count from a boot, so the boot is part of the mark.

    A process whose first thread is over is shown as dead while its other threads run on; that one lives.
    """
    try:
        content = _content(f"{_PROC}/{pid}/stat")
    except OSError:
        return None
    state, parent, group, *rest = content[content.rindex(b")") + 2 :].split()
    is_dead = state in {b"Z", b"X"} and int(rest[14]) <= 1
    return Process(int(parent), int(group), f"{int(rest[16])}@{boot}", is_dead=is_dead)


def _boot() -> str:
    try:
        return _content(f"{_PROC}/sys/kernel/random/boot_id").decode("ascii").strip()
    except OSError:
        return ""


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def table_of_ps() -> Table:
    """Returns the process table where there is no /proc; its marks are whole seconds."""
    import subprocess  # noqa: PLC0415 - only needed without /proc, and slow to import

    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    told = subprocess.run(_PS, check=True, capture_output=True, timeout=5, env=environment)
    table: Table = {}
    for line in told.stdout.decode("ascii", "replace").splitlines():
        fields = line.split(None, _PS_FIELDS - 1)
        if len(fields) == _PS_FIELDS:
            pid, parent, group, state, mark = fields
            is_dead = state.startswith("Z")
            table[int(pid)] = Process(int(parent), int(group), mark.strip(), is_dead=is_dead)
    return table


class _Tree:
    """The child and everything that came of it."""

    def __init__(self, orders: int, reports: int) -> None:
        self._orders = orders
        self._reports = reports
        self._received = bytearray()
        self._adopts = _adopt_orphans()
        self._child = 0
        self._hard_at = _NEVER
        self._look_at = _NEVER
        self._asked: set[tuple[int, str]] = set()
        self._woken = _wake_on_signals()
        self._heard = [orders, self._woken]

    def start(self, stdio: list[int]) -> bool:
        """Says whether the child runs; it starts when the Runner orders it, never after the Runner's end."""
        payload = self._start_order()
        if payload is None:
            return False
        count, _, rest = payload.partition(b"\0")
        words = rest.split(b"\0")
        argv, settings = words[: int(count)], words[int(count) :]
        environment = dict(setting.split(b"=", 1) for setting in settings)
        failure = self._fork(argv, environment, stdio)
        if failure:
            self._report(b"failed " + failure)
            return False
        self._report(f"started {self._child} {mark_of(self._child)}".encode())
        return True

    def _fork(self, argv: list[bytes], environment: dict[bytes, bytes], stdio: list[int]) -> bytes:
        """Returns the error number that kept the child from being started; nothing when it runs."""
        failing, failed = os.pipe()
        try:
            self._child = os.fork()
        except OSError as error:
            return str(error.errno).encode()
        if self._child == 0:
            _become(argv, environment, stdio, failed)
        for descriptor in (failed, *stdio):
            os.close(descriptor)
        failure = os.read(failing, 16)
        os.close(failing)
        if failure:
            os.waitpid(self._child, 0)
        return failure

    def keep(self) -> None:
        """Returns once nothing of the tree is left."""
        self._obey()
        while self._reap():
            if time.monotonic() >= self._look_at:
                self._end_some()
            ending = self._hard_at < _NEVER
            ready, _, _ = select.select(self._heard, [], [], _LOOK_S if ending else None)
            if self._woken in ready:
                os.read(self._woken, _CHUNK_BYTES)
            if self._orders in ready:
                self._listen()
        self._report(b"empty")

    def _start_order(self) -> bytes | None:
        while b"\n" not in self._received:
            if not self._receive():
                return None
        line, _, rest = bytes(self._received).partition(b"\n")
        word, length = line.split()
        if word != b"start" or int(length) > _MAX_START_BYTES:
            return None
        self._received = bytearray(rest)
        while len(self._received) < int(length):
            if not self._receive():
                return None
        payload = bytes(self._received[: int(length)])
        del self._received[: int(length)]
        return payload

    def _receive(self) -> bool:
        chunk = os.read(self._orders, _CHUNK_BYTES)
        self._received += chunk
        return bool(chunk)

    def _listen(self) -> None:
        if self._receive():
            self._obey()
        else:  # the Runner is gone
            self._heard.remove(self._orders)
            self._end_within(GRACE_MS)

    def _obey(self) -> None:
        while b"\n" in self._received:
            line, _, rest = bytes(self._received).partition(b"\n")
            self._received = bytearray(rest)
            word, grace_ms = line.split()
            if word == b"stop":
                self._end_within(int(grace_ms))

    def _end_within(self, grace_ms: int) -> None:
        self._hard_at = min(self._hard_at, time.monotonic() + grace_ms / 1000)
        self._look_at = 0.0

    def _reap(self) -> bool:
        """Says whether anything is left of the tree, once what died is buried."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._adopts and bool(self._rest(process_table()))
            if pid == 0:
                return True
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                self._report(f"exited {code}".encode() if code >= 0 else f"killed {-code}".encode())
                self._end_within(GRACE_MS)

    def _rest(self, table: Table) -> list[int]:
        """Returns what is left; where orphans are not adopted, the child's group is all that can be found."""
        below = descendants(table, os.getpid())
        if self._adopts:
            return below
        group = [pid for pid, each in table.items() if each.group == self._child and not each.is_dead]
        return [*below, *(pid for pid in group if pid not in below)]

    def _end_some(self) -> None:
        """Asks each process once to end; after the grace, ends them all."""
        table = process_table()
        hard = time.monotonic() >= self._hard_at
        for pid in self._rest(table):
            process = (pid, table[pid].mark)
            if hard:
                end_process(pid, signal.SIGKILL)
            elif process not in self._asked:
                self._asked.add(process)
                end_process(pid, signal.SIGTERM)
        self._look_at = time.monotonic() + (0.0 if hard else _LOOK_S)

    def _report(self, line: bytes) -> None:
        try:  # noqa: SIM105 - contextlib would double the start-up
            os.write(self._reports, line + b"\n")
        except BrokenPipeError:
            pass  # nobody is left to tell, and the tree still has to end


def _adopt_orphans() -> bool:
    """Says whether every orphan of the tree becomes a child of this process from now on (Linux only)."""
    if _SYSTEM != "linux":
        return False
    import ctypes  # noqa: PLC0415 - other systems have no use for it

    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, one, none, none, none) == 0)


def _wake_on_signals() -> int:
    """Returns a descriptor that is readable after a signal; none of them ends this process."""
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda _number, _frame: None)
    return woken


def _become(argv: list[bytes], environment: dict[bytes, bytes], stdio: list[int], failed: int) -> None:
    """Turns this process into the child, leader of a session and group of its own; never returns."""
    try:
        os.setsid()
        for ordinary in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(ordinary, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.fchdir(stdio[0])
        for number, descriptor in enumerate(stdio[1:]):
            os.dup2(descriptor, number)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell is the rule here (R-60)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(127)


def main(words: list[str]) -> int:
    """Runs one tree to its end."""
    orders, reports, *stdio = (int(word) for word in words)
    for descriptor in (orders, reports, *stdio):
        os.set_inheritable(descriptor, False)
    tree = _Tree(orders, reports)
    if tree.start(stdio):
        tree.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
