"""A call may name the Session that records it; the metadata never reaches the tool (10.7)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import EVERY_SCOPE, Desk
from tests.tools import house
from webcodex.server.mcp_answers import Form
from webcodex.storage import sessions as stored_sessions

PARAMS = -32602


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


async def _tools_recorded(desk: Desk, session_id: str) -> list[tuple[str, str]]:
    """The ledger as stored: reading it with a tool would add to it."""
    events: list[Any] = await desk.house.database.read(
        lambda tx: stored_sessions.newest_events(tx, session_id, 200)
    )
    return [(event["kind"], event["tool_name"]) for event in events if "call_id" in event]


def _named(form: Form, recorder: object) -> list[dict[str, object]]:
    wrapped: dict[str, object] = {"_wc": {"record": recorder}}
    return [wrapped] if form is Form.STATELESS else [wrapped, {"recording_session_id": recorder}]


@requirement("M-40", "M-42", "M-43", "M-66")
async def test_named_recorder_gets_one_pair_of_events(desk: Desk) -> None:
    ada = await desk.pat("ada", *EVERY_SCOPE)
    recorder = await desk.house.session()
    for form in Form:
        for metadata in _named(form, recorder):
            before = await _tools_recorded(desk, recorder)
            arguments = {"project": house.DEMO, **metadata}
            done = (await desk.call("list_sessions", arguments, form=form, token=ada)).result
            output = done["structuredContent"]["output"]
            assert output["session_recorded"] is True
            after = await _tools_recorded(desk, recorder)
            pair = [("tool_call_started", "list_sessions"), ("tool_call_finished", "list_sessions")]
            assert after == [*before, *pair]


@requirement("M-43")
async def test_adapter_traffic_is_served_and_not_recorded(desk: Desk) -> None:
    recorder = await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    before = await _tools_recorded(desk, recorder)
    done = (await desk.call("list_projects", {"_wc": {"record": recorder}}, token=ada)).result
    output = done["structuredContent"]["output"]
    assert output["session_recorded"] is False
    assert "session_event_id" not in output
    assert await _tools_recorded(desk, recorder) == before
    unnamed = (await desk.call("list_projects", {}, token=ada)).result["structuredContent"]["output"]
    assert "session_recorded" not in unnamed


@requirement("M-40")
async def test_reference_names_a_recorder_and_null_names_none(desk: Desk) -> None:
    await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    by_ref = await desk.call("list_projects", {"_wc": {"record": "~s1"}}, token=ada)
    assert by_ref.result["structuredContent"]["output"]["session_recorded"] is False
    for form in Form:
        none = await desk.call("list_projects", {"_wc": None}, form=form, token=ada)
        assert "session_recorded" not in none.result["structuredContent"]["output"]


BAD: list[Any] = [
    {"_wc": {}},
    {"_wc": "x"},
    {"_wc": []},
    {"_wc": {"record": None}},
    {"_wc": {"record": 5}},
    *(
        {"_wc": {"record": "~s1", key: 1}}
        for key in ("ack", "ack_ref", "resolve", "reply", "context", "control")
    ),
    *({"_wc": {key: 1}} for key in ("ack", "ack_ref", "resolve", "reply", "context", "control")),
]
FLAT = (
    "ack_session_message_ids",
    "ack_ref",
    "session_message_resolution",
    "window_reply",
    "context_request",
    "_control",
)


@requirement("M-41", "M-66", "M-28")
async def test_every_other_key_is_an_unknown_field(desk: Desk) -> None:
    recorder = await desk.house.session()
    before = await _tools_recorded(desk, recorder)
    ada = await desk.pat("ada", *EVERY_SCOPE)
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        flat = [*FLAT, "recording_session_id"] if form is Form.STATELESS else FLAT
        for metadata in [*BAD, *({key: "~s1"} for key in flat)]:
            arguments = {"project": house.DEMO, **metadata}
            reply = await desk.call("list_sessions", arguments, form=form, token=ada)
            assert (reply.status, reply.code) == (status, PARAMS), metadata
            through = {"tool": "list_sessions", "arguments": {"project": house.DEMO}, **metadata}
            assert (await desk.call("call_runtime_tool", through, form=form, token=ada)).code == PARAMS, (
                metadata
            )
    wrongs: list[Any] = [5, [], {}]
    for wrong in wrongs:
        flat_wrong = {"project": house.DEMO, "recording_session_id": wrong}
        assert (await desk.call("list_sessions", flat_wrong, form=Form.INITIALIZE, token=ada)).code == PARAMS
    both = {"project": house.DEMO, "_wc": {"record": "~s1"}, "recording_session_id": "~s1"}
    assert (await desk.call("list_sessions", both, form=Form.INITIALIZE, token=ada)).code == PARAMS
    assert await _tools_recorded(desk, recorder) == before


@requirement("M-41", "M-66", "M-34")
async def test_recorder_of_a_gateway_call_sits_on_the_outer_call(desk: Desk) -> None:
    recorder = await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        inner = {"project": house.DEMO, "_wc": {"record": recorder}}
        refused = await desk.call(
            "call_runtime_tool", {"tool": "list_sessions", "arguments": inner}, form=form, token=ada
        )
        assert (refused.status, refused.code) == (status, PARAMS)
        for metadata in _named(form, recorder):
            outer = {"tool": "list_sessions", "arguments": {"project": house.DEMO}, **metadata}
            done = await desk.call("call_runtime_tool", outer, form=form, token=ada)
            assert done.result["structuredContent"]["output"]["session_recorded"] is True
    assert ("tool_call_finished", "list_sessions") in await _tools_recorded(desk, recorder)


@requirement("M-42", "M-66", "C-22")
async def test_recorder_needs_its_scope_after_those_of_the_tool(desk: Desk) -> None:
    recorder = await desk.house.session()
    before = await _tools_recorded(desk, recorder)
    named = {"project": house.DEMO, "_wc": {"record": recorder}}
    reader, bare = await desk.pat("ada", "runtime:read"), await desk.pat("ada")
    assert (await desk.call("list_sessions", {"project": house.DEMO}, token=reader)).status == 200
    for tool, arguments in (
        ("list_sessions", named),
        (
            "call_runtime_tool",
            {"tool": "list_sessions", "arguments": {"project": house.DEMO}, "_wc": named["_wc"]},
        ),
    ):
        refused = await desk.call(tool, arguments, token=reader)
        assert (refused.status, refused.body["error"]) == (403, "missing required scope: session:collaborate")
        first = await desk.call(tool, arguments, token=bare)
        assert (first.status, first.body["error"]) == (403, "missing required scope: runtime:read")
    assert await _tools_recorded(desk, recorder) == before


@requirement("M-42", "M-66", "C-22")
async def test_foreign_recorder_refuses_a_call_that_is_otherwise_permitted(desk: Desk) -> None:
    recorder = await desk.house.session()
    before = await _tools_recorded(desk, recorder)
    everyone = mcp_desk.BOOTSTRAP
    for form in Form:
        for metadata in _named(form, recorder):
            refused = await desk.call(
                "list_sessions", {"project": house.DEMO, **metadata}, form=form, token=everyone
            )
            structured = refused.result["structuredContent"]
            assert structured["output"]["error_kind"] == "session_authority_denied"
            assert structured["output"]["state_changed"] is False
        absent = {"project": house.DEMO, "_wc": {"record": "wc_sess_none"}, "limit": 0}
        failed = await desk.call("list_sessions", absent, form=form, token=everyone)
        assert failed.result["structuredContent"]["output"]["error_kind"] == "unknown_session_id"
    assert await _tools_recorded(desk, recorder) == before
