"""Says in one row where a Session's work stands and what it is doing (M-46), without its paths or reports.

The standing is the brief's own: the same tables decide it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from webcodex.core import handoff, handoff_actions, handoff_facts, handoff_text, ledger, limits, redaction
from webcodex.core.json_value import Json, JsonObject

RUNNING: Final = "running"


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """What a Session is doing: the newest call that runs, and the newest that ended."""

    current: JsonObject | None
    last: JsonObject | None


def overview(facts: handoff_facts.HandoffFacts) -> JsonObject:
    """Returns the overview of a row; a count that cannot be read is null, as in the brief (H-11)."""
    # Neither recent files nor changes move a state (H-09).
    standing = handoff_actions.standing(facts, has_recent_files=False, has_changes=False)
    messages = handoff_actions.message_counts(facts)
    shown: JsonObject = {
        "work": handoff_actions.state(standing).value,
        "validation": standing.validation.value,
        "attention": {
            "open_guidance": None if messages is None else messages.guidance,
            "open_risks": None if messages is None else messages.risks,
            "open_questions": None if messages is None else messages.questions,
            "open_todos": None if messages is None else messages.todos,
        },
    }
    progress = _newest_progress(facts)
    return shown if progress is None else shown | {"reported_progress": progress}


def activity(newest_first: Iterable[JsonObject], now: int) -> Activity:
    """Returns the activity in a Session's events, taking no more of them than settle it.

    A call runs while its started event has no end and is younger than the longest dispatch (M-46, M-28).
    """
    ended: set[Json] = set()
    current = last = None
    for event in newest_first:
        at = event["at"]
        is_young = isinstance(at, int) and now - at < limits.DISPATCH_S
        if event["kind"] == ledger.Kind.CALL_FINISHED:
            ended.add(event.get("call_id"))
            last = last or _shown(event, event.get("status"))
        elif event["kind"] == ledger.Kind.CALL_STARTED and is_young and event.get("call_id") not in ended:
            current = current or _shown(event, RUNNING)
        if last is not None and (current is not None or not is_young):
            break
    return Activity(current=current, last=last)


def _shown(event: JsonObject, status: Json) -> JsonObject:
    return {"tool_name": event.get("tool_name"), "status": status, "at": event["at"]}


def _newest_progress(facts: handoff_facts.HandoffFacts) -> str | None:
    if facts.messages is handoff_facts.Missing.MESSAGES:
        return None
    kind = handoff_facts.MessageKind.PROGRESS
    newest = next((message for message in reversed(facts.messages) if message.kind is kind), None)
    if newest is None:
        return None
    return handoff_text.excerpt(
        newest.text, rule=redaction.message, chars=handoff.MESSAGE_CHARS, was_redacted=newest.redacted
    ).text
