"""Proves what becomes of external reports (50), on a real store."""

import asyncio
import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import ADA, BOOTSTRAP, DEMO, EVE, FOREIGN, OTHER, House, report, user
from webcodex.storage import schema
from webcodex.tools.contract import Audience, BadArguments, MissingScope, UnknownTool

RECORD = "record_external_observation"
LIST = "list_external_observations"


@requirement("O-05", "O-08", "O-11", "O-20")
async def test_a_replay_answers_with_the_first_timestamp_and_stores_nothing(house: House) -> None:
    session = await house.session()
    first = await house.output(RECORD, **report(session))
    house.now += 100
    await house.reopen()
    again = await house.output(RECORD, **report(session))
    assert first["inserted"] is True
    assert again == {**first, "inserted": False}
    assert first["observation"] == {
        "adapter_id": "a" * 64,
        "event_id": f"{1:064x}",
        "tool": "Bash",
        "exit_code": None,
        "recorded_at": 1_790_000_000,
        "status": "unknown",
    }


@requirement("O-12", "O-18", "O-20")
@pytest.mark.parametrize("changed", [{"exit_code": 0}, {"observed_tool": "Read"}])
async def test_a_changed_report_conflicts_and_the_stored_one_stays(
    house: House, changed: dict[str, Any]
) -> None:
    session = await house.session()
    await house.output(RECORD, **report(session))
    refused = await house.refusal(RECORD, **report(session, **changed))
    assert refused == {
        "error_kind": "external_observation_conflict",
        "state_changed": False,
        "recovery_kind": "fix_input",
        "failure_kind": "conflict",
    }
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert [(row["tool"], row["exit_code"]) for row in listed["observations"]] == [("Bash", None)]


@requirement("O-13")
async def test_the_same_identity_in_another_session_is_another_report(house: House) -> None:
    for _ in range(2):
        stored = await house.output(RECORD, **report(await house.session()))
        assert stored["inserted"] is True


@requirement("O-08")
@pytest.mark.parametrize(
    ("exit_code", "status"),
    [
        (None, "unknown"),
        (0, "reported_success"),
        (1, "reported_failure"),
        (-(2**31), "reported_failure"),
        (2**31 - 1, "reported_failure"),
    ],
)
async def test_a_status_is_what_the_exit_code_claims(
    house: House, exit_code: int | None, status: str
) -> None:
    stored = await house.output(RECORD, **report(await house.session(), exit_code=exit_code))
    assert stored["observation"]["status"] == status


@requirement("O-10", "O-14", "O-21", "O-27")
async def test_a_session_takes_256_reports_and_then_fails_closed(house: House) -> None:
    session = await house.session()
    answers = await asyncio.gather(*(house.call(RECORD, **report(session, event)) for event in range(1, 301)))
    assert sum(answer["success"] is True for answer in answers) == 256
    refused = next(answer["output"] for answer in answers if answer["success"] is False)
    assert isinstance(refused, dict)
    assert refused["error_kind"] == "external_observation_capacity"
    assert refused["failure_kind"] == "capacity"
    assert refused["recovery_kind"] == "user_action"
    assert "new Workflow Session" in str(refused["recovery"])
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert len(listed["observations"]) == 256
    kept = int(listed["observations"][0]["event_id"], 16)
    assert (await house.output(RECORD, **report(session, kept)))["inserted"] is False
    assert (await house.output(RECORD, **report(await house.session())))["inserted"] is True


@requirement("O-10", "O-21")
async def test_a_full_store_refuses_every_new_session_but_replays(house: House) -> None:
    session = await house.session()
    await house.output(RECORD, **report(session))
    await house.database.write(_fill)
    refused = await house.refusal(RECORD, **report(await house.session()))
    assert refused["error_kind"] == "external_observation_capacity"
    assert (await house.output(RECORD, **report(session)))["inserted"] is False


def _fill(tx: Any) -> None:
    tx.change(schema.counters.update().values(value=65_536))


