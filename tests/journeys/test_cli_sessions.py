"""A person can look: Sessions, the record of one and its handoff, in a terminal."""

import json
import re
from typing import Any

import pytest

from tests.journeys.installation import Installed
from tests.journeys.test_cli import failed, ok
from tests.requirements import requirement

HOSTILE = "Clamp \x1b[2J the value"


@pytest.fixture(scope="module")
def session(installed: Installed) -> dict[str, Any]:
    """A Session with an instruction, a decision, an open risk and a read file."""
    words = ("--project", installed.project, "--instruction", HOSTILE, "--json")
    made: dict[str, Any] = json.loads(ok(installed, "tools", "work_on_project", *words))["output"]
    own = ("--session-id", made["session_id"])
    ok(installed, "tools", "post_session_message", *own, "--kind", "decision", "--message", "keep the API")
    ok(installed, "tools", "post_session_message", *own, "--kind", "risk", "--message", "tests are slow")
    read = ("--project", installed.project, "--record", made["session_id"], "--item", "README.md")
    ok(installed, "tools", "read_files", *read)
    return made


@requirement("S-62")
def test_sessions_are_listed_as_the_server_lists_them(installed: Installed, session: dict[str, Any]) -> None:
    printed = ok(installed, "session", "list")
    assert re.search(
        rf"^{session['session_ref']} +{session['session_id']} +active +\d", printed, re.MULTILINE
    )
    assert printed.startswith(installed.project)
    assert "\x1b[2J" not in printed
    (project,) = json.loads(ok(installed, "session", "list", "--project", installed.project, "--json"))
    assert session["session_id"] in [each["session_id"] for each in project["sessions"]]
    assert (project["next_offset"], project["selection"]) == (None, "caller_must_choose_exact_session")


@requirement("S-02", "S-63")
def test_record_of_a_session_is_shown_with_its_counts(installed: Installed, session: dict[str, Any]) -> None:
    printed = ok(installed, "session", "show", session["session_ref"])
    assert "Messages  2 kept; open: 1 risks" in printed
    assert re.search(r"tool_call_finished +read_files succeeded", printed)
    assert "\x1b[2J" not in printed
    summary = json.loads(ok(installed, "session", "show", session["session_id"], "--limit", "2", "--json"))
    assert (summary["events_returned"], summary["events_truncated"]) == (2, True)


@requirement("H-04", "H-06", "H-12", "H-13")
def test_handoff_is_printed_with_the_facts_of_its_json(installed: Installed, session: dict[str, Any]) -> None:
    printed = ok(installed, "handoff", session["session_id"], "--no-workspace")
    output = json.loads(ok(installed, "handoff", session["session_ref"], "--no-workspace", "--json"))
    brief = output["handoff_brief"]
    assert f"State       {brief['progress']['state']}\n" in printed
    assert "Workspace   workspace_not_requested\n" in printed
    assert "1 open risks" in printed
    assert "keep the API" in printed
    assert "Read or changed last\n  - README.md\n" in printed
    assert [line for line in brief["next_actions"] if line not in printed] == []
    assert ", ".join(brief["basis"]["reason_codes"]) in printed
    assert "\x1b[2J" not in printed


@requirement("C-20")
def test_absent_session_is_refused_with_what_to_do(installed: Installed) -> None:
    for words in (("session", "show"), ("handoff",)):
        said = failed(installed, *words, "wc_sess_absent")
        assert said.startswith(
            "No such Workflow Session; use list_sessions to find one. (unknown_session_id)"
        )
