"""Makes the handoff brief: a closed, bounded, deterministic summary of a Session (40.1 to 40.8).

A pure function of gathered facts. The brief is saved context; it grants and completes nothing (H-03).
"""

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Final

from webcodex.core import (
    handoff_actions,
    handoff_facts,
    handoff_reports,
    handoff_size,
    handoff_text,
    redaction,
)
from webcodex.core.json_value import JsonObject

VERSION: Final = 1
INSTRUCTION_CHARS: Final = 600  # H-05
INSTRUCTION_BYTES: Final = 1800  # H-05
MESSAGE_CHARS: Final = 240  # H-06
MESSAGES: Final = 5  # H-06
CHANGES: Final = 12  # H-08
RECENT_FILES: Final = 8  # H-08
OPEN_FAILURES: Final = 5  # H-10
OPEN_FAILURE_CHARS: Final = 240  # H-10

_FAILURE: Final = re.compile(r"[A-Za-z0-9_:<>.-]+", re.ASCII)
_WITH_OPEN_FAILURES: Final = frozenset(
    {
        handoff_actions.Validation.PASSED,
        handoff_actions.Validation.FAILED,
        handoff_actions.Validation.INCONCLUSIVE,
    }
)
_VALIDATION_REASONS: Final = {
    handoff_actions.Validation.NOT_REQUESTED: "validation_not_requested",
    handoff_actions.Validation.UNAVAILABLE: "validation_unavailable",
    handoff_actions.Validation.INCONCLUSIVE: "validation_inconclusive",
}

Sections = dict[str, JsonObject]


def brief(facts: handoff_facts.HandoffFacts) -> JsonObject:
    """Returns the brief of the facts, below 8,192 bytes; the same facts give the same bytes (H-01, H-41)."""
    changes, recent_files = _changes(facts.ledger), _recent_files(facts.ledger)
    standing = handoff_actions.standing(
        facts, has_recent_files=recent_files.total > 0, has_changes=changes.total > 0
    )
    actions = handoff_actions.next_actions(standing)
    part = handoff_size.Part
    parts: handoff_size.Parts = {
        part.RECENT_FILES: recent_files,
        part.CHANGES: changes,
        part.OPEN_FAILURES: _open_failures(facts, standing.validation),
        part.RECENT_PROGRESS: _messages(facts, handoff_facts.MessageKind.PROGRESS),
        part.DECISIONS: _messages(facts, handoff_facts.MessageKind.DECISION),
        part.NEXT_ACTIONS: handoff_size.first(actions, handoff_actions.ACTIONS),
    }
    return handoff_size.fitted(parts, functools.partial(_rendered, _sections(facts, standing)))


def _sections(facts: handoff_facts.HandoffFacts, standing: handoff_actions.Standing) -> Sections:
    """Returns what no shortening touches."""
    session = facts.session
    codes = handoff_actions.basis_codes(facts)
    return {
        "session": {
            "session_id": session.session_id,
            "lifecycle": session.lifecycle.value,
            "mode": session.mode.value,
        },
        "task": {
            "root_instruction": _instruction(session.title, was_redacted=session.title_redacted),
            "latest_instruction": _instruction(
                session.latest_instruction, was_redacted=session.latest_instruction_redacted
            ),
        },
        "workspace": _workspace(facts.workspace),
        "progress": {
            "state": handoff_actions.state(standing).value,
            "meaningful_tool_calls": session.meaningful_tool_calls,
        },
        "validation": {
            "status": standing.validation.value,
            "reason_code": _VALIDATION_REASONS.get(standing.validation),
        },
        "external_observations": handoff_reports.block(facts.reports),
        "attention": _attention(facts),
        "basis": {"complete": not codes, "reason_codes": list(codes)},
    }


def _rendered(sections: Sections, parts: handoff_size.Parts) -> JsonObject:
    lists = {part: shown.block() for part, shown in parts.items()}
    part = handoff_size.Part
    return {
        "version": VERSION,
        "session": sections["session"],
        "task": sections["task"]
        | {"decisions": lists[part.DECISIONS], "recent_progress": lists[part.RECENT_PROGRESS]},
        "workspace": sections["workspace"],
        "progress": sections["progress"]
        | {"changes": lists[part.CHANGES], "recent_files": lists[part.RECENT_FILES]},
        "validation": sections["validation"] | {"open_failures": lists[part.OPEN_FAILURES]},
        "external_observations": sections["external_observations"],
        "attention": sections["attention"],
        "next_actions": list(parts[part.NEXT_ACTIONS].items),
        "basis": sections["basis"],
        "deterministic": True,
        "llm_summary": False,
    }


def _instruction(text: str | None, *, was_redacted: bool) -> JsonObject:
    if text is None:
        return {"excerpt": None, "truncated": False}
    excerpt = handoff_text.excerpt(
        text,
        rule=redaction.instruction,
        chars=INSTRUCTION_CHARS,
        size_bytes=INSTRUCTION_BYTES,
        was_redacted=was_redacted,
    )
    return {"excerpt": excerpt.text, "truncated": excerpt.truncated}


