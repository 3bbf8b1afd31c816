"""A supervisor as the program it is: it owns its tree to the last process."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.requirements import requirement
from tests.runner import peer
from tests.runner.job_server import is_alive, read_pids
from webcodex.runner import left_processes, processes, supervisor

PYTHON = sys.executable

NASTY = """
import os, signal, subprocess, sys, time
def told(name):
    with open(name + ".new", "w") as file:
        file.write(f"{os.getpid()}\\n")
    os.rename(name + ".new", name)
def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
told("child")
if os.fork() == 0:
    stay(); told("stubborn"); time.sleep(60); os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay(); told("daemon"); time.sleep(60)
    os._exit(0)
if os.fork() == 0:
    os.setpgid(0, 0); told("polite"); time.sleep(60); os._exit(0)
while not all(os.path.exists(name) for name in ("stubborn", "daemon", "polite")):
    time.sleep(0.01)
"""
NAMES = ("child", "stubborn", "daemon", "polite")


class Started:
    """A supervisor that waits for its order, and the ends of its pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]", orders: int, reports: int) -> None:
        self.process = process
        self.orders = orders
        self._reports = reports
        self._unread = b""

    def start(self, *argv: str) -> None:
        payload = "\0".join([str(len(argv)), *argv, "PATH=/usr/bin:/bin", "ONLY=this"]).encode()
        os.write(self.orders, f"start {len(payload)}\n".encode() + payload)

    def order(self, line: str) -> None:
        os.write(self.orders, f"{line}\n".encode())

    def report(self) -> list[str]:
        """Returns the words of the next report; none when there is no more."""
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._reports], [], [], peer.PATIENCE_S)
            assert ready, "the supervisor says nothing"
            chunk = os.read(self._reports, 4096)
            if not chunk:
                return []
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode().split()

    def leave(self) -> None:
        """Goes away as a dead Runner does."""
        os.close(self.orders)
        self.orders = -1

    def close(self) -> None:
        if self.orders >= 0:
            os.close(self.orders)
        os.close(self._reports)
        self.process.wait(peer.PATIENCE_S)


@contextmanager
def supervising(folder: Path) -> Iterator[Started]:
    ours_orders, orders = os.pipe()
    reports, ours_reports = os.pipe()
    streams = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    inherited = [ours_orders, ours_reports, os.open(folder, os.O_RDONLY), *streams]
    process = subprocess.Popen(
        [PYTHON, "-I", "-S", supervisor.__file__, *map(str, inherited)],
        pass_fds=inherited,
        start_new_session=True,
        env={},
    )
    for descriptor in inherited:
        os.close(descriptor)
    started = Started(process, orders, reports)
    try:
        yield started
    finally:
        started.close()


