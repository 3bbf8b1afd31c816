"""Says what one event of a Session's ledger holds and how much of it is kept (30.3)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from webcodex.core import limits
from webcodex.core.json_value import Json, JsonObject


class Kind(StrEnum):
    """The kinds of event (S-10)."""

    TASK_INSTRUCTION = "task_instruction"
    CALL_STARTED = "tool_call_started"
    CALL_FINISHED = "tool_call_finished"
    SESSION_CLOSED = "session_closed"
    VALIDATION_JOB_TERMINAL = "validation_job_terminal"


class Outcome(StrEnum):
    """How a recorded call ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event before it has a place in its Session's order; ``at`` is Unix s.

    ``facts`` holds the optional keys of S-10 that apply, and no other.
    """

    event_id: str
    kind: Kind
    at: int
    facts: JsonObject = field(default_factory=dict)

    def shown(self, sequence: int) -> JsonObject:
        """Returns the public form of the event at its place in the order."""
        return {
            "event_id": self.event_id,
            "sequence": sequence,
            "kind": self.kind.value,
            "at": self.at,
            **self.facts,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """What a Session says of its own retention (S-13)."""

    events_total: int
    events_retained: int

    @property
    def first_retained_sequence(self) -> int | None:
        """Returns the sequence of the oldest kept event, or none when there is none."""
        return self.events_total - self.events_retained + 1 if self.events_retained else None

    def shown(self) -> JsonObject:
        """Returns the public form."""
        evicted = self.events_total - self.events_retained
        return {
            "events_total": self.events_total,
            "events_retained": self.events_retained,
            "events_evicted": evicted,
            "retention_truncated": evicted > 0,
            "ledger_first_retained_sequence": self.first_retained_sequence,
        }


def path_facts(name: str, paths: Iterable[str]) -> JsonObject:
    """Returns ``<name>_paths`` cut to S-12, with ``<name>_total`` and ``paths_truncated`` where it cut."""
    unique = list(dict.fromkeys(paths))
    kept = [path for path in unique if len(path.encode()) <= limits.EVENT_PATH_BYTES][: limits.EVENT_PATHS]
    if not unique:
        return {}
    facts: dict[str, Json] = {f"{name}_paths": list(kept)}
    if len(kept) < len(unique):
        facts |= {f"{name}_total": len(unique), "paths_truncated": True}
    return facts
