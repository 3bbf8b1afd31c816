"""Proves the two handoff tools (40.9) and what they gather, on a real store."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import BOOTSTRAP, DEMO, EVE, OTHER, House, ScriptedRunner, report
from webcodex.core.json_value import JsonObject
from webcodex.storage import projects
from webcodex.tools import ports
from webcodex.tools.contract import Audience, BadArguments, UnknownTool

READ = "read_session_handoff"
STATE = "get_session_handoff_state"
GIT: JsonObject = {
    "available": True,
    "reason_code": None,
    "branch": "main",
    "head": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "conflicted": False,
    "ahead": None,
    "behind": None,
    "entries": [],
    "truncated": False,
}


async def brief(house: House, session: str, **arguments: Any) -> dict[str, Any]:
    output = await house.output(READ, session_id=session, **arguments)
    shown: dict[str, Any] = output["handoff_brief"]
    return shown


@requirement("H-50", "H-03", "H-14")
async def test_the_compact_answer_holds_exactly_the_brief_and_its_siblings(house: House) -> None:
    session = await house.session()
    answer = await house.output(READ, session_id="~s1", include_workspace=False)
    assert set(answer) == {"session_id", "session_ref", "project", "handoff_brief"}
    assert (answer["session_id"], answer["session_ref"], answer["project"]) == (session, "~s1", DEMO)
    assert answer["handoff_brief"]["session"]["session_id"] == session


@requirement("H-10", "H-13")
async def test_validation_that_was_not_asked_for_is_said_to_be_so(house: House) -> None:
    shown = await brief(house, await house.session(), include_workspace=False, include_validation=False)
    assert shown["validation"]["status"] == "not_requested"
    assert "validation_not_requested" in shown["basis"]["reason_codes"]


@requirement("H-32", "H-34")
async def test_reports_and_reads_alone_give_no_acceptance(house: House) -> None:
    session = await house.session()
    await house.output("record_external_observation", **report(session, exit_code=0))
    assert "acceptance" not in await house.output(READ, session_id=session)


@requirement("H-14", "H-60", "H-15", "O-17")
async def test_seven_reports_show_the_last_five_and_change_nothing_else(house: House) -> None:
    session = await house.session()
    before = await house.output(STATE, project=DEMO, session_id=session)
    for event, code in enumerate((None, 0, 9, None, 0, None, None), start=1):
        house.now += 1
        await house.output("record_external_observation", **report(session, event, exit_code=code))
    after = await house.output(STATE, project=DEMO, session_id=session)
    external = after["handoff_brief"].pop("external_observations")
    assert (external["total"], external["returned"], external["truncated"]) == (7, 5, True)
    assert external["unknown_count"] == 4
    assert [int(row["event_id"], 16) for row in external["observations"]] == [3, 4, 5, 6, 7]
    before["handoff_brief"].pop("external_observations")
    assert after == before


@requirement("H-07", "H-09")
@pytest.mark.parametrize(
    ("changed", "status", "reason"),
    [
        ({}, "available", None),
        ({"available": False, "reason_code": "non_git_project"}, "available", "non_git_project"),
        ({"available": False, "reason_code": None}, "unavailable", "workspace_unavailable"),
        ({"dirty": None}, "unavailable", "workspace_unavailable"),
        ({"conflicted": None}, "unavailable", "workspace_unavailable"),
    ],
)
async def test_the_workspace_says_only_what_the_runner_proved(
    house: House, changed: JsonObject, status: str, reason: str | None
) -> None:
    house.runner.answers["git_status"] = {**GIT, **changed}
    shown = await brief(house, await house.session())
    assert (shown["workspace"]["status"], shown["workspace"]["reason_code"]) == (status, reason)
    expected = "main" if (status, reason) == ("available", None) else None
    assert shown["workspace"]["branch"] == expected


@requirement("H-07", "H-67")
@pytest.mark.parametrize(
    "failure",
    [
        ports.RunnerUnavailable(),
        ports.RunnerTimeout(),
        ports.RunnerOutcomeUnknown(),
        ports.RunnerRefused("project_root_replaced"),
    ],
)
async def test_a_runner_that_does_not_answer_leaves_the_workspace_unavailable(
    house: House, failure: ports.RunnerError
) -> None:
    house.runner.answers["git_status"] = failure
    shown = await brief(house, await house.session())
    assert shown["workspace"]["status"] == "unavailable"
    assert "workspace_unavailable" in shown["basis"]["reason_codes"]


@requirement("H-50", "S-63")
async def test_a_diagnostic_answer_adds_the_ledger(house: House) -> None:
    session = await house.session()
    for arguments in ({"diagnostic": True}, {"summary_only": False}):
        answer = await house.output(READ, session_id=session, limit=1, **arguments)
        assert answer["diagnostic"] is True
        assert answer["ledger"]["events_returned"] == 1
        assert answer["ledger"]["events_truncated"] is True
    plain = await house.output(READ, session_id=session, diagnostic=False, summary_only=False)
    assert "ledger" not in plain


@requirement("H-50", "C-20")
async def test_a_session_without_project_has_a_brief_without_reports(house: House) -> None:
    started = await house.output("start_session", title="loose")
    answer = await house.output(READ, session_id=started["session_id"])
    assert answer["project"] is None
    external = answer["handoff_brief"]["external_observations"]
    assert external["reason_code"] == "session_project_unavailable"
    assert answer["handoff_brief"]["workspace"]["status"] == "unavailable"


@requirement("H-51", "M-17", "O-30")
async def test_both_tools_under_both_names_tell_the_same_facts(house: House) -> None:
    session = await house.session()
    await house.output("record_external_observation", **report(session))
    state = await house.output(STATE, project=DEMO, session_id=session)
    assert await house.output("session_handoff_state", project=DEMO, session_id=session) == state
    read = await house.output("session_handoff_summary", session_id=session, include_workspace=False)
    read["handoff_brief"]["progress"]["meaningful_tool_calls"] = 0
    assert read == state
    events = (await house.output("read_session_summary", session_id=session))["events"]
    assert {event.get("tool_name") for event in events} == {
        "work_on_project",
        READ,
        "read_session_summary",
    }


@requirement("M-17", "M-20")
async def test_an_older_name_is_as_hidden_as_its_tool(house: House) -> None:
    for name in (STATE, "session_handoff_state"):
        with pytest.raises(UnknownTool, match=r"^Unknown tool$"):
            await house.call(name, audience=Audience.MODEL, project=DEMO, session_id="x")
    with pytest.raises(UnknownTool, match=r"^Unknown tool\. Use read_session_summary\.$"):
        await house.call("session_summary")
    with pytest.raises(UnknownTool, match=r"^Unknown tool$"):
        await house.call("planted_name")


@requirement("H-67", "H-51", "C-16", "S-02")
async def test_the_hidden_state_takes_the_exact_identities_only(house: House) -> None:
    session = await house.session()
    await house.output("list_projects")
    for by, project, named, word in (
        (None, DEMO, "~s1", "invalid_session_id"),
        (None, "~p1", session, "unknown_project"),
        (None, "demo", session, "unknown_project"),
        (None, OTHER, session, "session_project_mismatch"),
        (EVE, DEMO, session, "unknown_project"),
        (BOOTSTRAP, DEMO, session, "session_authority_denied"),
    ):
        caller = {} if by is None else {"by": by}
        refused = await house.refusal(STATE, project=project, session_id=named, **caller)
        assert (refused["error_kind"], refused["state_changed"]) == (word, False)
        assert "handoff_brief" not in refused
    with pytest.raises(BadArguments, match="Unknown argument"):
        await house.call(STATE, project=DEMO, session_id=session, include_workspace=True)


@requirement("H-67", "S-51")
async def test_the_hidden_state_never_asks_the_runner_and_leaves_no_trace(house: House) -> None:
    session = await house.session()
    away = await house.output(STATE, project=DEMO, session_id=session)
    house.runner.answers["git_status"] = GIT
    house.runner.asked.clear()
    assert await house.output(STATE, project=DEMO, session_id=session) == away
    assert house.runner.asked == []
    assert (await house.output("read_session_summary", session_id=session))["events_total"] == 2


@requirement("H-51", "S-07")
async def test_a_closed_session_is_still_handed_over(house: House) -> None:
    session = await house.session()
    await house.output("close_session", session_id=session)
    assert (await brief(house, session))["progress"]["state"] == "closed"
    state = await house.output(STATE, project=DEMO, session_id=session)
    assert state["handoff_brief"]["session"]["lifecycle"] == "closed"


@requirement("H-40", "H-64")
@pytest.mark.parametrize(
    ("write", "code"),
    [
        ("event", "session_changed_during_snapshot"),
        ("report", "external_observations_changed_during_snapshot"),
    ],
)
async def test_a_write_while_the_runner_is_asked_is_told(house: House, write: str, code: str) -> None:
    session = await house.session()

    class BusyRunner(ScriptedRunner):
        async def call(
            self,
            project: projects.Project,
            kind: str,
            body: Mapping[str, Any],
            *,
            budget_s: float,
            requested_by: str,
            connection_id: str | None = None,
        ) -> JsonObject:
            assert connection_id is None
            await super().call(project, kind, body, budget_s=budget_s, requested_by=requested_by)
            if write == "event":
                await house.output("list_sessions", project=DEMO, recorder=session)
            else:
                await house.output("record_external_observation", **report(session))
            return GIT

    quiet = house.services
    house.services = ports.Services(
        database=quiet.database, runners=BusyRunner({"git_status": GIT}), now=quiet.now, entropy=quiet.entropy
    )
    codes = (await brief(house, session))["basis"]["reason_codes"]
    assert [word for word in codes if "changed_during" in word] == [code]
    house.services = quiet
    house.runner.answers["git_status"] = GIT
    codes = (await brief(house, session))["basis"]["reason_codes"]
    assert [word for word in codes if "changed_during" in word] == []


@requirement("H-62", "H-41", "H-01")
async def test_the_largest_stored_history_fits_and_repeats_to_the_byte(house: House) -> None:
    session = await house.session(instruction='🧪漢\x01"\\' * 790)
    for event in range(1, 257):
        await house.output("record_external_observation", **report(session, event, observed_tool="x" * 64))
    paths = [f"{number:03d}/" + "漢" * 160 for number in range(8)]
    house.runner.answers["read_files"] = {"items": [{"path": path, "success": True} for path in paths]}
    asked = [{"path": path} for path in paths]
    await house.call_unchecked("read_files", project=DEMO, items=asked, recorder=session)
    first = await house.output(STATE, project=DEMO, session_id=session)
    again = await house.output(STATE, project=DEMO, session_id=session)
    assert json.dumps(first) == json.dumps(again)
    assert len(json.dumps(first["handoff_brief"], ensure_ascii=False).encode()) < 8192
    assert first["handoff_brief"]["external_observations"]["returned"] == 5


@requirement("C-20")
async def test_a_named_project_must_be_the_sessions_own(house: House) -> None:
    session = await house.session()
    await house.output("list_projects")
    assert (await brief(house, session, project="~p1"))["version"] == 1
    for project in (OTHER, "~p2", "demo", "agent:r9:x"):
        refused = await house.refusal(READ, session_id=session, project=project)
        assert refused["error_kind"] == "session_project_mismatch"
