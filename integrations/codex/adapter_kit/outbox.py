"""The outbox: reports are saved durably, then sent, each at most once per run (A-30 to A-32).

Intend, act, settle: the file is the intent, the request the act, and only an exact acknowledgement removes
the file. None is ever evicted.
"""

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, private_files, process, refusal, reports, server_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Refusals = dict[str, tuple[str, reports.Event]]

REJECTED = "rejected"
SAVE_LOCK = ".save"
SEND_LOCK = ".lock"
REFUSED = ".refused"

_PATH = "/api/tools/call"
_TOOL = "record_external_observation"
_SUCCESS = range(200, 300)
_TOOL_FAILURE = 400
_SKIP_REASONS = {
    "private_regular_file_required": "invalid_pending_file",
    "input_too_large": "oversized_pending_file",
}


class Outbox:
    """The private directory where reports wait, under one configuration."""

    __slots__ = ("association", "config", "folder")

    def __init__(self, config: configuration.Config) -> None:
        """Opens the directory.

        Raises:
            Refused: ``private_state_directory_required`` unless it exists and is private (A-11).
        """
        self.config = config
        self.folder = private_files.Folder(config.state_dir)
        self.association = reports.association(config)

    def names(self) -> list[str]:
        """The names of all files that are reports by their name, in order."""
        return reports_in(self.folder)

    def name_of(self, event: "reports.Event") -> str:
        """The name of the file for this report."""
        return reports.file_name(self.association, str(event["event_id"]))

    def load(self, name: str) -> "reports.Event":
        """The report in the file ``name``, its checks passed (A-31).

        Raises:
            FileNotFoundError: if it is gone.
            Refused: with the reason for which the file is skipped.
        """
        try:
            data = self.folder.read(name)
        except refusal.Refused as refused:
            raise refusal.Refused(_SKIP_REASONS[refused.reason]) from None
        return reports.checked(data, name, self.config)

    def census(self, names: list[str]) -> tuple[int, int, int | None]:
        """How many files pass their own checks, how many do not, and when the oldest that does came."""
        pending, skipped = [], 0
        for name in names:
            try:
                self.load(name)
                written_at = self.folder.modified_at(name)
            except refusal.Refused:
                skipped += 1
                continue
            except FileNotFoundError:
                continue
            if written_at is not None:
                pending.append(written_at)
        return len(pending), skipped, min(pending, default=None)

    def is_kept_in(self, rejected: private_files.Folder, name: str, event: "reports.Event") -> bool:
        """Whether this very report was set aside before, so that its move only has to be finished (A-32)."""
        try:
            kept = json_text.decode(rejected.read(name))
        except (OSError, ValueError, refusal.Refused):
            return False
        return (
            isinstance(kept, dict)
            and kept.get("association") == self.association
            and kept.get("event") == event
        )

    def set_aside(self) -> private_files.Folder | None:
        """The directory of reports set aside, or None if there never was one.

        Raises:
            Refused: ``private_state_directory_required`` if the name is taken by something else.
        """
        return self.folder.subfolder(REJECTED)

    def note_refused(self, count: int) -> None:
        """What the operator can see of the last flush: how many reports the Server refused in it.

        The caller holds ``.lock``. It is advice only: where it cannot be stored, the flush has said it.
        """
        if not count and not self.folder.has(REFUSED):
            return
        try:
            self.folder.remove_staged(self.folder.names(), ".recovery-")
            self.folder.replace(REFUSED, b"%d\n" % count)
        except OSError:
            pass

    def save(self, event: "reports.Event") -> None:
        """The report is durable in the outbox, and the lock file says that a hook was here (A-30).

        Raises:
            Refused: if it is not saved, or was set aside before.
            OSError: if it is not certain that it is saved.
        """
        with private_files.FileLock(self.folder, SAVE_LOCK) as lock:
            lock.mark()
            if not lock.take(limits.SAVE_WAIT_SECONDS):
                raise refusal.Refused("adapter_busy_event_not_saved")
            self._save(self.name_of(event), event)

    def _save(self, name: str, event: "reports.Event") -> None:
        found = self.folder.names()
        self.folder.remove_staged(found)
        rejected = self.set_aside()
        if rejected is not None:
            rejected.remove_staged(rejected.names())
        is_waiting = self._is_waiting(name, event)
        if rejected is not None and rejected.has(name):
            raise refusal.Refused("event_already_rejected")
        if is_waiting:
            self.folder.sync()  # the run that made it may have died before its name was durable
        elif sum(map(reports.is_file_name, found)) >= limits.PENDING_FILES:
            raise refusal.Refused("pending_capacity_event_not_saved")
        else:
            self.folder.create(name, reports.stored(self.association, event))

    def _is_waiting(self, name: str, event: "reports.Event") -> bool:
        """Whether this very report waits already; one that another run has just delivered does not."""
        try:
            found = self.load(name)
        except FileNotFoundError:
            return False
        except refusal.Refused:
            raise refusal.Refused("pending_event_conflict") from None
        if found != event:
            raise refusal.Refused("pending_event_conflict")
        return True


def reports_in(folder: private_files.Folder) -> list[str]:
    """The names of all files in the folder that are reports by their name, in order (A-30)."""
    return [name for name in folder.names() if reports.is_file_name(name)]


