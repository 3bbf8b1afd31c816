"""Proves Session messages (30.4, S-64 to S-66), on a real store."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import DEMO, EVE, House
from webcodex.tools.contract import BadArguments

POST = "post_session_message"
LIST = "list_session_messages"
RESOLVE = "resolve_session_message"


async def post(house: House, session: str, kind: str = "note", **given: Any) -> dict[str, Any]:
    arguments = {"session_id": session, "kind": kind, "message": "kept as it is", **given}
    return await house.output(POST, **arguments)


@requirement("S-16", "S-64", "S-02")
async def test_a_posted_message_is_kept_and_listed(house: House) -> None:
    session = await house.session()
    posted = await post(house, "~s1", "decision", tags=["a", "b"], priority="high", requires_ack=True)
    message = posted.pop("message")
    assert posted == {
        "success": True,
        "session_id": session,
        "message_id": message["message_id"],
        "replayed": False,
        "state_changed": True,
    }
    assert message == {
        "message_id": message["message_id"],
        "session_id": session,
        "kind": "decision",
        "message": "kept as it is",
        "tags": ["a", "b"],
        "reply_to": None,
        "priority": "high",
        "requires_ack": True,
        "status": "open",
        "created_at": house.now,
        "resolved_at": None,
        "resolution": None,
        "supersedes": None,
        "superseded_by": None,
        "redacted": False,
    }
    await house.reopen()
    listed = await house.output(LIST, session_id=session)
    assert listed == {
        "session_id": session,
        "total": 1,
        "returned": 1,
        "truncated": False,
        "messages": [message],
    }


@requirement("S-20", "S-23", "S-75")
@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("API_KEY=abc", True),
        ("the token is abc", True),
        ("Bearer abcdefghijklmnop1234", True),
        ("fixed the tokenizer", False),
        ("ran wc_agent_run_x again", False),
    ],
)
async def test_a_secret_in_a_message_never_reaches_the_file(
    house: House, text: str, *, redacted: bool
) -> None:
    session = await house.session()
    planted = f"{text} 🧪planted"
    message = (await post(house, session, message=planted, tags=[text]))["message"]
    resolved = await house.output(
        RESOLVE, session_id=session, message_id=message["message_id"], resolution=planted
    )
    assert message["message"] == ("[redacted]" if redacted else planted)
    assert message["tags"] == ["[redacted]" if redacted else text]
    assert resolved["message"]["resolution"] == message["message"]
    assert resolved["message"]["redacted"] is redacted
    house.database.close()
    kept = b"".join(path.read_bytes() for path in house.path.parent.iterdir())
    assert ("🧪planted".encode() in kept) is not redacted
    await house.reopen()


@requirement("S-64", "S-73")
async def test_one_delivery_key_posts_once_from_sixteen_callers_and_after_a_restart(house: House) -> None:
    session = await house.session()
    given = {"delivery_key": "k", "message": "once"}
    answers = await asyncio.gather(*(post(house, session, **given) for _ in range(16)))
    assert sum(answer["state_changed"] for answer in answers) == 1
    assert len({answer["message_id"] for answer in answers}) == 1
    assert all(answer["message"]["message"] == "once" for answer in answers)
    await house.reopen()
    assert (await post(house, session, **given))["replayed"] is True
    for changed in ({"message": "twice"}, {"kind": "risk"}, {"tags": ["t"]}, {"priority": "low"}):
        arguments = {"session_id": session, "kind": "note", **given, **changed}
        refused = await house.refusal(POST, **arguments)
        assert (refused["error_kind"], refused["recovery_kind"]) == ("idempotency_conflict", "fix_input")
    assert (await house.output(LIST, session_id=session))["total"] == 1


@requirement("S-18", "S-64")
async def test_room_is_made_by_resolved_then_quiet_messages_and_attention_stays(house: House) -> None:
    session = await house.session()
    first = await post(house, session, "note", delivery_key="first")
    second = await post(house, session, "note")
    for _ in range(198):
        await post(house, session, "risk")
    await house.output(RESOLVE, session_id=session, message_id=second["message_id"])
    await post(house, session, "risk")
    await post(house, session, "risk")
    gone = [
        await house.output(LIST, session_id=session, message_id=one["message_id"]) for one in (first, second)
    ]
    assert [answer["total"] for answer in gone] == [0, 0]
    for kind in ("note", "todo"):
        refused = await house.refusal(POST, session_id=session, kind=kind, message="x")
        assert (refused["error_kind"], refused["recovery_kind"]) == (
            "session_message_capacity",
            "user_action",
        )
    replayed = await post(house, session, "note", delivery_key="first")
    assert (replayed["replayed"], replayed["message"]) == (True, None)
    counts = (await house.output("read_session_summary", session_id=session))["messages"]
    assert counts == {
        "total": 202,
        "retained": 200,
        "evicted": 2,
        "open": 200,
        "open_guidance": 0,
        "open_risks": 200,
        "open_questions": 0,
        "open_todos": 0,
    }


@requirement("S-17", "S-64")
async def test_a_superseded_message_needs_no_attention(house: House) -> None:
    session = await house.session()
    old = await post(house, session, "question")
    new = await post(house, session, "question", supersedes=old["message_id"])
    answer = await post(house, session, "answer", reply_to=new["message_id"])
    assert answer["message"]["reply_to"] == new["message_id"]
    listed = await house.output(LIST, session_id=session, message_id=old["message_id"])
    assert listed["messages"][0]["superseded_by"] == new["message_id"]
    counts = (await house.output("read_session_summary", session_id=session))["messages"]
    assert (counts["open"], counts["open_questions"]) == (3, 1)
    for named, word in (
        ({"supersedes": old["message_id"]}, "invalid_session_message"),
        ({"supersedes": answer["message_id"]}, "invalid_session_message"),
        ({"supersedes": "wc_msg_gone"}, "unknown_message_id"),
        ({"reply_to": "wc_msg_gone"}, "unknown_message_id"),
    ):
        refused = await house.refusal(POST, session_id=session, kind="question", message="x", **named)
        assert refused["error_kind"] == word
    assert (await house.output(LIST, session_id=session))["total"] == 3


@requirement("S-66")
async def test_the_first_resolution_stays(house: House) -> None:
    session = await house.session()
    message_id = (await post(house, session, "todo"))["message_id"]
    house.now += 5
    first = await house.output(RESOLVE, session_id=session, message_id=message_id, resolution="done")
    assert (first["already_resolved"], first["state_changed"]) == (False, True)
    assert (first["message"]["status"], first["message"]["resolved_at"]) == ("resolved", house.now)
    house.now += 5
    again = await house.output(RESOLVE, session_id=session, message_id=message_id, resolution="other")
    assert (again["already_resolved"], again["state_changed"]) == (True, False)
    assert again["message"] == first["message"]
    refused = await house.refusal(RESOLVE, session_id=session, message_id="wc_msg_gone")
    assert refused["error_kind"] == "unknown_message_id"


@requirement("S-65")
async def test_filters_of_a_list_hold_together(house: House) -> None:
    session = await house.session()
    question = await post(house, session, "question")
    await post(house, session, "answer", reply_to=question["message_id"])
    await post(house, session, "question")
    await house.output(RESOLVE, session_id=session, message_id=question["message_id"])
    for wanted, total in (
        ({}, 3),
        ({"kind": "question"}, 2),
        ({"kind": "question", "status": "open"}, 1),
        ({"reply_to": question["message_id"]}, 1),
        ({"kind": "question", "reply_to": question["message_id"]}, 0),
        ({"message_id": question["message_id"]}, 1),
    ):
        listed = await house.output(LIST, session_id=session, **wanted)
        assert listed["total"] == total
    page = await house.output(LIST, session_id=session, limit=2)
    assert (page["total"], page["returned"], page["truncated"]) == (3, 2, True)
    assert [message["kind"] for message in page["messages"]] == ["question", "answer"]


@requirement("S-03", "S-64")
@pytest.mark.parametrize(
    "given",
    [
        {"message": ""},
        {"message": "x" * 8001},
        {"message": "a\0"},
        {"message": "\ud800"},
        {"kind": "verdict"},
        {"tags": ["x"] * 17},
        {"tags": [""]},
        {"tags": ["x" * 65]},
        {"priority": "urgent"},
        {"delivery_key": ""},
        {"delivery_key": "k" * 129},
    ],
)
async def test_a_message_out_of_bounds_is_not_kept(house: House, given: dict[str, Any]) -> None:
    session = await house.session()
    arguments = {"session_id": session, "kind": "note", "message": "x", **given}
    refused = await house.refusal(POST, **arguments)
    assert (refused["error_kind"], refused["state_changed"]) == ("invalid_session_message", False)
    assert (await house.output(LIST, session_id=session))["total"] == 0


@requirement("M-13", "S-64")
@pytest.mark.parametrize("given", [{"tags": "ab"}, {"requires_ack": 1}, {"message": 1}, {"kind": 1}])
async def test_a_message_of_another_type_is_a_structure_fault(house: House, given: dict[str, Any]) -> None:
    session = await house.session()
    arguments = {"session_id": session, "kind": "note", "message": "x", **given}
    with pytest.raises(BadArguments):
        await house.call(POST, **arguments)


@requirement("S-07", "S-08", "S-52", "C-20")
async def test_a_closed_or_foreign_session_takes_no_message(house: House) -> None:
    session = await house.session()
    message_id = (await post(house, session))["message_id"]
    assert (await house.refusal(POST, by=EVE, session_id=session, kind="note", message="x"))[
        "error_kind"
    ] == "unknown_project"
    await house.output("close_session", session_id=session)
    before = (await house.output("read_session_summary", session_id=session))["events_total"]
    for name, given in ((POST, {"kind": "note", "message": "x"}), (RESOLVE, {"message_id": message_id})):
        refused = await house.refusal(name, session_id=session, **given)
        assert (refused["error_kind"], refused["state_changed"]) == ("session_closed", False)
    after = (await house.output("read_session_summary", session_id=session))["events_total"]
    assert after == before + 2
    assert (await house.output(LIST, session_id=session))["total"] == 1


@requirement("S-02", "S-50", "H-06", "H-08", "H-12", "S-70")
async def test_decisions_progress_and_risks_reach_the_brief(house: House) -> None:
    session = await house.session()
    await post(house, session, "decision", message="use integers")
    await post(house, session, "progress", message="lower bound done")
    await post(house, session, "risk", message="overflow")
    state = await house.output("get_session_handoff_state", project=DEMO, session_id=session)
    brief = state["handoff_brief"]
    assert [item["excerpt"] for item in brief["task"]["decisions"]["items"]] == ["use integers"]
    assert [item["excerpt"] for item in brief["task"]["recent_progress"]["items"]] == ["lower bound done"]
    assert brief["attention"]["open_risks"] == 1
    assert brief["progress"]["state"] == "blocked"
    assert "Review the open risks." in brief["next_actions"]
    assert brief["progress"]["meaningful_tool_calls"] == 3


@requirement("H-40", "H-64")
async def test_a_message_moves_the_fence(house: House) -> None:
    session = await house.session()
    before = await house.output("get_session_handoff_state", project=DEMO, session_id=session)
    house.now += 9
    await post(house, session, "progress")
    listed = await house.output("list_sessions", project=DEMO)
    assert listed["sessions"][0]["updated_at"] == house.now
    after = await house.output("get_session_handoff_state", project=DEMO, session_id=session)
    assert before["handoff_brief"]["task"] != after["handoff_brief"]["task"]
