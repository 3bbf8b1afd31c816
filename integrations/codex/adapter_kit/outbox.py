"""The outbox: reports saved durably before anything is sent, none ever evicted (A-30)."""

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, private_files, refusal, reports

REJECTED = "rejected"
SAVE_LOCK = ".save"
SEND_LOCK = ".lock"

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