@requirement("O-04", "O-22", "S-07")
async def test_a_closed_session_replays_conflicts_lists_and_takes_nothing_new(house: House) -> None:
    session = await house.session()
    first = await house.output(RECORD, **report(session))
    await house.output("close_session", session_id=session)
    assert await house.output(RECORD, **report(session)) == {**first, "inserted": False}
    assert (await house.refusal(RECORD, **report(session, exit_code=3)))["error_kind"] == (
        "external_observation_conflict"
    )
    assert await house.refusal(RECORD, **report(session, 2)) == {
        "error_kind": "session_closed",
        "state_changed": False,
        "recovery_kind": "user_action",
    }
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert [row["event_id"] for row in listed["observations"]] == [f"{1:064x}"]


@requirement("O-23", "C-20", "C-21", "C-11")
async def test_neither_admin_scope_nor_bootstrap_reaches_a_foreign_session(house: House) -> None:
    session = await house.session()
    assert (await house.refusal(RECORD, by=EVE, **report(session)))["error_kind"] == "unknown_project"
    assert (await house.refusal(RECORD, by=BOOTSTRAP, **report(session)))["error_kind"] == (
        "session_authority_denied"
    )
    assert (await house.refusal(LIST, by=EVE, project=DEMO, session_id=session))["error_kind"] == (
        "unknown_project"
    )
    await house.output(RECORD, **report(session))
    second_pat = user("ada", "session:collaborate")
    assert (await house.output(RECORD, by=second_pat, **report(session)))["inserted"] is False


@requirement("O-02", "O-24", "M-13")
async def test_an_extra_field_is_an_unknown_argument_and_is_not_repeated(house: House) -> None:
    session = await house.session()
    with pytest.raises(BadArguments) as refused:
        await house.call(RECORD, **report(session), command="rm -rf planted")
    assert str(refused.value) == "Unknown argument"
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert listed["observations"] == []


@requirement("O-01", "O-03", "O-24", "O-25")
@pytest.mark.parametrize(
    "changed",
    [
        {"adapter_id": "A" * 64},
        {"adapter_id": "a" * 63},
        {"adapter_id": "a" * 65},
        {"event_id": "g" * 64},
        {"observed_tool": ""},
        {"observed_tool": "a" * 65},
        {"observed_tool": "a b"},
        {"observed_tool": "a/b"},
        {"observed_tool": "é"},
        {"observed_tool": "Bash\n"},
        {"exit_code": 2**31},
        {"exit_code": -(2**31) - 1},
        {"session_id": "~s1"},
        {"session_id": "wc_sess_"},
        {"project": ""},
        {"project": "é" * 600},
        {"observed_tool": "\ud800"},
        {"observed_tool": "a\0"},
    ],
)
async def test_a_bad_value_is_refused_without_its_text(house: House, changed: dict[str, Any]) -> None:
    session = await house.session()
    refused = await house.refusal(RECORD, **report(session, **changed))
    assert refused == {
        "error_kind": "invalid_external_observation",
        "state_changed": False,
        "recovery_kind": "fix_input",
    }
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert listed["observations"] == []


@requirement("O-25", "M-13")
@pytest.mark.parametrize("exit_code", [1.0, True, "0"])
async def test_an_exit_code_of_another_type_is_a_structure_fault(house: House, exit_code: object) -> None:
    session = await house.session()
    with pytest.raises(BadArguments, match="Wrong type of argument: exit_code"):
        await house.call(RECORD, **report(session, exit_code=exit_code))


@requirement("O-03", "O-18")
async def test_listing_names_bad_values_with_its_own_words(house: House) -> None:
    session = await house.session()
    assert (await house.refusal(LIST, project="", session_id=session))["error_kind"] == (
        "session_project_mismatch"
    )
    assert (await house.refusal(LIST, project=DEMO, session_id="~s1"))["error_kind"] == "invalid_session_id"


@requirement("O-01", "O-04", "O-24", "C-16", "C-20")
@pytest.mark.parametrize("project", ["demo", "~p1", OTHER, FOREIGN, "agent:r9:demo"])
async def test_only_the_sessions_exact_canonical_project_is_taken(house: House, project: str) -> None:
    await house.output("list_projects")
    session = await house.session()
    for name, arguments in ((RECORD, report(session)), (LIST, {"session_id": session})):
        refused = await house.refusal(name, **{**arguments, "project": project})
        assert refused["error_kind"] == "session_project_mismatch"


