"""One Job that this Runner knows: its record, and what of it the Server has yet to hear (R-47, R-64)."""

from time import monotonic
from typing import Any

from webcodex.protocol import messages
from webcodex.runner import job_record, job_store, running_job, streams

STREAM = "job"


class HeldJob:
    """A Job and its stream of snapshots, of which only the newest is kept."""

    def __init__(self, entry: job_store.Entry) -> None:
        self.entry = entry
        self.running: running_job.RunningJob | None = None
        self.acknowledged_at: float | None = None
        """When the Server took note of the end, on the monotonic clock."""

    @property
    def record(self) -> job_record.Record:
        """The newest snapshot that may be shown."""
        return self.entry.job

    @property
    def name(self) -> streams.Name:
        """The name of the Job's stream."""
        return (STREAM, self.record.job_id)

    def after(self, cursor: streams.Cursor) -> tuple[messages.StreamEvent, streams.Cursor] | None:
        """Returns the newest snapshot unless the cursor has it."""
        record = self.record
        if record.update_seq <= cursor.revision:
            return None
        event = messages.StreamEvent(
            stream=STREAM,
            id=record.job_id,
            sequence=None,
            first_retained_sequence=None,
            body=None,
            snapshot=job_record.wire(record),
        )
        return event, streams.Cursor(revision=record.update_seq)

    def resumed(self, cursor: streams.Cursor) -> streams.Cursor:
        """Returns the Server's cursor; an end it has not acknowledged is sent whatever it says it has."""
        is_open_end = self.record.is_terminal and self.acknowledged_at is None
        return streams.START if is_open_end else cursor

    def acknowledge(self, cursor: streams.Cursor) -> None:
        """Takes note that the Server has the Job so far."""
        is_end = self.record.is_terminal and cursor.revision >= self.record.update_seq
        if is_end and self.acknowledged_at is None:
            self.acknowledged_at = monotonic()

    def answer(self) -> dict[str, Any]:
        """Returns the newest snapshot and the end of each stream; null where an earlier process read it."""
        stdout_tail, stderr_tail = (None, None) if self.running is None else self.running.tails()
        return {
            "job": job_record.wire(self.record),
            "stdout_tail": stdout_tail,
            "stderr_tail": stderr_tail,
        }
