"""The sections of a brief as H-04 to H-08 describe them."""

from typing import Any

import pytest

from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff, handoff_facts, sessions

Kind = handoff_facts.MessageKind
Missing = handoff_facts.Missing
EMPTY_LIST = {"items": [], "total": 0, "returned": 0, "truncated": False}
UNREAD_LIST: dict[str, object] = {"items": [], "total": None, "returned": None, "truncated": None}

ONE_FILE = {"items": ["clamp.py"], "total": 1, "returned": 1, "truncated": False}
SMALL_BRIEF: dict[str, object] = {
    "version": 1,
    "session": {"session_id": made.SESSION_ID, "lifecycle": "active", "mode": "normal"},
    "task": {
        "root_instruction": {"excerpt": "Implement clamp", "truncated": False},
        "latest_instruction": {"excerpt": "Implement clamp", "truncated": False},
        "decisions": EMPTY_LIST,
        "recent_progress": {
            "items": [
                {
                    "message_id": "wc_msg_0000000000000003",
                    "created_at": made.NOW + 3,
                    "status": "open",
                    "superseded": False,
                    "excerpt": "lower bound done",
                    "truncated": False,
                }
            ],
            "total": 1,
            "returned": 1,
            "truncated": False,
        },
    },
    "workspace": {
        "status": "not_requested",
        "reason_code": "workspace_not_requested",
        **dict.fromkeys(("branch", "head", "dirty", "conflicted", "ahead", "behind")),
    },
    "progress": {
        "state": "insufficient_evidence",
        "meaningful_tool_calls": 4,
        "changes": ONE_FILE,
        "recent_files": ONE_FILE,
    },
    "validation": {"status": "passed", "open_failures": EMPTY_LIST, "reason_code": None},
    "external_observations": {
        "status": "available",
        "reason_code": None,
        "provenance": "external_report",
        "coverage": {
            "complete": False,
            "reason": "source_sequence_unavailable",
            "ordering": "server_recorded_at_then_identity",
        },
        "total": 0,
        "returned": 0,
        "truncated": False,
        "unknown_count": 0,
        "observations": [],
    },
    "attention": {
        "workspace_conflict": None,
        "active_jobs": 0,
        "blocking_jobs": 0,
        "terminal_pending_jobs": 0,
        "recovering_jobs": 0,
        "open_guidance": 0,
        "open_risks": 0,
        "open_questions": 0,
        "open_todos": 0,
    },
    "next_actions": [
        "Reread the recent files before editing.",
        "Review the recorded changes against the current workspace.",
    ],
    "basis": {"complete": False, "reason_codes": ["workspace_not_requested"]},
    "deterministic": True,
    "llm_summary": False,
}


def brief(**changed: object) -> dict[str, Any]:
    return dict(handoff.brief(made.facts(**changed)))


def ledger(*events: handoff_facts.PathEvent, evicted: int = 0) -> handoff_facts.Ledger:
    return handoff_facts.Ledger(events=events, events_evicted=evicted)


def changed_paths(*paths: str, total: int = 0) -> handoff_facts.PathEvent:
    return handoff_facts.PathEvent(write_like=True, changed_paths=paths, changed_total=total)


@requirement("H-01", "H-03", "H-04")
def test_whole_brief_of_a_small_history() -> None:
    facts = made.facts(
        ledger=ledger(handoff_facts.PathEvent(observed_paths=("clamp.py",)), changed_paths("clamp.py")),
        messages=(made.message(3, Kind.PROGRESS, text="lower bound done"),),
        workspace=Missing.WORKSPACE_NOT_REQUESTED,
    )
    assert handoff.brief(facts) == SMALL_BRIEF


@requirement("H-04")
def test_session_is_shown_as_it_stands() -> None:
    closed = made.session(lifecycle=sessions.Lifecycle.CLOSED, mode=sessions.Mode.READ_ONLY)
    assert brief(session=closed)["session"] == {
        "session_id": made.SESSION_ID,
        "lifecycle": "closed",
        "mode": "read_only",
    }


