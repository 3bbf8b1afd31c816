"""Lays out a handoff for a terminal: the same facts as the brief, none added and none left out silently."""

from collections.abc import Iterator
from typing import Any, Final

import click

from webcodex.cli import printed

_COMMIT_CHARS: Final = 12
_REFERENCE_CHARS: Final = 40
_ATTENTION: Final = {
    "blocking_jobs": "blocking jobs",
    "recovering_jobs": "recovering jobs",
    "active_jobs": "active jobs",
    "terminal_pending_jobs": "ended jobs nobody looked at",
    "open_risks": "open risks",
    "open_questions": "open questions",
    "open_todos": "open todos",
    "open_guidance": "open guidance",
}


def text(output: dict[str, Any]) -> str:
    """Returns the page of an answer of ``read_session_handoff``."""
    brief = output["handoff_brief"]
    lines = [
        *_head(output, brief),
        "",
        *_state(brief),
        *_lists(brief),
        *_reports(brief["external_observations"]),
        *_goal(output.get("goal_context")),
        *_acceptance(output.get("acceptance")),
        "",
        click.style("Next", bold=True),
        *(f"  {number}. {action}" for number, action in enumerate(brief["next_actions"], start=1)),
    ]
    if not brief["basis"]["complete"]:
        lines += ["", f"This is incomplete: {', '.join(brief['basis']['reason_codes'])}"]
    return "\n".join(lines)


def _head(output: dict[str, Any], brief: dict[str, Any]) -> Iterator[str]:
    root, latest = brief["task"]["root_instruction"], brief["task"]["latest_instruction"]
    yield click.style(_excerpt(root), bold=True)
    if latest["excerpt"] not in (None, root["excerpt"]):
        yield f"Latest: {_excerpt(latest)}"
    session = brief["session"]
    yield (
        f"{session['session_id']} ({output['session_ref']}) in {output['project'] or 'no Project'}, "
        f"{session['lifecycle']}"
    )


def _state(brief: dict[str, Any]) -> Iterator[str]:
    yield f"State       {brief['progress']['state']}"
    yield f"Workspace   {_workspace(brief['workspace'])}"
    yield f"Validation  {brief['validation']['status']}"
    attention = brief["attention"]
    unknown = [words for key, words in _ATTENTION.items() if attention[key] is None]
    counted = [f"{attention[key]} {words}" for key, words in _ATTENTION.items() if attention[key]]
    yield f"Attention   {', '.join(counted) or 'nothing known to be open'}"
    if unknown:
        yield f"            not known: {', '.join(unknown)}"


def _workspace(workspace: dict[str, Any]) -> str:
    if workspace["head"] is None and workspace["branch"] is None:
        return workspace["reason_code"] or str(workspace["status"])
    words = [workspace["branch"] or "no branch", "at", (workspace["head"] or "no commit")[:_COMMIT_CHARS]]
    for key, word in (("dirty", "dirty"), ("conflicted", "conflicted")):
        if workspace[key]:
            words.append(f"({word})")
    return printed.one_line(" ".join(words))


def _lists(brief: dict[str, Any]) -> Iterator[str]:
    task, progress = brief["task"], brief["progress"]
    yield from _list("Decisions", task["decisions"])
    yield from _list("Progress", task["recent_progress"])
    yield from _list("Changed", progress["changes"])
    yield from _list("Read or changed last", progress["recent_files"])
    yield from _list("Open failures", brief["validation"]["open_failures"])


def _list(title: str, found: dict[str, Any]) -> Iterator[str]:
    if found["total"] is None:
        yield from ("", f"{title}: not known")
    elif found["items"] or found["truncated"]:
        cut = f" ({found['returned']} of {found['total']})" if found["truncated"] else ""
        yield from ("", f"{title}{cut}")
        for item in found["items"]:
            yield f"  - {printed.one_line(item) if isinstance(item, str) else _message(item)}"


def _message(item: dict[str, Any]) -> str:
    marks = [word for word, holds in (("superseded", item["superseded"]), (item["status"], True)) if holds]
    return f"{_excerpt(item)} ({printed.moment(item['created_at'])}, {', '.join(marks)})"


def _reports(block: dict[str, Any]) -> Iterator[str]:
    if block["status"] != "available":
        yield from ("", f"External reports: not known ({block['reason_code']})")
    elif block["total"]:
        claims = f"{block['total']} claims, {block['unknown_count']} without a known outcome"
        yield from ("", f"External reports: {claims}; they prove nothing and are never complete")
        for report in block["observations"]:
            yield printed.one_line(
                f"  - {report['tool']} {report['status']} ({printed.moment(report['recorded_at'])})"
            )


def _goal(context: dict[str, Any] | None) -> Iterator[str]:
    if context is None:
        return
    if context["goal"] is None:
        yield from ("", f"Goal: {context['status']} ({context['reason_code']})")
    goal = context["goal"]
    for candidate in context["candidates"] if goal is None else [goal]:
        yield printed.one_line(f"Goal: {candidate['title']} ({candidate['goal_id']})")
    for step in [] if goal is None else goal["plan"]["steps"]["items"]:
        yield printed.one_line(f"  - {step['status']}: {step['title']}")


def _acceptance(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    codes = f": {', '.join(found['reason_codes'])}" if found["reason_codes"] else ""
    yield from ("", f"Acceptance (advisory, never a verdict): {found['state']}{codes}")
    for item in found["evidence"]["items"]:
        yield printed.one_line(f"  - {item['kind']} {_short(item['ref'])} {item['status']}")
    if found["evidence"]["truncated"]:
        yield f"  - {found['evidence']['total']} in all"


def _short(reference: str) -> str:
    """Returns a reference by which a person recognises it; --json has the whole."""
    return reference if len(reference) <= _REFERENCE_CHARS else f"{reference[:_REFERENCE_CHARS]}..."


def _excerpt(found: dict[str, Any]) -> str:
    shown = printed.one_line(found["excerpt"] or "-")
    return f"{shown} [...]" if found["truncated"] else shown
