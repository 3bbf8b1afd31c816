"""What one run has achieved and what it leaves behind, and the one line that says so (A-34)."""

from adapter_kit import json_text


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