@requirement("R-65")
async def test_nothing_of_a_nasty_tree_outlives_its_child(tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        started.start(PYTHON, "-c", NASTY)
        word, pid, mark = started.report()
        processes = await read_pids(tmp_path, *NAMES)
        assert (word, int(pid), mark != "") == ("started", processes[0][0], True)
        assert started.report() == ["exited", "0"]
        assert is_alive(processes[1])
        assert is_alive(processes[2])
        assert started.report() == ["empty"]
    assert not any(is_alive(process) for process in processes)
    assert started.process.returncode == 0


@requirement("R-65")
@pytest.mark.parametrize("order", ["stop 0", "stop 100"])
async def test_a_tree_ends_hard_within_the_ordered_grace(order: str, tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        started.start(PYTHON, "-c", NASTY + "\nstay(); told('ready'); time.sleep(60)")
        processes = await read_pids(tmp_path, *NAMES, "ready")
        started.order(order)
        assert [started.report()[0] for _ in range(3)] == ["started", "killed", "empty"]
    assert not any(is_alive(process) for process in processes)


@requirement("R-65")
def test_a_process_whose_first_thread_is_over_is_ended_like_any_other(tmp_path: Path) -> None:
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with supervising(tmp_path) as started:
        started.start(PYTHON, "-c", script)
        _, pid, _ = started.report()
        deadline = monotonic() + peer.PATIENCE_S
        while b") Z " not in Path(f"/proc/{pid}/stat").read_bytes():
            assert monotonic() < deadline
        started.order("stop 0")
        assert [started.report(), started.report()] == [["killed", "9"], ["empty"]]


@requirement("R-65")
def test_a_child_leads_a_session_of_its_own_and_inherits_nothing(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "left = [n for n in range(1, 65) if n not in (9, 19, 32, 33)"
        " and signal.getsignal(n) is signal.SIG_IGN and n not in (signal.SIGPIPE, signal.SIGXFSZ)]\n"
        "print(os.getpid() == os.getsid(0) == os.getpgid(0), sorted(os.listdir('/proc/self/fd'))[:-1],"
        " left, dict(os.environ).get('ONLY'), len(signal.pthread_sigmask(0, [])),"
        " file=open('told', 'w'))\n"
    )
    with supervising(tmp_path) as started:
        started.start(PYTHON, "-c", script)
        started.report()
        assert started.report() == ["exited", "0"]
        assert os.getsid(started.process.pid) == started.process.pid
        assert started.report() == ["empty"]
        assert started.report() == []
    assert (tmp_path / "told").read_text() == "True ['0', '1', '2'] [] this 0\n"


@requirement("R-65", "R-66")
def test_a_runner_that_goes_before_its_order_leaves_nothing_started(tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        os.write(started.orders, b"start 100\n1\0touch")
        started.leave()
        assert started.report() == []
    assert started.process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@requirement("R-65")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_polite_signal_does_not_end_a_supervisor(number: signal.Signals, tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        started.start("sleep", "60")
        assert started.report()[0] == "started"
        started.process.send_signal(number)
        started.order("stop 2000")
        assert [started.report(), started.report()] == [["killed", "15"], ["empty"]]


@requirement("R-65")
def test_a_program_that_cannot_be_started_is_reported_as_its_error(tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        started.start("/no/such")
        assert [started.report(), started.report()] == [["failed", "2"], []]


@requirement("R-65", "R-66")
def test_ps_tells_the_same_tree_as_proc() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        by_proc, by_ps = supervisor.process_table(), supervisor.table_of_ps()
    finally:
        child.kill()
        child.wait()
    told = [(table[child.pid].parent, table[child.pid].group) for table in (by_proc, by_ps)]
    assert told == [(os.getpid(), child.pid)] * 2
    assert child.pid in supervisor.descendants(by_ps, os.getpid())
    assert by_ps[child.pid].mark
    assert not by_ps[child.pid].is_dead


@requirement("R-65", "R-66")
def test_only_a_process_with_the_recorded_start_time_is_ended() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    mark = supervisor.mark_of(child.pid)
    ticks, _, boot = mark.partition("@")
    try:
        for other in (f"{int(ticks) - 1}@{boot}", f"{ticks}@another-boot", ""):
            stranger = left_processes.Recorded(
                supervisor_pid=child.pid, supervisor_mark=other, child_pid=child.pid, child_mark=other
            )
            left_processes.end_trees([stranger], patience_s=0.0)
            assert child.poll() is None
        left_processes.end_group(
            left_processes.Recorded(
                supervisor_pid=child.pid, supervisor_mark="", child_pid=child.pid, child_mark=mark
            )
        )
        assert child.wait(20) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


@requirement("R-65")
async def test_a_supervisor_killed_before_its_order_makes_no_claim_about_the_start(tmp_path: Path) -> None:
    descriptors = [os.open(tmp_path, os.O_RDONLY), *(os.open(os.devnull, os.O_RDWR) for _ in range(3))]
    cwd, stdin, stdout, stderr = descriptors
    tree = await processes.prepare(processes.Stdio(cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr))
    for descriptor in descriptors:
        os.close(descriptor)
    os.kill(tree.recorded.supervisor_pid, signal.SIGKILL)
    with pytest.raises(processes.StartUnproven):
        await tree.start(["touch", "file"], {})
    assert await tree.ended() is processes.End.SUPERVISOR_LOST
    assert list(os.scandir(tmp_path)) == []