class Tally:
    """Counts of one run, and the reasons met, of which the first in the order of A-34 is named."""

    __slots__ = ("acknowledged", "is_late", "met", "pending", "refused", "rejected", "skipped", "stopped")

    def __init__(self) -> None:
        self.acknowledged = 0
        self.pending = 0
        self.refused = 0
        self.rejected = 0
        self.skipped = 0
        self.stopped: str | None = None
        self.met: str | None = None
        self.is_late = False

    def stop(self, reason: str) -> None:
        """The run or its save ended for this reason; the first one stays."""
        self.stopped = self.stopped or reason

    def meet(self, reason: str) -> None:
        """The drain met this reason and went on; the first one stays."""
        self.met = self.met or reason

    def is_complete(self) -> bool:
        """Whether nothing stopped the run and nothing is left behind in the outbox."""
        return self.stopped is None and self.pending == 0 and self.skipped == 0

    def reason(self) -> str:
        """The word for an incomplete run."""
        if self.stopped or self.met:
            return self.stopped or self.met or ""
        if self.refused:
            return "recording_refused"
        if self.rejected:
            return "recording_rejected"
        return "pending_delivery_deadline" if self.is_late else "recording_unconfirmed_check_pending_state"

    def recorded(self) -> bytes:
        """The line on stdout for a flush that left nothing behind."""
        return json_text.line({"status": "recorded", "acknowledged": self.acknowledged})

    def incomplete(self) -> bytes:
        """The line on stderr for an incomplete run."""
        return json_text.line(
            {
                "status": "incomplete",
                "reason": self.reason(),
                "acknowledged": self.acknowledged,
                "pending": self.pending,
                "refused": self.refused,
                "rejected": self.rejected,
                "skipped": self.skipped,
            }
        )


class Drain:
    """One pass over the outbox; ``refusals`` are the reports refused for good, with the Server's word.

    ``left`` is what was in the outbox when it was last looked at and has not been delivered since; None if
    the drain stopped before it had seen everything.
    """

    def __init__(
        self,
        box: Outbox,
        counts: Tally,
        deadline: server_client.Deadline,
        expired: "Callable[[], NoReturn]",
    ) -> None:
        self._box = box
        self._counts = counts
        self._deadline = deadline
        self._expired = expired
        self._rejected = box.set_aside()
        self._authorization = ""
        self._tried: set[str] = set()
        self._gone: set[str] = set()
        self.refusals: Refusals = {}
        self.left: list[str] | None = None

    def deliver_own(self, name: str, event: "reports.Event") -> bool:
        """Whether the drain may go on, now that the report this run has just saved was tried.

        One that is gone was delivered by another run, or set aside (A-30).

        Raises:
            Refused: if the authorization file cannot be used.
        """
        if self._rejected is not None and self._rejected.has(name):
            self._counts.stop("event_already_rejected")
            return True
        if not self._box.folder.has(name):
            return True
        self._tried.add(name)
        return self._send(name, event, self._deadline)

    def deliver_others(self, most: int, seconds: float) -> None:
        """Every other report was tried in name order, within ``most`` requests and ``seconds``.

        What came while the drain ran is looked for once more, within the same limits.

        Raises:
            Refused: if the authorization file cannot be used.
        """
        within = self._deadline.within(seconds)
        names: list[str] = []
        for _ in range(2):
            names = self._box.names()
            for name in names:
                event = None if name in self._tried else self._sendable(name)
                if event is None:
                    continue
                if most == 0 or within.remaining() == 0:
                    self._counts.is_late = True
                    return
                most -= 1
                if not self._send(name, event, within):
                    return
        self.left = [name for name in names if name not in self._gone]

    def _sendable(self, name: str) -> "reports.Event | None":
        """The report to send, or None if the file is gone, is skipped, or was set aside before (A-32)."""
        self._tried.add(name)
        try:
            event = self._box.load(name)
        except FileNotFoundError:
            return None
        except refusal.Refused as refused:
            self._counts.meet(refused.reason)
            return None
        if self._rejected is not None and self._box.is_kept_in(self._rejected, name, event):
            self._remove(name)
            self._counts.rejected += 1
            return None
        return event

    def _send(self, name: str, event: "reports.Event", deadline: server_client.Deadline) -> bool:
        """Whether the drain may go on, now that this report was sent once and the answer settled."""
        try:
            status, answer = self._asked(event, deadline.within(limits.SEND_SECONDS))
        except server_client.DeadlinePassed:
            self._counts.is_late = True
            return False
        except server_client.TransportFailure:
            return False
        except server_client.Oversized as oversized:
            if oversized.status in _SUCCESS:
                self._counts.meet("oversized_response")
            return oversized.status in _SUCCESS or oversized.status == _TOOL_FAILURE
        if status in _SUCCESS:
            self._settle(name, event, answer)
            return True
        if status == _TOOL_FAILURE:
            kind = reports.refusal_kind(answer)
            if kind is not None:
                self.refusals[name] = (kind, event)
                self._counts.refused += 1
        return status == _TOOL_FAILURE

    def _asked(self, event: "reports.Event", deadline: server_client.Deadline) -> tuple[int, bytes]:
        if not self._authorization:
            self._authorization = server_client.read_authorization(self._box.config.authorization_file)
        body = json_text.encode({"tool": _TOOL, "params": event})
        seconds = deadline.remaining()
        # The sockets end first, so that the watchdog ends only what they cannot.
        within = deadline.within(seconds - limits.WATCHDOG_MARGIN_SECONDS)
        with process.Watchdog(seconds, self._expired):
            return server_client.post(self._box.config.server_url, _PATH, self._authorization, body, within)

    def _settle(self, name: str, event: "reports.Event", answer: bytes) -> None:
        try:
            reports.require_acknowledged(answer, event)
        except refusal.Refused as refused:
            self._counts.meet(refused.reason)
            return
        self._remove(name)
        self._counts.acknowledged += 1

    def _remove(self, name: str) -> None:
        self._box.folder.remove(name)
        self._gone.add(name)
