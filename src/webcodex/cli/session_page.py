"""Lays out Workflow Sessions and the record of one for a terminal; must never add to what was answered."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from webcodex.cli import printed

_HEADS: Final = ("REF", "SESSION", "STATE", "CHANGED", "TITLE")
_TITLE_CHARS: Final = 60
_OPEN: Final = {
    "open_guidance": "guidance",
    "open_risks": "risks",
    "open_questions": "questions",
    "open_todos": "todos",
}


def listed(projects: Sequence[dict[str, Any]]) -> str:
    """Returns the Sessions of each Project, an answer of ``list_sessions`` each, under the Project's name."""
    parts = []
    for project in projects:
        rows = [_row(session) for session in project["sessions"]]
        body = printed.table(_HEADS, rows) if rows else "No Workflow Session yet."
        parts.append(f"{click.style(project['project'], bold=True)}\n{body}")
    return "\n\n".join(parts) or "No project is registered."


def shown(summary: dict[str, Any]) -> str:
    """Returns the record of one Session, an answer of ``read_session_summary``."""
    return "\n".join(_summary(summary))


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    title = printed.one_line(session["title"])
    cut = len(title) > _TITLE_CHARS or session["title_truncated"]
    return (
        session["session_ref"],
        session["session_id"],
        session["lifecycle"],
        printed.moment(session["updated_at"]),
        f"{title[:_TITLE_CHARS]}..." if cut else title,
    )


def _summary(summary: dict[str, Any]) -> Iterator[str]:
    yield click.style(printed.one_line(summary["title"]), bold=True)
    yield f"{summary['session_id']} ({summary['session_ref']}) in {summary['project'] or 'no Project'}"
    yield f"{summary['lifecycle']}, mode {summary['mode']}, begun {printed.moment(summary['created_at'])}"
    yield ""
    messages = summary["messages"]
    still_open = [f"{messages[key]} {word}" for key, word in _OPEN.items() if messages[key]]
    yield f"Messages  {messages['retained']} kept; open: {', '.join(still_open) or 'none'}"
    yield f"Events    {summary['events_total']} in all, {summary['events_evicted']} no longer kept"
    yield ""
    rows = [
        (str(event["sequence"]), printed.moment(event["at"]), event["kind"], _told(event))
        for event in summary["events"]
    ]
    yield printed.table(("#", "AT", "EVENT", "WHAT"), rows) if rows else "Nothing is recorded yet."
    if summary["events_truncated"]:
        yield f"Only the newest {summary['events_returned']} are shown; --limit shows more."


def _told(event: dict[str, Any]) -> str:
    """Returns what one event says, in the ledger's own words."""
    words = [event.get("tool_name"), event.get("status"), event.get("error_kind")]
    if "exit_code" in event:
        words.append(f"exit {event['exit_code']}")
    words += [event.get("execution_state"), event.get("job_id"), event.get("run_id")]
    if "validation" in event:
        words.append(f"validation {event['validation'].get('verdict')}")
    if "instruction" in event:
        words.append(event["instruction"].get("text"))
    words += event.get("changed_paths", [])
    return " ".join(str(word) for word in words if word is not None)
