"""Which tools an MCP client is shown, which it may call, and what a call answers (10.5)."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import CLIENT_KEY, EVERY_SCOPE, Desk, Header
from tests.tools import house
from webcodex.server.mcp_answers import Form
from webcodex.tools import registry
from webcodex.tools.contract import Audience

PARAMS = -32602
GATEWAY = "call_runtime_tool"
HOST_MODE: Header = ("x-webcodex-mcp-profile", "host_code_mode")
VISIBLE = [tool for tool in registry.TOOLS if tool.audience is Audience.MODEL]
HIDDEN = [tool for tool in registry.TOOLS if tool.audience is Audience.ADAPTER]
HIDDEN_NAMES = [name for tool in HIDDEN for name in (tool.name, *tool.aliases)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


async def _listed(desk: Desk, *headers: Header, token: str = mcp_desk.BOOTSTRAP) -> list[dict[str, Any]]:
    by_form = [
        (await desk.ask(form, "tools/list", None, *headers, token=token)).result["tools"] for form in Form
    ]
    assert by_form[0] == by_form[1]
    return list(by_form[0])


def _names(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools]


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _parts(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _parts(part)


@requirement("M-31", "M-63", "M-20")
async def test_direct_profile_lists_every_visible_tool_the_short_set_first(desk: Desk) -> None:
    names = _names(await _listed(desk))
    served = {tool.name for tool in VISIBLE}
    first = [name for name in registry.SHORT_SET if name in served]
    rest = sorted(served - {*first, GATEWAY})
    assert names == [*first, *rest, GATEWAY]
    assert not set(HIDDEN_NAMES) & set(names)


@requirement("M-31", "M-34", "M-63")
async def test_host_profile_lists_the_short_set_and_the_gateway(desk: Desk) -> None:
    served = {tool.name for tool in VISIBLE}
    names = _names(await _listed(desk, HOST_MODE))
    assert names == [*(name for name in registry.SHORT_SET if name in served), GATEWAY]
    assert not set(HIDDEN_NAMES) & set(names)


@requirement("M-31", "M-23", "C-14")
async def test_only_tools_within_the_scopes_of_the_caller_are_listed(desk: Desk) -> None:
    assert _names(await _listed(desk, token=await desk.pat("ada"))) == [GATEWAY]
    reader = await desk.pat("ada", "project:read")
    wanted = [tool.name for tool in VISIBLE if set(tool.scopes) <= {"project:read"}]
    assert sorted(_names(await _listed(desk, token=reader))) == sorted(wanted)
    everything = _names(await _listed(desk))
    assert _names(await _listed(desk, token=await desk.pat("eve", "admin"))) == everything


@requirement("M-19", "M-32")
async def test_compact_specs_stand_alone_and_are_short(desk: Desk) -> None:
    for tool in await _listed(desk):
        assert set(tool) == {"name", "description", "inputSchema", "annotations"}
        assert 0 < len(tool["description"]) <= 420
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        for part in _parts(tool["inputSchema"]):
            assert "$ref" not in part
            assert "$defs" not in part
            assert len(part["description"] if isinstance(part.get("description"), str) else "") <= 180
        hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert set(tool["annotations"]) == hints
        assert all(isinstance(hint, bool) for hint in tool["annotations"].values())


@requirement("M-19", "M-32")
async def test_full_specs_describe_the_whole_answer(tmp_path: Path) -> None:
    async with mcp_desk.opened(tmp_path, WEBCODEX_MCP_COMPACT_SCHEMAS="false") as desk:
        for tool in await _listed(desk):
            schema = tool["outputSchema"]
            assert list(schema["properties"]) == ["success", "output", "error"]
            assert set(schema["required"]) == {"success", "output", "error"}
            assert schema["additionalProperties"] is False
            assert not any("$ref" in part for part in _parts(schema))


@requirement("M-30", "M-14")
async def test_result_holds_the_tool_result_as_structure_and_as_text(desk: Desk) -> None:
    for form in Form:
        done = (await desk.call("list_sessions", {"project": house.DEMO}, form=form)).result
        structured = done["structuredContent"]
        assert set(structured) == {"success", "output", "error"}
        assert (structured["success"], structured["error"], done["isError"]) == (True, None, False)
        assert structured["output"]["next_offset"] is None
        assert done["content"] == [
            {"type": "text", "text": json.dumps(structured, separators=(",", ":"), ensure_ascii=False)}
        ]
        failed = (await desk.call("list_sessions", {"project": "agent:r1:none"}, form=form)).result
        assert failed["isError"] is True
        assert failed["structuredContent"]["success"] is False
        assert failed["structuredContent"]["output"]["error_kind"] == "unknown_project"
        assert json.loads(failed["content"][0]["text"]) == failed["structuredContent"]


@requirement("M-30")
async def test_openai_client_never_gets_an_error_flag(desk: Desk) -> None:
    for name, flagged in (
        ("openai-mcp", False),
        ("openai-mcp ", True),
        ("OpenAI-MCP", True),
        ("codex", True),
    ):
        for form in Form:
            meta = {CLIENT_KEY: {"name": name, "version": "1"}}
            params = {"name": "list_sessions", "arguments": {"project": "agent:r1:none"}, "_meta": meta}
            failed = (await desk.ask(form, "tools/call", params)).result
            assert failed["isError"] is flagged
            assert failed["structuredContent"]["success"] is False


@requirement("M-30")
async def test_text_is_one_short_line_where_json_text_is_off(tmp_path: Path) -> None:
    async with mcp_desk.opened(tmp_path, WEBCODEX_MCP_TEXT_JSON_COMPAT="false") as desk:
        for project, expected in ((house.DEMO, True), ("agent:r1:none", False)):
            for form in Form:
                done = (await desk.call("list_sessions", {"project": project}, form=form)).result
                assert done["structuredContent"]["success"] is expected
                (part,) = done["content"]
                assert part["type"] == "text"
                assert part["text"].startswith("list_sessions: ")
                assert len(part["text"]) <= 240
                assert "\n" not in part["text"]


@requirement("M-33", "M-38")
async def test_every_visible_tool_is_callable_in_both_profiles(desk: Desk) -> None:
    for tool in VISIBLE:
        for headers in ([], [HOST_MODE]):
            direct = await desk.call(tool.name, {"nothing": 1}, *headers)
            assert (direct.status, direct.code) == (400, PARAMS)
            assert "Unknown tool" not in direct.text
    listed = await desk.call("list_sessions", {"project": house.DEMO}, HOST_MODE)
    assert listed.result["structuredContent"]["success"] is True


@requirement("M-20", "M-63", "M-17", "M-02")
async def test_hidden_and_unknown_tools_are_unknown_both_ways(desk: Desk) -> None:
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        for name in [*HIDDEN_NAMES, "planted-9d1f", "", "List_Projects"]:
            direct = await desk.call(name, {}, form=form)
            assert (direct.status, direct.body["error"]) == (
                status,
                {"code": PARAMS, "message": "Unknown tool"},
            ), name
            if name:
                through = await desk.call(GATEWAY, {"tool": name, "arguments": {}}, form=form)
                assert through.body["error"] == direct.body["error"], name
                assert through.status == status
    retired = await desk.call("show_changes")
    assert retired.body["error"]["message"] == "Unknown tool. Use read_workspace_changes."
    assert all(registry.find(name, Audience.ADAPTER) in HIDDEN for name in HIDDEN_NAMES)
    assert (await desk.house.output("start_session", title="By a program"))["lifecycle"] == "active"


@requirement("M-34")
async def test_gateway_answers_what_its_target_answers(desk: Desk) -> None:
    for form in Form:
        for headers in ([], [HOST_MODE]):
            arguments = {"project": house.DEMO}
            direct = await desk.call("list_sessions", arguments, *headers, form=form)
            through = await desk.call(
                GATEWAY, {"tool": "list_sessions", "arguments": arguments}, *headers, form=form
            )
            assert through.body == direct.body


@requirement("M-34", "M-28", "C-22")
async def test_gateway_checks_its_keys_then_the_target_then_scopes_then_the_inner_structure(
    desk: Desk,
) -> None:
    bare = await desk.pat("ada")
    inner = {"tool": "list_sessions", "arguments": {"nothing": 1}}
    steps: list[tuple[dict[str, Any], str, int, str]] = [
        ({"tool": "planted", "arguments": {}, "nothing": 1}, bare, 400, "Unknown argument"),
        ({"tool": "list_sessions"}, bare, 400, "Missing argument: arguments"),
        ({"arguments": {}}, bare, 400, "Missing argument: tool"),
        ({"tool": "list_sessions", "arguments": [1]}, bare, 400, "Wrong type of argument: arguments"),
        ({"tool": "planted", "arguments": {"nothing": 1}}, bare, 400, "Unknown tool"),
        ({"tool": GATEWAY, "arguments": {}}, bare, 400, "call_runtime_tool cannot target itself"),
        (inner, bare, 403, "missing required scope: runtime:read"),
        (inner, mcp_desk.BOOTSTRAP, 400, "Missing argument: project"),
    ]
    for arguments, token, status, text in steps:
        reply = await desk.call(GATEWAY, arguments, token=token)
        error = reply.body["error"]
        assert (reply.status, error if isinstance(error, str) else error["message"]) == (status, text)


@requirement("M-28", "M-07", "M-23", "C-22")
async def test_missing_scope_is_403_before_the_structure_and_after_the_name(desk: Desk) -> None:
    reader = await desk.pat("ada", "project:read")
    for form in Form:
        refused = await desk.call("list_sessions", {"nothing": 1}, form=form, token=reader)
        assert (refused.status, refused.body) == (
            403,
            {"status": 403, "error": "missing required scope: runtime:read"},
        )
        shapeless = {"name": "list_sessions", "arguments": [1]}
        assert (await desk.ask(form, "tools/call", shapeless, token=reader)).status == 403
        unknown = await desk.call("list_nothing", {"nothing": 1}, form=form, token=reader)
        assert unknown.code == PARAMS
        served = await desk.call("list_projects", {}, form=form, token=reader)
        shown = served.result["structuredContent"]["output"]["projects"]
        assert {project["project"] for project in shown} == {house.DEMO, house.OTHER}


@requirement("M-28", "M-13", "C-22")
async def test_bad_structure_is_an_error_and_a_bad_value_a_failed_result(desk: Desk) -> None:
    token = await desk.pat("ada", *EVERY_SCOPE)
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        for arguments, text in (
            ({}, "Missing argument: project"),
            ({"project": house.DEMO, "planted": 1}, "Unknown argument"),
            ({"project": 5}, "Wrong type of argument: project"),
            ({"project": house.DEMO, "limit": True}, "Wrong type of argument: limit"),
            ({"project": house.DEMO, "limit": 1.0}, "Wrong type of argument: limit"),
        ):
            reply = await desk.call("list_sessions", arguments, form=form, token=token)
            assert (reply.status, reply.body["error"]) == (status, {"code": PARAMS, "message": text})
        for outside in ({"limit": 21}, {"project": ""}):
            valued = {"project": house.DEMO, **outside}
            failed = (await desk.call("list_sessions", valued, form=form, token=token)).result
            assert failed["structuredContent"]["output"]["error_kind"] == "invalid_arguments"
    nothing = {"name": "list_projects", "arguments": None}
    assert (await desk.ask(Form.INITIALIZE, "tools/call", nothing)).result["isError"] is False
    no_object = await desk.ask(Form.STATELESS, "tools/call", {"name": "list_projects", "arguments": [1]})
    assert no_object.body["error"] == {"code": PARAMS, "message": "Arguments must be an object"}