def _messages(
    facts: handoff_facts.HandoffFacts, kind: handoff_facts.MessageKind
) -> handoff_size.Shown | handoff_size.Unread:
    if facts.messages is handoff_facts.Missing.MESSAGES:
        return handoff_size.Unread()
    of_kind = [message for message in reversed(facts.messages) if message.kind is kind]
    shown = tuple(_message(message) for message in of_kind[:MESSAGES])
    return handoff_size.first(shown, MESSAGES, total=len(of_kind))


def _message(message: handoff_facts.Message) -> JsonObject:
    excerpt = handoff_text.excerpt(
        message.text, rule=redaction.message, chars=MESSAGE_CHARS, was_redacted=message.redacted
    )
    return {
        "message_id": message.message_id,
        "created_at": message.created_at,
        "status": message.status.value,
        "superseded": message.superseded,
        "excerpt": excerpt.text,
        "truncated": excerpt.truncated,
    }


def _workspace(workspace: handoff_facts.WorkspaceFacts) -> JsonObject:
    if isinstance(workspace, handoff_facts.Git):
        return {
            "status": "available",
            "reason_code": None,
            "branch": handoff_text.shown_branch(workspace.branch),
            "head": handoff_text.shown_head(workspace.head),
            "dirty": workspace.dirty,
            "conflicted": workspace.conflicted,
            "ahead": workspace.ahead,
            "behind": workspace.behind,
        }
    statuses = {
        handoff_facts.Workspace.NON_GIT: "available",
        handoff_facts.Missing.WORKSPACE: "unavailable",
        handoff_facts.Missing.WORKSPACE_NOT_REQUESTED: "not_requested",
    }
    unknown = dict.fromkeys(("branch", "head", "dirty", "conflicted", "ahead", "behind"))
    return {"status": statuses[workspace], "reason_code": workspace.value, **unknown}


def _changes(ledger: handoff_facts.LedgerFacts) -> handoff_size.Shown:
    if ledger is handoff_facts.Missing.LEDGER:
        return _UNREAD_PATHS
    paths = (path for event in reversed(ledger.events) for path in event.changed_paths)
    declared = (event.changed_total for event in ledger.events)
    return _paths(paths, max(declared, default=0), CHANGES, was_cut=ledger.events_evicted > 0)


def _recent_files(ledger: handoff_facts.LedgerFacts) -> handoff_size.Shown:
    if ledger is handoff_facts.Missing.LEDGER:
        return _UNREAD_PATHS
    paths = (
        path for event in reversed(ledger.events) for path in (*event.observed_paths, *event.changed_paths)
    )
    declared = (max(event.observed_total, event.changed_total) for event in ledger.events)
    return _paths(paths, max(declared, default=0), RECENT_FILES, was_cut=ledger.events_evicted > 0)


def _paths(paths: Iterable[str], declared: int, limit: int, *, was_cut: bool) -> handoff_size.Shown:
    """Returns the newest paths; a filtered one is counted, never shown (H-08, S-24)."""
    seen = tuple(dict.fromkeys(paths))
    # Beyond the limit a path only counts, whether or not it may be shown.
    kept = tuple(itertools.islice(filter(handoff_text.is_shown_path, seen), limit))
    return handoff_size.first(kept, limit, total=max(declared, len(seen)), was_cut=was_cut)


def _open_failures(
    facts: handoff_facts.HandoffFacts, status: handoff_actions.Validation
) -> handoff_size.Shown:
    validation = facts.known_validation
    if not isinstance(validation, handoff_facts.Validation) or status not in _WITH_OPEN_FAILURES:
        return handoff_size.first((), OPEN_FAILURES)
    failed = [scope for scope in validation.scopes if scope.verdict is not handoff_facts.Verdict.PASSED]
    newest_first = sorted(failed, key=lambda scope: scope.ended_at, reverse=True)
    names = tuple(dict.fromkeys(f"{scope.kind.value}:{scope.identity}" for scope in newest_first))
    shown = tuple(name for name in names if _is_shown_failure(name))
    return handoff_size.first(shown, OPEN_FAILURES, total=len(names))


def _is_shown_failure(name: str) -> bool:
    return (
        len(name) <= OPEN_FAILURE_CHARS
        and _FAILURE.fullmatch(name) is not None
        and redaction.keeps_name(name)
    )


def _attention(facts: handoff_facts.HandoffFacts) -> JsonObject:
    git = facts.workspace if isinstance(facts.workspace, handoff_facts.Git) else None
    jobs = handoff_actions.job_counts(facts)
    messages = handoff_actions.message_counts(facts)
    return {
        "workspace_conflict": None if git is None else git.conflicted,
        "active_jobs": None if jobs is None else jobs.active,
        "blocking_jobs": None if jobs is None else jobs.blocking,
        "terminal_pending_jobs": None if jobs is None else jobs.terminal_pending,
        "recovering_jobs": None if jobs is None else jobs.recovering,
        "open_guidance": None if messages is None else messages.guidance,
        "open_risks": None if messages is None else messages.risks,
        "open_questions": None if messages is None else messages.questions,
        "open_todos": None if messages is None else messages.todos,
    }


# H-08 counts in whole numbers, so an unread ledger shows no path and says that some may be left out.
_UNREAD_PATHS: Final = handoff_size.Shown(items=(), total=0, truncated=True)
