"""Proves ``finish_coding_task`` over real calls: workspace, outputs, brief and Goals (S-46, S-68, S-77)."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.tools import evidence_desk, goal_desk
from tests.tools.evidence_desk import HASH, edit, handoff, newest_event, validate
from tests.tools.house import BOOTSTRAP, DEMO, EVE, GIT, OTHER, House, Reply, report, user
from webcodex.core.json_value import JsonObject
from webcodex.storage import validations
from webcodex.tools import ports

FINISH: Final = "finish_coding_task"
KEYS: Final = {
    "facts",
    "hard_blockers",
    "advisories",
    "informational_notes",
    "suggested_next_actions",
    "task_outcome",
    "evidence_history",
    "evidence_integrity",
    "verdict",
    "handoff_brief",
}


def entry(path: str, index: str = "M", **more: str) -> dict[str, Any]:
    return {"path": path, "index": index, "worktree": "M", **more}


def checked(*statuses: str) -> Reply:
    """Lets the Runner find one output after the other in these statuses."""

    async def answer(body: Mapping[str, Any]) -> JsonObject:
        items: list[Any] = []
        for path, status in zip(body["paths"], statuses, strict=False):
            is_there = status == "verified"
            facts = {"size": 3 if is_there else None, "sha256": HASH if is_there else None}
            items.append({"path": path, "status": status, **facts})
        return {"items": items}

    return answer


async def finish(house: House, session: str, **arguments: Any) -> dict[str, Any]:
    given = {"project": DEMO, "session_id": session, **arguments}
    return await house.output(FINISH, **given)


async def reasons(house: House, session: str, **arguments: Any) -> list[str]:
    shown = (await finish(house, session, **arguments))["task_outcome"]
    return [*shown["blocking_reasons"], *shown["warning_reasons"]]


@requirement("S-68", "S-77", "H-40", "H-12")
async def test_calm_work_passes_and_the_brief_is_of_the_same_snapshot(house: House) -> None:
    session = await house.session()
    house.runner.answers["git_status"] = GIT
    await validate(house, session)
    shown = await finish(house, session)
    assert set(shown) == KEYS | {"acceptance"}
    assert shown["task_outcome"] == {
        "status": "pass",
        "blocking": False,
        "blocking_reasons": [],
        "warning_reasons": [],
    }
    assert shown["facts"]["executions"] == 1
    assert shown["facts"]["validations_passed"] == 1
    assert shown["suggested_next_actions"] == shown["handoff_brief"]["next_actions"]
    assert shown["acceptance"]["state"] == "ready_for_review"
    assert shown["handoff_brief"]["basis"] == {"complete": True, "reason_codes": []}
    assert (await house.output("read_session_summary", session_id=session))["lifecycle"] == "active"


@requirement("S-68", "S-77", "R-13", "R-52")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"dirty": True, "conflicted": True}, ["workspace_conflicts", "workspace_dirty"]),
        ({"dirty": True, "entries": [entry("src/.ENV")]}, ["sensitive_path_risk", "workspace_dirty"]),
        ({"entries": [entry("a.txt", "R", orig_path="keys/server.pem")]}, ["sensitive_path_risk"]),
        ({"entries": [entry(".ssh/", "?")]}, ["sensitive_path_risk", "hygiene_untracked_files"]),
        ({"entries": [entry(".env.example")]}, []),
        ({"truncated": True}, ["workspace_observation_incomplete"]),
        (
            {"conflicted": None, "truncated": True},
            ["workspace_observation_failed", "workspace_observation_incomplete"],
        ),
        ({"available": False, "reason_code": "non_git_project"}, []),
    ],
)
async def test_the_git_status_gives_its_reasons(
    house: House, changed: JsonObject, expected: list[str]
) -> None:
    session = await house.session()
    await validate(house, session)
    house.runner.answers["git_status"] = {**GIT, **changed}
    assert await reasons(house, session) == expected


@requirement("S-68", "S-77")
async def test_what_is_not_asked_for_is_said_and_an_away_runner_too(house: House) -> None:
    session = await house.session()
    assert await reasons(house, session) == ["workspace_observation_failed", "validation_not_run"]
    given = {"include_workspace": False, "include_validation": False, "include_checkpoints": False}
    shown = await finish(house, session, **given)
    assert shown["task_outcome"]["warning_reasons"] == ["workspace_not_checked"]
    assert shown["handoff_brief"]["validation"]["status"] == "not_requested"
    assert shown["facts"]["validations_passed"] is None


@requirement("S-68", "S-77", "S-12", "S-42")
async def test_an_unknown_change_blocks_until_its_file_was_read_again(house: House) -> None:
    session = await house.session()
    await validate(house, session)
    house.runner.answers["edit_project_files"] = ports.RunnerOutcomeUnknown()
    house.runner.answers["git_status"] = GIT
    await edit(house, session)
    expected = ["unexpected_tool_failures", "validation_stale_after_changes"]
    assert await reasons(house, session) == expected
    house.runner.answers["read_files"] = {"items": [{"path": "a.py", "success": True}]}
    await house.call_unchecked("read_files", project=DEMO, items=[{"path": "a.py"}], recorder=session)
    assert await reasons(house, session) == expected[1:]


@requirement("S-46", "S-68", "H-33", "H-35", "S-77")
async def test_outputs_are_checked_kept_and_go_stale_with_the_next_change(house: House) -> None:
    session = await house.session()
    house.runner.answers |= {"git_status": GIT, "check_outputs": checked("verified", "verified")}
    shown = await finish(house, session, outputs=["dist/a", "dist/b", "dist/a"])
    assert house.runner.asked[-2][1:] == ("check_outputs", {"paths": ["dist/a", "dist/b"]})
    assert shown["task_outputs"] == {
        "verified_count": 2,
        "missing_count": 0,
        "unavailable_count": 0,
        "items": [
            {"path": path, "status": "verified", "size": 3, "sha256": HASH} for path in ("dist/a", "dist/b")
        ],
        "checked_at": house.now,
    }
    assert shown["acceptance"]["state"] == "ready_for_review"
    assert shown["acceptance"]["reason_codes"] == ["outputs_verified"]
    await validate(house, session)
    await edit(house)
    later = (await handoff(house, session))["acceptance"]
    assert "outputs_stale" in later["reason_codes"]
    statuses = {item["status"] for item in later["evidence"]["items"] if item["kind"] == "task_output"}
    assert statuses == {"stale"}
    notes = (await finish(house, session))["informational_notes"]
    assert "Verified outputs are older than a recorded change." in notes


@requirement("S-46", "S-68", "S-77")
@pytest.mark.parametrize(
    ("answer", "counts", "blocking"),
    [
        (checked("verified", "missing"), (1, 1, 0), ["outputs_missing"]),
        (checked("unavailable", "missing"), (0, 1, 1), ["outputs_missing", "outputs_unavailable"]),
        (checked("verified"), (1, 0, 1), ["outputs_unavailable"]),
        ({"items": [{"path": "dist/a", "status": "planted"}]}, (0, 0, 2), ["outputs_unavailable"]),
        (ports.RunnerUnavailable(), (0, 0, 2), ["outputs_unavailable"]),
        (ports.RunnerTimeout(), (0, 0, 2), ["outputs_unavailable"]),
        (ports.RunnerRefused("agent_capability_unavailable"), (0, 0, 2), ["outputs_unavailable"]),
    ],
)
async def test_an_output_that_is_not_proven_blocks(
    house: House, answer: Any, counts: tuple[int, int, int], blocking: list[str]
) -> None:
    session = await house.session()
    house.runner.answers |= {"git_status": GIT, "check_outputs": answer}
    shown = await finish(house, session, outputs=["dist/a", "dist/b"])
    told = shown["task_outputs"]
    assert (told["verified_count"], told["missing_count"], told["unavailable_count"]) == counts
    assert shown["task_outcome"]["blocking_reasons"] == blocking
    assert (shown["acceptance"]["state"], shown["task_outcome"]["status"]) == ("blocked", "fail")


@requirement("S-46", "S-42")
async def test_a_change_that_lands_during_the_check_makes_it_stale(house: House) -> None:
    session = await house.session()
    answer = checked("verified")

    async def busy(body: Mapping[str, Any]) -> JsonObject:
        await edit(house)
        return await answer(body)

    house.runner.answers |= {"edit_project_files": evidence_desk.applied, "check_outputs": busy}
    shown = await finish(house, session, outputs=["dist/a"])
    assert shown["task_outputs"]["verified_count"] == 1
    assert "outputs_stale" in shown["acceptance"]["reason_codes"]


@requirement("S-46", "M-13")
@pytest.mark.parametrize("outputs", [[""], ["é" * 257], ["x"] * 17, ["logs/sk-abcdEFGH01234567"], ["\ud800"]])
async def test_an_output_path_out_of_bounds_is_refused(house: House, outputs: list[str]) -> None:
    session = await house.session()
    refused = await house.refusal(FINISH, project=DEMO, session_id=session, outputs=outputs)
    assert (refused["error_kind"], refused["state_changed"]) == ("invalid_arguments", False)


@requirement("S-68", "S-07", "S-52", "S-77")
async def test_a_closed_session_is_finished_only_without_outputs(house: House) -> None:
    session, recorder = await house.session(), await house.session()
    await house.output("close_session", session_id=session)
    assert (await finish(house, session))["handoff_brief"]["progress"]["state"] == "closed"
    before = (await house.output("read_session_summary", session_id=session))["events_total"]
    given = {"project": DEMO, "session_id": session, "outputs": ["a"]}
    refused = await house.refusal(FINISH, recorder=recorder, **given)
    assert (refused["error_kind"], refused["state_changed"]) == ("session_closed", False)
    after = (await house.output("read_session_summary", session_id=session))["events_total"]
    assert after == before + 2
    assert (await newest_event(house, recorder))["error_kind"] == "session_closed"


@requirement("S-07", "S-50", "S-77", "S-46")
async def test_a_session_closed_while_its_call_runs_gets_the_finished_event_and_no_check(
    house: House,
) -> None:
    session = await house.session()
    answer = checked("verified")

    async def closing(body: Mapping[str, Any]) -> JsonObject:
        await house.output("close_session", session_id=session)
        return await answer(body)

    house.runner.answers["check_outputs"] = closing
    refused = await house.refusal(FINISH, project=DEMO, session_id=session, outputs=["a"])
    assert refused["error_kind"] == "session_closed"
    event = await newest_event(house, session)
    assert (event["kind"], event["tool_name"], event["status"]) == ("tool_call_finished", FINISH, "failed")
    kept = await house.database.read(lambda tx: validations.output_check(tx, session))
    assert kept.outputs == ()


@requirement("S-68")
async def test_a_summary_tells_lists_among_the_facts_as_counts(house: House) -> None:
    session = await house.session()
    house.runner.answers["edit_project_files"] = evidence_desk.applied
    await edit(house, session, "a.py")
    await edit(house, session, "b.py")
    assert (await finish(house, session))["facts"]["changed_paths"] == ["b.py", "a.py"]
    facts = (await finish(house, session, summary_only=True))["facts"]
    assert (facts["changed_paths"], facts["work_performed"]) == (2, True)


@requirement("S-68", "C-20", "C-24")
async def test_only_the_sessions_own_project_and_group_finish_it(house: House) -> None:
    session = await house.session()
    for by, project, word in (
        (None, OTHER, "session_project_mismatch"),
        (EVE, DEMO, "unknown_project"),
        (BOOTSTRAP, DEMO, "session_authority_denied"),
    ):
        caller = {} if by is None else {"by": by}
        refused = await house.refusal(FINISH, project=project, session_id=session, **caller)
        assert (refused["error_kind"], "handoff_brief" in refused) == (word, False)


@requirement("H-60", "H-15", "H-34", "S-68")
async def test_external_reports_change_no_outcome(house: House) -> None:
    session = await house.session()
    house.runner.answers["git_status"] = GIT
    await validate(house, session)
    before = await finish(house, session)
    for event, code in enumerate((None, 0, 9), start=1):
        await house.output("record_external_observation", **report(session, event, exit_code=code))
    after = await finish(house, session)
    apart = ("task_outcome", "facts", "evidence_history", "evidence_integrity", "verdict", "hard_blockers")
    assert [after[key] for key in apart] == [before[key] for key in apart]
    assert after["acceptance"]["state"] == before["acceptance"]["state"] == "ready_for_review"
    assert "external_reports_failure" in after["acceptance"]["reason_codes"]


@requirement("S-68", "G-60")
async def test_the_goals_of_the_session_follow_up_by_identity_only(house: House) -> None:
    session = await house.session()
    assert "goal_follow_up" not in await finish(house, session)
    goal = await goal_desk.prepared(house, session)
    shown = await finish(house, session)
    assert [row["goal_id"] for row in shown["goal_follow_up"]["goals"]] == [goal]
    assert "goal_context" not in shown
    reader = user("ada", "runtime:read")
    assert "goal_follow_up" not in await finish(house, session, by=reader)