@requirement("H-05")
@pytest.mark.parametrize(
    ("text", "excerpt", "truncated"),
    [
        ("run /srv/bin/x 'a' && cat ../y\n\tnext", "run /srv/bin/x 'a' && cat ../y  next", False),
        ("a" * 600, "a" * 600, False),
        ("a" * 601, "a" * 600, True),
        ("漢" * 600, "漢" * 600, False),
        ("😀" * 451, "😀" * 450, True),
        ("a" + "😀" * 450, "a" + "😀" * 449, True),
        ("key sk-abcdEFGH01234567", "[redacted]", True),
        ("bearer\nabcdefgh01234567", "[redacted]", True),
        ("a\ud800b", "a b", False),
    ],
)
def test_instruction_is_one_bounded_line(text: str, excerpt: str, truncated: bool) -> None:
    task = brief(session=made.session(title=text, latest_instruction=text))["task"]
    expected = {"excerpt": excerpt, "truncated": truncated}
    assert (task["root_instruction"], task["latest_instruction"]) == (expected, expected)


@requirement("H-05", "S-20")
def test_instruction_redacted_before_it_was_kept_says_so() -> None:
    kept = made.session(
        title="[redacted]",
        title_redacted=True,
        latest_instruction="[redacted]",
        latest_instruction_redacted=True,
    )
    task = brief(session=kept)["task"]
    assert task["root_instruction"] == {"excerpt": "[redacted]", "truncated": True}
    assert task["latest_instruction"] == {"excerpt": "[redacted]", "truncated": True}


@requirement("H-05")
def test_session_without_an_instruction_shows_none() -> None:
    task = brief(session=made.session(latest_instruction=None))["task"]
    assert task["latest_instruction"] == {"excerpt": None, "truncated": False}


@requirement("H-06")
def test_newest_five_decisions_stand_first_and_all_are_counted() -> None:
    messages = tuple(
        made.message(number, kind, created_at=made.NOW - number)
        for number in range(7)
        for kind in (Kind.DECISION, Kind.NOTE)
    )
    decisions = brief(messages=messages)["task"]["decisions"]
    assert [item["message_id"][-1] for item in decisions["items"]] == ["6", "5", "4", "3", "2"]
    assert (decisions["total"], decisions["returned"], decisions["truncated"]) == (7, 5, True)
    assert brief(messages=messages)["task"]["recent_progress"] == EMPTY_LIST


@requirement("H-06", "S-23")
@pytest.mark.parametrize(
    ("text", "redacted", "excerpt", "truncated"),
    [
        ("a\nb", False, "a b", False),
        ("漢" * 240, False, "漢" * 240, False),
        ("漢" * 241, False, "漢" * 240, True),
        ("the token is abc", False, "[redacted]", True),
        ("[redacted]", True, "[redacted]", True),
    ],
)
def test_message_excerpt_is_bounded_and_redacted(
    text: str,
    redacted: bool,
    excerpt: str,
    truncated: bool,
) -> None:
    message = made.message(
        1,
        Kind.PROGRESS,
        text=text,
        redacted=redacted,
        status=handoff_facts.MessageStatus.RESOLVED,
        superseded=True,
    )
    assert brief(messages=(message,))["task"]["recent_progress"]["items"] == [
        {
            "message_id": "wc_msg_0000000000000001",
            "created_at": made.NOW + 1,
            "status": "resolved",
            "superseded": True,
            "excerpt": excerpt,
            "truncated": truncated,
        }
    ]


@requirement("H-06")
def test_unread_messages_are_null_and_not_zero() -> None:
    task = brief(messages=Missing.MESSAGES)["task"]
    assert (task["decisions"], task["recent_progress"]) == (UNREAD_LIST, UNREAD_LIST)


@requirement("H-07")
@pytest.mark.parametrize(
    ("workspace", "status", "reason_code"),
    [
        (made.git(), "available", None),
        (handoff_facts.Workspace.NON_GIT, "available", "non_git_project"),
        (Missing.WORKSPACE_NOT_REQUESTED, "not_requested", "workspace_not_requested"),
        (Missing.WORKSPACE, "unavailable", "workspace_unavailable"),
    ],
)
def test_workspace_says_why_its_git_facts_are_null(
    workspace: handoff_facts.WorkspaceFacts, status: str, reason_code: str | None
) -> None:
    shown = brief(workspace=workspace)["workspace"]
    assert (shown["status"], shown["reason_code"]) == (status, reason_code)
    assert (shown["dirty"] is None) == (workspace != made.git())