@requirement("O-04")
async def test_a_session_without_project_takes_no_report(house: House) -> None:
    session = (await house.output("start_session", title="loose"))["session_id"]
    assert (await house.refusal(RECORD, **report(session)))["error_kind"] == "session_project_mismatch"


@requirement("O-04", "O-24", "S-08")
async def test_mode_and_guards_do_not_keep_a_report_out(house: House) -> None:
    started = await house.output(
        "start_session",
        project=DEMO,
        mode="read_only",
        guards={"deny_write_tools": True, "deny_shell_tools": True},
    )
    assert (await house.output(RECORD, **report(started["session_id"])))["inserted"] is True


@requirement("O-17", "O-26", "S-51", "S-72")
async def test_reports_leave_events_and_updated_at_alone(house: House) -> None:
    session = await house.session()
    before = await house.output("list_sessions", project=DEMO)
    total = (await house.output("read_session_summary", session_id=session))["events_total"]
    house.now += 50
    for event in range(1, 151):
        await house.output(RECORD, **report(session, event))
        await house.output(LIST, project=DEMO, session_id=session)
    house.now -= 50
    assert (await house.output("list_sessions", project=DEMO)) == before
    after = await house.output("read_session_summary", session_id=session)
    assert after["events_total"] == total + 2


@requirement("O-06", "O-07")
async def test_a_list_is_ordered_by_time_then_identity_and_never_complete(house: House) -> None:
    session = await house.session()
    for event in (3, 1):
        await house.output(RECORD, **report(session, event))
    house.now += 1
    await house.output(RECORD, **report(session, 2))
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert [int(row["event_id"], 16) for row in listed["observations"]] == [1, 3, 2]
    assert listed["coverage"] == {
        "complete": False,
        "reason": "source_sequence_unavailable",
        "ordering": "server_recorded_at_then_identity",
    }


@requirement("O-15", "O-27")
async def test_concurrent_differing_reports_leave_one_row(house: House) -> None:
    session = await house.session()
    answers = await asyncio.gather(
        *(house.call(RECORD, **report(session, exit_code=code)) for code in range(16))
    )
    assert sum(answer["success"] is True for answer in answers) == 1
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert len(listed["observations"]) == 1


@requirement("O-10", "O-27", "S-67")
async def test_no_report_is_stored_after_a_close(house: House) -> None:
    session = await house.session()
    calls = [house.call(RECORD, **report(session, event)) for event in range(1, 41)]
    calls.insert(10, house.call("close_session", session_id=session))
    answers = await asyncio.gather(*calls)
    refused = [answer["output"] for answer in answers if answer["success"] is False]
    assert refused
    assert {json.dumps(output) for output in refused} == {
        json.dumps({"error_kind": "session_closed", "state_changed": False, "recovery_kind": "user_action"})
    }
    listed = await house.output(LIST, project=DEMO, session_id=session)
    assert len(listed["observations"]) == 40 - len(refused)


@requirement("O-31", "M-20", "C-12")
async def test_a_model_cannot_reach_the_write_but_lists_through_the_gateway(house: House) -> None:
    session = await house.session()
    arguments = report(session)
    with pytest.raises(UnknownTool, match=r"^Unknown tool$"):
        await house.call(RECORD, audience=Audience.MODEL, **arguments)
    for audience in Audience:
        with pytest.raises(UnknownTool, match=r"^Unknown tool$"):
            await house.call("call_runtime_tool", audience=audience, tool=RECORD, arguments=arguments)
    await house.output(RECORD, **arguments)
    direct = await house.call(LIST, project=DEMO, session_id=session)
    through = await house.call_through_gateway(LIST, project=DEMO, session_id=session)
    assert through == direct


@requirement("O-01", "M-07")
async def test_each_tool_needs_its_scope(house: House) -> None:
    session = await house.session()
    with pytest.raises(MissingScope, match="missing required scope: session:collaborate"):
        await house.call(RECORD, by=user("ada", "runtime:read"), **report(session))
    with pytest.raises(MissingScope, match="missing required scope: runtime:read"):
        await house.call(LIST, by=user("ada", "project:read"), project=DEMO, session_id=session)
    assert ADA.scopes >= {"runtime:read", "session:collaborate"}
