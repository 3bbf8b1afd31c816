"""Proves what calls write into a Session's ledger (30.3, 30.8) and into a recorder's (M-42, M-43)."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import BOOTSTRAP, DEMO, House, user
from webcodex.core import ledger
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools.contract import MissingScope

SUMMARY = "read_session_summary"


async def events(house: House, session_id: str, **arguments: Any) -> list[dict[str, Any]]:
    output = await house.output(SUMMARY, session_id=session_id, **arguments)
    listed: list[dict[str, Any]] = output["events"]
    return listed


@requirement("S-50", "S-10")
async def test_a_read_appends_its_pair_around_the_snapshot(house: House) -> None:
    session = await house.session()
    shown = await events(house, session)
    assert [event["kind"] for event in shown] == ["task_instruction", "tool_call_started"]
    later = await events(house, session)
    assert [event["kind"] for event in later[1:3]] == ["tool_call_started", "tool_call_finished"]
    started, finished = later[1], later[2]
    assert started["call_id"] == finished["call_id"]
    assert finished == {
        "event_id": finished["event_id"],
        "sequence": 3,
        "kind": "tool_call_finished",
        "at": house.now,
        "call_id": started["call_id"],
        "tool_name": SUMMARY,
        "status": "succeeded",
        "started_at": house.now,
        "finished_at": house.now,
        "read_like": True,
    }


@requirement("S-51", "S-72", "S-02")
async def test_only_meaningful_calls_move_updated_at(house: House) -> None:
    session = await house.session()
    before = (await house.output("list_sessions", project=DEMO))["sessions"][0]["updated_at"]
    house.now += 5
    await house.output("get_session_handoff_state", project=DEMO, session_id=session)
    await house.output("list_sessions", project=DEMO)
    assert (await house.output("list_sessions", project=DEMO))["sessions"][0]["updated_at"] == before
    await house.output("read_session_handoff", session_id=session)
    assert (await house.output("list_sessions", project=DEMO))["sessions"][0]["updated_at"] == house.now


@requirement("S-13", "S-15", "S-71", "S-03")
async def test_the_oldest_events_leave_and_sequences_stay(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: _fill(tx, session, 2080))
    for _ in range(10):
        await house.output("list_sessions", project=DEMO, recorder=session)
    summary = await house.output(SUMMARY, session_id=session, limit=200)
    assert summary["events_total"] == 2102
    assert summary["events_retained"] == 2000
    assert summary["events_evicted"] == 102
    assert summary["retention_truncated"] is True
    assert summary["ledger_first_retained_sequence"] == 103
    assert [event["sequence"] for event in summary["events"]] == list(range(1903, 2103))
    assert (summary["events_returned"], summary["events_truncated"]) == (200, True)


def _fill(tx: Transaction, session_id: str, count: int) -> None:
    session = stored_sessions.find(tx, session_id)
    assert session is not None
    written = [
        ledger.Event(event_id=f"evt_{number:016d}", kind=ledger.Kind.CALL_STARTED, at=1)
        for number in range(count)
    ]
    stored_sessions.append(tx, session, written, now=1)


@requirement("M-42", "M-43", "S-50", "S-52")
async def test_a_recorder_gets_the_pair_and_the_answer_says_so(house: House) -> None:
    recorder = await house.session()
    answered = await house.output("list_sessions", project=DEMO, recorder=recorder)
    assert answered["session_recorded"] is True
    shown = await events(house, recorder)
    assert answered["session_event_id"] == shown[2]["event_id"]
    await house.output("close_session", session_id=recorder)
    late = await house.output("list_sessions", project=DEMO, recorder="~s1")
    assert late["session_recorded"] is True


@requirement("M-43", "S-51")
async def test_adapter_traffic_with_a_recorder_records_nothing(house: House) -> None:
    recorder = await house.session()
    answered = await house.output("list_projects", recorder=recorder)
    assert answered["session_recorded"] is False
    assert "session_event_id" not in answered
    assert len(await events(house, recorder)) == 2


@requirement("M-42", "M-66", "C-20", "S-52")
async def test_a_foreign_recorder_refuses_an_otherwise_permitted_call(house: House) -> None:
    recorder = await house.session()
    refused = await house.refusal("list_sessions", by=BOOTSTRAP, project=DEMO, recorder=recorder)
    assert refused["error_kind"] == "session_authority_denied"
    with pytest.raises(MissingScope, match="session:collaborate"):
        await house.call("list_projects", by=user("ada", "project:read"), recorder=recorder)
    assert len(await events(house, recorder)) == 2


@requirement("M-43")
async def test_a_recorder_that_is_the_business_session_gets_one_pair(house: House) -> None:
    session = await house.session()
    await house.output(SUMMARY, session_id=session, recorder=session)
    assert [event["kind"] for event in await events(house, session)] == [
        "task_instruction",
        "tool_call_started",
        "tool_call_finished",
        "tool_call_started",
    ]


@requirement("S-52", "S-10")
async def test_a_failed_call_finishes_its_pair_with_its_word(house: House) -> None:
    recorder = await house.session()
    refused = await house.refusal("read_files", project=DEMO, items=[{"path": "a"}], recorder=recorder)
    assert refused["error_kind"] == "runner_unavailable"
    finished = (await events(house, recorder))[2]
    assert (finished["status"], finished["error_kind"]) == ("failed", "runner_unavailable")


@requirement("S-52")
async def test_a_call_refused_by_authority_writes_nothing(house: House) -> None:
    recorder = await house.session()
    await house.refusal("read_files", project="agent:r1:none", items=[{"path": "a"}], recorder=recorder)
    assert len(await events(house, recorder)) == 2


@requirement("S-10", "S-12", "H-08")
async def test_files_that_were_read_become_observed_paths_and_their_text_stays_out(house: House) -> None:
    text = "planted file body"
    items = [_item(0, "a.py", text), _item(1, "b.py", None)]
    house.runner.answers["read_files"] = {
        "requested_count": 2,
        "returned_count": 2,
        "succeeded_count": 1,
        "failed_count": 1,
        "items": items,
        "output_truncated": False,
        "next_index": None,
    }
    session = await house.session()
    asked = [{"path": "a.py", "start_line": None}, {"path": "b.py"}]
    answer = await house.output("read_files", project="demo", items=asked, recorder=session)
    assert [item["success"] for item in answer["items"]] == [True, False]
    assert house.runner.asked[-1][1:] == (
        "read_files",
        {
            "items": [
                {"path": "a.py", "start_line": 1, "limit": 2000},
                {"path": "b.py", "start_line": 1, "limit": 2000},
            ],
            "with_line_numbers": False,
        },
    )
    shown = await events(house, session)
    assert shown[2]["observed_paths"] == ["a.py"]
    assert text not in str(shown)
    brief = (await house.output("read_session_handoff", session_id=session))["handoff_brief"]
    assert brief["progress"]["recent_files"]["items"] == ["a.py"]


def _item(index: int, path: str, text: str | None) -> dict[str, Any]:
    output = None
    if text is not None:
        output = {
            "text": text,
            "format": "plain",
            "path": path,
            "sha256": "0" * 64,
            "start_line": 1,
            "limit": 2000,
            "total_lines": 1,
            "returned_lines": 1,
            "end_line": 1,
            "has_more": False,
            "next_start_line": None,
        }
    error = None if text is not None else {"reason": "not_found"}
    return {"index": index, "path": path, "success": text is not None, "error": error, "output": output}
