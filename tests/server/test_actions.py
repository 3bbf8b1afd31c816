"""That an action is a tool call for one visible tool, and nothing at all for a hidden one (M-61)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import TOKEN, Server
from webcodex.core.access import Scope
from webcodex.tools import registry
from webcodex.tools.contract import Audience

VISIBLE: Final = {
    name: tool
    for tool in registry.TOOLS
    if tool.audience is Audience.MODEL
    for name in (tool.name, *tool.aliases)
}
HIDDEN: Final = [
    name
    for tool in registry.TOOLS
    if tool.audience is Audience.ADAPTER
    for name in (tool.name, *tool.aliases)
]
EVERY: Final = [scope.value for scope in Scope if scope is not Scope.ADMIN]
NOT_FOUND: Final = (404, {"status": 404, "error": "Not found"})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def act(server: Server, tool: str, body: dict[str, Any], token: str | None = TOKEN) -> tuple[int, Any]:
    return await server.post(f"/api/actions/{tool}", body, token)


async def begun(server: Server, project: str) -> str:
    status, answer = await act(server, "work_on_project", {"project": project, "instruction": "x"})
    assert status == 200, answer
    return str(answer["output"]["session_id"])


async def events(server: Server, session: str) -> list[dict[str, Any]]:
    _, answer = await server.call("read_session_summary", {"session_id": session})
    return list(answer["output"]["events"])


@requirement("M-61", "M-17")
async def test_every_visible_tool_answers_as_it_does_to_a_call(server: Server) -> None:
    for name in VISIBLE:
        # Whatever a tool says to arguments it does not know, both roads say it.
        expected = await server.post("/api/tools/call", {"tool": name, "params": {"planted": 1}})
        assert await act(server, name, {"planted": 1}) == expected
        assert expected[0] == 400


@requirement("M-61", "M-14")
async def test_results_and_failures_are_those_of_a_call(server: Server) -> None:
    project = await server.add_project(None, "r1", "demo")
    session = await begun(server, project)
    for name, arguments, status in (
        ("list_projects", {}, 200),
        ("list_sessions", {"project": project}, 200),
        ("session_handoff_summary", {"session_id": session}, 200),
        ("list_sessions", {"project": "agent:r1:absent"}, 400),
        ("read_files", {"project": project, "items": []}, 400),
        ("read_files", {"project": project}, 400),
    ):
        answer = await act(server, name, arguments)
        called = await server.call(name, arguments)
        if name == "session_handoff_summary":
            # Each of the two reads is itself recorded, so only the first one's count is smaller.
            counts = [body["output"]["handoff_brief"]["progress"] for _, body in (answer, called)]
            assert counts[0].pop("meaningful_tool_calls") + 1 == counts[1].pop("meaningful_tool_calls")
        assert answer == called
        assert answer[0] == status


@requirement("M-61", "M-20", "M-63", "M-17", "C-22", "M-62")
@pytest.mark.parametrize(
    "name", [*HIDDEN, *registry.RETIRED, "planted", "", "list_projects/", "LIST_PROJECTS"]
)
async def test_a_hidden_retired_or_unknown_tool_is_not_found(server: Server, name: str) -> None:
    for token in (TOKEN, None, "wc_pat_" + "0" * 64):
        assert await act(server, name, {}, token) == NOT_FOUND
        assert await act(server, name, {"tool": "list_projects", "params": {}}, token) == NOT_FOUND
    answer = await server.client.get(f"/api/actions/{name}")
    assert (answer.status_code, answer.json()) == NOT_FOUND


@requirement("M-34", "M-61", "M-63")
async def test_the_gateway_is_an_action_and_hides_what_is_hidden(server: Server) -> None:
    project = await server.add_project(None, "r1", "demo")
    direct = await act(server, "list_sessions", {"project": project})
    outer = {"tool": "list_sessions", "arguments": {"project": project}}
    assert await act(server, "call_runtime_tool", outer) == direct
    unknown = (400, {"status": 400, "error": "Unknown tool"})
    for name in (*HIDDEN, "planted"):
        assert await act(server, "call_runtime_tool", {"tool": name, "arguments": {}}) == unknown


@requirement("M-61", "M-12")
async def test_a_body_is_the_arguments_and_no_wrapper(server: Server) -> None:
    for key in ("params", "arguments", "tool", "session_id"):
        refused = {"status": 400, "error": "Unknown argument"}
        assert await act(server, "list_projects", {key: {}}) == (400, refused)
    assert await act(server, "list_projects", {"recording_session_id": None}) == await server.call(
        "list_projects", {}
    )


@requirement("M-61", "M-40", "M-42", "M-43", "S-50")
async def test_a_recorder_receives_one_pair(server: Server) -> None:
    project = await server.add_project(None, "r1", "demo")
    session = await begun(server, project)
    before = len(await events(server, session))
    body = {"project": project, "recording_session_id": session}
    status, answer = await act(server, "list_sessions", body)
    assert (status, answer["output"]["session_recorded"]) == (200, True)
    # Two events of the action, then the started event of the read that shows them.
    found = (await events(server, session))[before + 1 :]
    assert [(event["kind"], event["tool_name"]) for event in found[:2]] == [
        ("tool_call_started", "list_sessions"),
        ("tool_call_finished", "list_sessions"),
    ]
    assert answer["output"]["session_event_id"] == found[1]["event_id"]
    status, answer = await act(server, "list_sessions", {**body, "recording_session_id": "wc_sess_absent"})
    assert (status, answer["output"]["error_kind"]) == (400, "unknown_session_id")


@requirement("M-61", "M-07", "M-42", "C-22")
async def test_scopes_are_checked_before_the_structure_a_recorders_last(server: Server) -> None:
    await server.make_user("ada")
    for name, tool in VISIBLE.items():
        for missing in (scope.value for scope in tool.scopes):
            token = await server.make_pat("ada", *(scope for scope in EVERY if scope != missing))
            refused = {"status": 403, "error": f"missing required scope: {missing}"}
            for body in ({"planted": 1}, {"recording_session_id": 1}):
                assert await act(server, name, body, token) == (403, refused)
    token = await server.make_pat("ada", "project:read")
    refused = {"status": 403, "error": "missing required scope: session:collaborate"}
    fault = {"status": 400, "error": "recording_session_id must be a string"}
    wrong: list[object] = [1, True, ["x"], {}]
    for recorder in (*wrong, "~s1"):
        sent = {"planted": 1, "recording_session_id": recorder}
        assert await act(server, "list_projects", sent, token) == (403, refused)
    for recorder in wrong:
        sent = {"planted": 1, "recording_session_id": recorder}
        assert await act(server, "list_projects", sent) == (400, fault)


@requirement("M-62", "M-01", "M-03", "M-04", "M-05", "M-06", "M-09", "C-04", "C-05")
async def test_every_way_in_is_guarded(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    _, runner = await server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "r1"})
    for name in VISIBLE:
        path = f"/api/actions/{name}"
        assert await act(server, name, {}, None) == (401, {"error": "Unauthorized"})
        for token in (made["account_credential"], runner["token"]):
            assert (await act(server, name, {}, token))[0] == 403
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert (await server.post(path, {}, headers=headers))[0] == 403
        assert await server.post(path, b"[]") == (
            400,
            {"status": 400, "error": "Invalid JSON: not an object"},
        )
        answer = await server.client.get(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@requirement("M-35", "M-37", "M-61")
async def test_the_profile_of_an_action_is_direct_whatever_the_headers_say(server: Server) -> None:
    headers = {"X-WebCodex-MCP-Profile": "host_code_mode"}
    body = {"tool_name": "list_sessions"}
    status, answer = await server.post("/api/actions/read_tool_manifest", body, headers=headers)
    assert (status, answer["output"]["route"]["mode"]) == (200, "direct")