@requirement("H-07", "S-24")
@pytest.mark.parametrize(
    ("branch", "shown"),
    [
        ("feature/x", "feature/x"),
        ("漢" * 66 + "bb", "漢" * 66 + "bb"),
        ("漢" * 67, None),
        ("", None),
        (None, None),
        ("a\tb", None),
        ("fix/sk-abcdEFGH01234567", None),
    ],
)
def test_branch_that_may_not_be_shown_is_null(branch: str | None, shown: str | None) -> None:
    assert brief(workspace=made.git(branch=branch))["workspace"]["branch"] == shown


@requirement("H-07")
def test_git_facts_are_shown_as_read() -> None:
    workspace = made.git(head="0123abc", dirty=True, conflicted=True, ahead=2, behind=0)
    assert brief(workspace=workspace)["workspace"] == {
        "status": "available",
        "reason_code": None,
        "branch": "main",
        "head": "0123abc",
        "dirty": True,
        "conflicted": True,
        "ahead": 2,
        "behind": 0,
    }
    assert brief(workspace=made.git(head=None))["workspace"]["head"] is None
    assert brief(workspace=made.git(head="refs/heads/x"))["workspace"]["head"] is None


@requirement("H-08")
def test_paths_are_shown_newest_event_first_and_once() -> None:
    progress = brief(
        ledger=ledger(
            changed_paths("a.py", "b.py"),
            handoff_facts.PathEvent(observed_paths=("c.py", "a.py")),
            changed_paths("b.py", "d.py"),
        )
    )["progress"]
    assert progress["changes"] == {
        "items": ["b.py", "d.py", "a.py"],
        "total": 3,
        "returned": 3,
        "truncated": False,
    }
    assert progress["recent_files"]["items"] == ["b.py", "d.py", "c.py", "a.py"]


@requirement("H-08")
def test_path_lists_are_bounded_and_count_what_was_cut_before() -> None:
    names = tuple(f"f{number}.py" for number in range(20))
    progress = brief(ledger=ledger(changed_paths("old.py"), changed_paths(*names, total=300)))["progress"]
    assert progress["changes"] == {"items": list(names[:12]), "total": 300, "returned": 12, "truncated": True}
    assert progress["recent_files"] == {
        "items": list(names[:8]),
        "total": 300,
        "returned": 8,
        "truncated": True,
    }
    seen = brief(ledger=ledger(*(changed_paths(name, total=2) for name in names)))["progress"]["changes"]
    assert seen["total"] == 20


@requirement("H-08", "S-24")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "\\\\host\\x",
        "..",
        "a/../b",
        "a\\..\\b",
        "C:\\x",
        "c:x",
        "file:///x",
        "a\nb",
        "a\x85b",
        "漢" * 171,
        "keys/sk-abcdEFGH01234567",
    ],
)
def test_path_that_may_not_be_shown_is_counted_and_left_out(path: str) -> None:
    progress = brief(ledger=ledger(changed_paths("kept.py", path)))["progress"]
    expected = {"items": ["kept.py"], "total": 2, "returned": 1, "truncated": True}
    assert (progress["changes"], progress["recent_files"]) == (expected, expected)


@requirement("H-08")
@pytest.mark.parametrize("path", ["a b/ü.py", "..a/b..", "a/...", "src/a:b", "漢" * 170 + "aa"])
def test_unusual_project_path_is_shown(path: str) -> None:
    assert brief(ledger=ledger(changed_paths(path)))["progress"]["changes"]["items"] == [path]


@requirement("H-08")
def test_evicted_and_unread_events_may_hide_paths() -> None:
    evicted = brief(ledger=ledger(changed_paths("a.py"), evicted=1))["progress"]["changes"]
    assert evicted == {"items": ["a.py"], "total": 1, "returned": 1, "truncated": True}
    unread = brief(ledger=Missing.LEDGER)["progress"]
    nothing_shown = {"items": [], "total": 0, "returned": 0, "truncated": True}
    assert (unread["changes"], unread["recent_files"]) == (nothing_shown, nothing_shown)
    assert unread["meaningful_tool_calls"] == 4


@requirement("S-12", "H-08")
def test_event_facts_are_read_as_recorded() -> None:
    event = handoff_facts.path_event(
        {
            "write_like": True,
            "changed_paths": ["a.py"],
            "changed_total": 300,
            "paths_truncated": True,
            "observed_paths": ["b.py"],
        }
    )
    assert event == handoff_facts.PathEvent(
        write_like=True, changed_paths=("a.py",), changed_total=300, observed_paths=("b.py",)
    )
    assert handoff_facts.path_event({"tool_name": "read_files"}) == handoff_facts.PathEvent()
