"""Proves what the handoff tells from real Jobs, validations, changes, messages and Git facts (40.4 on)."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from tests.core import brief_schema
from tests.requirements import requirement
from tests.tools import evidence_desk
from tests.tools.evidence_desk import edit, ends, handoff, validate
from tests.tools.house import DEMO, GIT, House, report
from webcodex.core import redaction, session_overview
from webcodex.core.jobs import State, out_of_contact
from webcodex.core.json_value import JsonObject
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import handoff_gathering, job_recording, ports

READ: Final = "read_session_handoff"
FINISH: Final = "finish_coding_task"
OBSERVE: Final = "Observe the running jobs to their end; do not start them again."
RECOVER: Final = "Observe the recovering jobs; do not start them again."
VALIDATE: Final = "Run validation for the current files."
REVIEW: Final = "Review the recorded changes against the current workspace."
CONTINUE: Final = "Continue from the latest instruction after checking the current state."

Step = Callable[[House, str], Awaitable[object]]


async def post(house: House, session: str, kind: str, said: str = "x") -> str:
    made = await house.output("post_session_message", session_id=session, kind=kind, message=said)
    return str(made["message_id"])


async def recovering(house: House, session: str) -> None:
    job_id = (await validate(house, session, "running", None))["job"]["job_id"]
    await job_recording.change(house.services, job_id, lambda job: out_of_contact(job, until=house.now + 9))


async def stale(house: House, session: str) -> None:
    await validate(house, session)
    await edit(house, session)


async def unseen(house: House, session: str) -> None:
    await validate(house, session)
    job_id = (await validate(house, session, "running", None, purpose="work", validation_scope=None))["job"][
        "job_id"
    ]
    await ends(house, job_id, State.FAILED, 1)


async def passed_and_asked(house: House, session: str) -> None:
    await validate(house, session)
    await post(house, session, "question")


async def passed_and_risky(house: House, session: str) -> None:
    await validate(house, session)
    await post(house, session, "risk")


async def worked(house: House, session: str) -> None:
    await validate(house, session, purpose="work", validation_scope=None)


async def passed_and_closed(house: House, session: str) -> None:
    await validate(house, session)
    await house.output("close_session", session_id=session)


ROWS: Final[dict[str, tuple[Step, JsonObject, str, str, str, str | None]]] = {
    "passed": (validate, {}, "ready_to_continue", CONTINUE, "ready_for_review", "validation_passed"),
    "closed": (passed_and_closed, {}, "closed", CONTINUE, "ready_for_review", "validation_passed"),
    "running": (
        lambda house, session: validate(house, session, "running", None),
        {},
        "blocked",
        OBSERVE,
        "blocked",
        "blocking_jobs",
    ),
    "recovering": (recovering, {}, "blocked", RECOVER, "blocked", "recovering_jobs"),
    "service": (
        lambda house, session: validate(
            house, session, "running", None, purpose="service", validation_scope=None
        ),
        {},
        "ready_to_continue",
        VALIDATE,
        "in_progress",
        "active_jobs",
    ),
    "failed": (
        lambda house, session: validate(house, session, "failed", 1),
        {},
        "blocked",
        "Inspect the failed validation and fix its cause.",
        "blocked",
        "validation_failed",
    ),
    "inconclusive": (
        lambda house, session: validate(house, session, "timed_out", None),
        {},
        "needs_validation",
        VALIDATE,
        "needs_attention",
        "validation_inconclusive",
    ),
    "stale": (stale, {}, "needs_validation", VALIDATE, "in_progress", "validation_stale"),
    "risk": (passed_and_risky, {}, "blocked", "Review the open risks.", "blocked", "open_risks"),
    "question": (
        passed_and_asked,
        {},
        "ready_to_continue",
        "Answer the open guidance, questions and todos.",
        "needs_attention",
        "open_questions",
    ),
    "unseen": (
        unseen,
        {},
        "ready_to_continue",
        "Read the results of the finished jobs.",
        "ready_for_review",
        "validation_passed",
    ),
    "changed": (edit, {}, "ready_to_continue", VALIDATE, "in_progress", "validation_not_run"),
    "dirty": (worked, {"dirty": True}, "needs_validation", VALIDATE, "in_progress", "validation_not_run"),
    "dirty and passed": (
        validate,
        {"dirty": True},
        "ready_to_continue",
        CONTINUE,
        "ready_for_review",
        "validation_passed",
    ),
    "conflict": (
        validate,
        {"dirty": True, "conflicted": True},
        "blocked",
        "Resolve the workspace conflict before changing anything else.",
        "blocked",
        "workspace_conflict",
    ),
}


@requirement("H-09", "H-12", "H-33", "H-63", "S-45", "S-43", "H-08", "H-11")
@pytest.mark.parametrize("name", ROWS)
async def test_each_real_source_moves_the_state_the_first_action_and_the_acceptance(
    house: House, name: str
) -> None:
    step, git, state, action, accepted, code = ROWS[name]
    session = await house.session()
    evidence_desk.work_of(house)
    await step(house, session)
    house.runner.answers["git_status"] = {**GIT, **git}
    shown = await house.output(READ, session_id=session)
    brief = shown["handoff_brief"]
    assert brief["basis"] == {"complete": True, "reason_codes": []}
    assert (brief["progress"]["state"], brief["next_actions"][0]) == (state, action)
    assert shown["acceptance"]["state"] == accepted
    assert code in shown["acceptance"]["reason_codes"]
    finished = await house.output(FINISH, project=DEMO, session_id=session)
    assert finished["acceptance"] == shown["acceptance"]


@requirement("H-06", "H-10", "H-11", "H-13", "H-32", "S-45")
async def test_a_new_session_has_every_source_and_nothing_in_it(house: House) -> None:
    shown = await handoff(house, await house.session())
    brief = shown["handoff_brief"]
    assert brief["basis"] == {"complete": False, "reason_codes": ["workspace_not_requested"]}
    assert {value for name, value in brief["attention"].items() if name != "workspace_conflict"} == {0}
    assert (brief["validation"]["status"], brief["progress"]["state"]) == ("not_run", "insufficient_evidence")
    assert "acceptance" not in shown


TABLES: Final = {
    "wc_job_sessions": ({"job_summary_unavailable"}, {"attention", "basis", "next_actions"}),
    "wc_validation_verdicts": (
        {"validation_unavailable"},
        {"validation", "basis", "progress", "next_actions"},
    ),
    "wc_session_evidence": ({"validation_unavailable"}, {"validation", "basis", "progress", "next_actions"}),
    "wc_session_messages": ({"guidance_unavailable"}, {"task", "attention", "basis", "next_actions"}),
    "wc_external_observations": (set[str](), {"external_observations"}),
    "wc_session_events": (
        {"continuation_unavailable", "validation_unavailable"},
        {"progress", "validation", "basis", "next_actions"},
    ),
}


@requirement("H-02", "H-61", "H-13", "S-43", "S-45")
@pytest.mark.parametrize("table", TABLES)
async def test_a_source_that_is_gone_fails_alone(house: House, table: str) -> None:
    session = await house.session()
    await validate(house, session)
    await edit(house, session)
    await validate(house, session)
    await house.output("record_external_observation", **report(session))
    before = (await handoff(house, session))["handoff_brief"]
    await house.database.write(lambda tx: tx.change(text(f"ALTER TABLE {table} RENAME TO gone")))
    after = (await handoff(house, session))["handoff_brief"]
    brief_schema.brief(after, "brief")
    codes, moved = TABLES[table]
    assert set(after["basis"]["reason_codes"]) == {"workspace_not_requested", *codes}
    assert {key for key, value in after.items() if before[key] != value} <= moved
    assert {
        key for key in moved if key not in {"next_actions", "progress"} and before[key] == after[key]
    } == set()


@requirement("H-02", "H-32", "S-43")
async def test_an_unreadable_ledger_leaves_one_code_and_no_evidence(house: House) -> None:
    session = await house.session()
    await validate(house, session)
    await house.database.write(lambda tx: tx.change(text("ALTER TABLE wc_session_events RENAME TO gone")))
    accepted = (await handoff(house, session))["acceptance"]
    assert (accepted["state"], accepted["reason_codes"]) == ("unknown", ["ledger_unavailable"])
    assert accepted["evidence"]["items"] == []


@requirement("H-66", "H-33")
async def test_a_resolved_question_changes_the_acceptance_and_not_the_work(house: House) -> None:
    session = await house.session()
    await validate(house, session)
    question = await post(house, session, "question")
    before = await handoff(house, session)
    await house.output("resolve_session_message", session_id=session, message_id=question)
    after = await handoff(house, session)
    states = [shown["acceptance"]["state"] for shown in (before, after)]
    assert states == ["needs_attention", "ready_for_review"]
    for key in ("task", "validation"):
        assert before["handoff_brief"][key] == after["handoff_brief"][key]
    counts = [shown["handoff_brief"]["progress"].pop("meaningful_tool_calls") for shown in (before, after)]
    assert counts[1] == counts[0] + 1
    assert before["handoff_brief"]["progress"] == after["handoff_brief"]["progress"]


@requirement("H-40", "H-64")
@pytest.mark.parametrize("tool", [READ, FINISH])
async def test_a_change_while_the_runner_is_asked_is_told_and_one_before_is_not(
    house: House, tool: str
) -> None:
    session = await house.session()
    given = {"session_id": session, **({"project": DEMO} if tool == FINISH else {})}

    async def busy(_body: Mapping[str, Any]) -> JsonObject:
        await edit(house, session)
        return GIT

    evidence_desk.work_of(house)
    house.runner.answers["git_status"] = busy
    shown = await house.output(tool, **given)
    assert shown["handoff_brief"]["basis"]["reason_codes"] == ["session_changed_during_snapshot"]
    house.runner.answers["git_status"] = GIT
    await edit(house, session)
    assert (await house.output(tool, **given))["handoff_brief"]["basis"]["complete"] is True
    house.runner.answers["git_status"] = busy
    quiet = await house.output(tool, **given, include_workspace=False)
    assert quiet["handoff_brief"]["basis"]["reason_codes"] == ["workspace_not_requested"]


async def _unknown_edit(house: House, session: str) -> None:
    house.runner.answers["edit_project_files"] = ports.RunnerOutcomeUnknown()
    await edit(house, session, "lost.py")
    evidence_desk.work_of(house)


async def _reported(house: House, session: str) -> None:
    await house.output(
        "record_external_observation", **report(session, house.now % 97, exit_code=house.now % 3)
    )


async def _checked(house: House, session: str) -> None:
    items: list[Any] = [{"path": "dist/a", "status": "verified", "size": 1, "sha256": "0" * 64}]
    house.runner.answers["check_outputs"] = {"items": items}
    await house.output(FINISH, project=DEMO, session_id=session, outputs=["dist/a"])


STEPS: Final[dict[str, Step]] = {
    "edit": edit,
    "edit elsewhere": lambda house, _: edit(house),
    "unknown edit": _unknown_edit,
    "secret path": lambda house, session: edit(house, session, "logs/sk-abcdEFGH01234567"),
    "pass": validate,
    "fail": lambda house, session: validate(house, session, "failed", 1, validation_scope="other"),
    "timeout": lambda house, session: validate(house, session, "timed_out", None),
    "run on": lambda house, session: validate(house, session, "running", None),
    "unseen": unseen,
    "question": lambda house, session: post(house, session, "question"),
    "risk": lambda house, session: post(house, session, "risk", "password: planted"),
    "decision": lambda house, session: post(house, session, "decision", "漢🧪" * 300),
    "report": _reported,
    "outputs": _checked,
}


@requirement("H-63", "H-01", "H-15", "H-34", "H-41", "H-51", "S-24", "S-20", "M-46")
@settings(max_examples=8)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=6), st.booleans(), st.booleans())
def test_every_history_has_one_closed_small_and_steady_handoff(
    steps: list[str], is_dirty: bool, is_closed: bool
) -> None:
    async def lived(folder: str) -> None:
        house = await House(Path(folder)).furnish()
        try:
            await _live(house, steps, is_closed=is_closed)
            await _compare(house, {**GIT, "dirty": is_dirty})
        finally:
            house.database.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(lived(folder))


async def _live(house: House, steps: list[str], *, is_closed: bool) -> None:
    session = await house.session()
    evidence_desk.work_of(house)
    for step in steps:
        house.now += 1
        await STEPS[step](house, session)
    if is_closed:
        await house.output("close_session", session_id=session)


async def _compare(house: House, git: JsonObject) -> None:
    (row,) = (await house.output("list_sessions", project=DEMO))["sessions"]
    session = row["session_id"]
    first, again = await handoff(house, session), await handoff(house, session)
    assert json.dumps(first) == json.dumps(again)
    overview = await house.database.read(lambda tx: _overview(tx, session))
    assert overview["work"] == first["handoff_brief"]["progress"]["state"]
    assert overview["validation"] == first["handoff_brief"]["validation"]["status"]
    house.runner.answers["git_status"] = git
    read = await house.output(READ, session_id=session)
    finished = await house.output(FINISH, project=DEMO, session_id=session)
    for shown in (first, read, finished):
        _hold(shown)
    assert finished.get("acceptance") == read.get("acceptance")
    for part in ("validation", "attention", "workspace", "external_observations"):
        assert finished["handoff_brief"][part] == read["handoff_brief"][part]
    if row["lifecycle"] == "active":
        await house.output("record_external_observation", **report(session, 1000, exit_code=1))
        reported = await house.output(READ, session_id=session)
        states = [shown.get("acceptance", {}).get("state") for shown in (read, reported)]
        assert states[0] == states[1]


def _overview(tx: Transaction, session_id: str) -> JsonObject:
    session = stored_sessions.find(tx, session_id)
    assert session is not None
    return session_overview.overview(handoff_gathering.gather_for_row(tx, session))


def _hold(shown: dict[str, Any]) -> None:
    brief = shown["handoff_brief"]
    brief_schema.brief(brief, "brief")
    said = json.dumps(shown, ensure_ascii=False)
    assert len(json.dumps(brief, ensure_ascii=False).encode()) < 8192
    if "acceptance" in shown:
        brief_schema.acceptance(shown["acceptance"], "acceptance")
    assert not redaction.holds_credential(said)
    assert "planted" not in said
