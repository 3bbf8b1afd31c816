"""The process around one run: stdin, signals, the watchdog over the network, one answer and one status.

The status is 0 or 1 and never 2, which a host may read as an instruction (A-03).
"""

import _signal  # type: ignore[import-not-found]  # the C module that ``signal`` wraps
import _thread
import sys
import time

from adapter_kit import limits, refusal

if sys.platform == "win32":
    import nt as system
    from nt import _exit  # type: ignore[attr-defined]  # it is there, its stub is not
else:
    import posix as system
    from posix import _exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import NoReturn

_STDIN = 0
_STDOUT = 1
_STDERR = 2
_NULL = "nul" if sys.platform == "win32" else "/dev/null"
_PRIVATE_UMASK = 0o077
_ENDING_SIGNALS = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGBREAK",
    "SIGALRM",
    "SIGVTALRM",
    "SIGPROF",
    "SIGUSR1",
    "SIGUSR2",
    "SIGXCPU",
    "SIGPOLL",
    "SIGPWR",
    "SIGSTKFLT",
)
_leave: "Callable[[int], NoReturn]" = _exit
_last_word = _thread.allocate_lock()
_ending: list[bool] = []
_said: list[bool] = []


class Interrupted(BaseException):
    """A signal asks the run to end; it ends visibly, with status 1."""


def prepare() -> None:
    """Signals that would end the process end the run instead, and new files are private."""
    for name in _ENDING_SIGNALS:
        number = getattr(_signal, name, None)
        if number is not None and _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _interrupt)
    system.umask(_PRIVATE_UMASK)
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        if not _is_open(descriptor):  # its number must not be given to a private file
            system.open(_NULL, system.O_RDWR)


def _is_open(descriptor: int) -> bool:
    try:
        system.fstat(descriptor)
    except OSError:
        return False
    return True


def _interrupt(number: int, frame: "FrameType | None") -> None:
    del number, frame
    if not _ending:  # once the run is ending, another signal adds nothing
        _ending.append(True)
        raise Interrupted


def say(out: bytes) -> None:
    """What goes to stdout is written, and no other word of this run follows it; no watchdog is armed.

    Raises:
        OSError: if it is not.
    """
    _said.append(True)
    if not _written(_STDOUT, out):
        raise OSError("stdout takes nothing")


def end(status: int, *, out: bytes = b"", err: bytes = b"") -> "NoReturn":
    """The process has ended; of several callers the first is heard, and none after ``say``.

    The interpreter's own tear-down is skipped: nothing is buffered, and it would cost as much as the run.
    """
    _ending.append(True)
    _last_word.acquire()
    if not _said and (not _written(_STDOUT, out) or not _written(_STDERR, err)):
        status = 1
    _leave(status)


def _written(descriptor: int, text: bytes) -> bool:
    try:
        while text:
            text = text[system.write(descriptor, text) :]
    except OSError:
        return False
    return True


def drained(seconds: float = limits.STDIN_SECONDS) -> bytes:
    """All of stdin, or its first ``STDIN_KEPT_BYTES`` if there is more; the rest is read and dropped (A-04).

    Raises:
        Refused: ``invalid_hook_payload`` if stdin has not ended in ``seconds``.
    """
    try:
        return _read_within(seconds)
    except (OSError, _TooLate):
        raise refusal.Refused("invalid_hook_payload") from None


def drop() -> None:
    """What a host may be writing is read and dropped, so that its write does not break; a terminal is not."""
    if system.isatty(_STDIN):
        return
    try:
        drained()
    except refusal.Refused:
        return


class _TooLate(BaseException):
    """Stdin has not ended in time."""


if sys.platform == "win32":

    def _read_within(seconds: float) -> bytes:
        """All of stdin; a thread reads, since no pipe can be read with a time-out here."""
        found: list[bytes] = []
        ended = _thread.allocate_lock()
        ended.acquire()

        def read() -> None:
            try:
                found.append(_read_all())
            except OSError:  # stdin is closed: there is no document
                return
            finally:
                ended.release()

        _thread.start_new_thread(read, ())
        if not ended.acquire(timeout=seconds) or not found:
            raise _TooLate
        return found[0]

else:

    def _read_within(seconds: float) -> bytes:
        """All of stdin; a timer's signal ends a read that blocks, for less than a thread would cost."""
        before = _signal.signal(_signal.SIGALRM, _expire)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
        _signal.setitimer(_signal.ITIMER_REAL, seconds)
        try:
            return _read_all()
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
            _signal.signal(_signal.SIGALRM, before)


def _expire(number: int, frame: "FrameType | None") -> None:
    del number, frame
    raise _TooLate


def _read_all() -> bytes:
    kept = b""
    while True:
        try:
            part = system.read(_STDIN, limits.RECEIVE_BYTES)
        except BlockingIOError:  # a host may hand over a pipe that does not block
            time.sleep(limits.LOCK_POLL_SECONDS)
            continue
        if not part:
            return kept
        kept += part[: limits.STDIN_KEPT_BYTES - len(kept)]


class Watchdog:
    """While its ``with`` block runs, ``expired`` is called in another thread once ``seconds`` are over.

    It bounds what no socket time-out bounds: name resolution and a TLS handshake (A-20). ``expired`` must
    end the process; the block then never continues.
    """

    def __init__(self, seconds: float, expired: "Callable[[], NoReturn]") -> None:
        self._seconds = seconds
        self._expired = expired
        self._left = _thread.allocate_lock()
        self._turn = _thread.allocate_lock()
        self._is_armed = True

    def __enter__(self) -> None:
        self._left.acquire()
        _thread.start_new_thread(self._watch, ())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        with self._turn:
            self._is_armed = False
        self._left.release()

    def _watch(self) -> None:
        if self._left.acquire(timeout=self._seconds):
            return
        with self._turn:
            if self._is_armed:
                try:
                    self._expired()
                finally:  # whatever happened, the run does not outlive its deadline
                    _leave(1)
