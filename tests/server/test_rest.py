"""Tool calls over REST: forms, order of refusals, statuses (10.3, C-22)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server

CALL = "/api/tools/call"
DIGEST = "a" * 64


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def session(server: Server, token: str | None = in_process.TOKEN, **params: object) -> str:
    status, result = await server.call("start_session", params, token)
    assert status == 200, result
    return str(result["output"]["session_id"])


def error(status: int, text: str) -> tuple[int, dict[str, object]]:
    return status, {"status": status, "error": text}


@requirement("M-11", "M-12", "M-14")
async def test_every_form_of_a_call_is_the_same_call(server: Server) -> None:
    session_id = await session(server, title="One")
    arguments = {"session_id": session_id, "limit": 1}
    forms: list[dict[str, Any]] = [
        {"tool": "read_session_summary", "params": arguments},
        {"tool": "read_session_summary", "arguments": arguments},
        {"tool": "read_session_summary", **arguments},
        {"tool": "read_session_summary", "params": arguments, "arguments": {"no": "such"}},
        {"tool": "read_session_summary", "params": None, "arguments": arguments},
        {"tool": "read_session_summary", "params": None, "arguments": None, **arguments},
        {"tool": "read_session_summary", "params": arguments, "recording_session_id": None},
    ]
    for form in forms:
        status, result = await server.post(CALL, form)
        assert (status, set(result), result["success"]) == (200, {"success", "output"}, True), form
        assert (result["output"]["session_id"], result["output"]["title"]) == (session_id, "One")


@requirement("M-12", "M-13")
async def test_what_is_no_form_of_a_call_is_refused_by_name(server: Server) -> None:
    tool = {"tool": "list_projects"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "tool must be the name of a tool"),
        ({"tool": ""}, "tool must be the name of a tool"),
        ({"tool": 7}, "tool must be the name of a tool"),
        ({"tool": None, "params": {}}, "tool must be the name of a tool"),
        ({**tool, "params": []}, "params and arguments must be objects"),
        ({**tool, "params": "x"}, "params and arguments must be objects"),
        ({**tool, "params": {}, "arguments": 1}, "params and arguments must be objects"),
        ({**tool, "arguments": False}, "params and arguments must be objects"),
        ({**tool, "params": {}, "project": "p"}, "Unknown argument beside params or arguments"),
        ({**tool, "arguments": {}, "extra": None}, "Unknown argument beside params or arguments"),
        ({**tool, "recording_session_id": 5}, "recording_session_id must be a string"),
        ({**tool, "secret_key": "v"}, "Unknown argument"),
        ({**tool, "params": {"secret_key": "v"}}, "Unknown argument"),
        ({"tool": "list_sessions"}, "Missing argument: project"),
        ({"tool": "list_sessions", "project": 5}, "Wrong type of argument: project"),
        ({"tool": "list_sessions", "project": None}, "Wrong type of argument: project"),
        ({"tool": "list_sessions", "project": "p", "limit": True}, "Wrong type of argument: limit"),
        ({"tool": "list_sessions", "project": "p", "limit": 1.0}, "Wrong type of argument: limit"),
    ]
    for body, text in cases:
        assert await server.post(CALL, body) == error(400, text), body


@requirement("M-12")
async def test_a_top_level_session_id_is_an_argument_and_never_a_recorder(server: Server) -> None:
    session_id = await session(server)
    assert await server.post(CALL, {"tool": "list_projects", "session_id": session_id}) == error(
        400, "Unknown argument"
    )
    _, result = await server.call("read_session_summary", {"session_id": session_id})
    assert [event["kind"] for event in result["output"]["events"]] == ["tool_call_started"]


@requirement("M-13", "M-14")
async def test_a_value_fault_is_a_failed_tool_result(server: Server) -> None:
    status, result = await server.post(CALL, {"tool": "read_session_summary", "session_id": "no session"})
    assert status == 400
    assert result["success"] is False
    assert result["output"] == {
        "error_kind": "invalid_session_id",
        "state_changed": False,
        "recovery_kind": "fix_input",
    }
    assert "no session" not in json.dumps(result)


@requirement("M-02", "M-13")
async def test_a_lone_surrogate_or_nul_is_a_value_fault(server: Server) -> None:
    for text in ("\ud800", "x\udfffx", "a\0b"):
        status, result = await server.call("start_session", {"title": text})
        assert (status, result["output"]["error_kind"]) == (400, "invalid_arguments")
        body = {"tool": "list_projects", "recording_session_id": text}
        status, result = await server.post(CALL, body)
        assert (status, result["output"]["error_kind"]) == (400, "invalid_session_id")
        assert await server.post(CALL, {"tool": text}) == error(400, "Unknown tool")
        for body in (
            {"tool": "list_projects", text: "1"},
            {"tool": "read_session_summary", "session_id": text},
        ):
            status, _ = await server.post(CALL, body)
            assert status == 400


NO_JSON_OBJECT: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"{'tool':1}", "not JSON"),
    (b'{"tool":"x"} {}', "not JSON"),
    (b'\xef\xbb\xbf{"tool":"x"}', "not JSON"),
    (b'{"tool":"\xff"}', "not UTF-8"),
    ('{"tool":"x"}'.encode("utf-16"), "not UTF-8"),
    (b"[]", "not an object"),
    (b"null", "not an object"),
    (b'"x"', "not an object"),
    (b'{"tool":NaN}', "a number is out of range"),
    (b'{"tool":-Infinity}', "a number is out of range"),
    (b'{"tool":1e999}', "a number is out of range"),
    (b'{"tool":' + b"9" * 5000 + b"}", "a number is out of range"),
    (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "nested too deeply"),
    (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"),
]


@requirement("M-01", "M-09")
async def test_what_is_no_json_object_is_named_by_a_fixed_reason(server: Server) -> None:
    for body, reason in NO_JSON_OBJECT:
        assert await server.post(CALL, body) == error(400, f"Invalid JSON: {reason}"), body[:20]


@requirement("M-09")
async def test_brackets_inside_strings_are_no_depth(server: Server) -> None:
    deepest = b'{"tool":"no_such","a":' + b"[" * 63 + b'"' + b"[{" * 500 + b'"' + b"]" * 63 + b"}"
    assert await server.post(CALL, deepest) == error(400, "Unknown tool")


@requirement("M-01")
async def test_another_media_type_is_refused(server: Server) -> None:
    bare = {"Authorization": f"Bearer {in_process.TOKEN}"}
    others = (
        "text/plain",
        "application/json5",
        "application/x-www-form-urlencoded",
        "",
        "json",
        "x;application/json",
    )
    for headers in (bare, *({**bare, "Content-Type": other} for other in others)):
        for path in (CALL, "/api/tools/list", "/api/users/list"):
            answer = await server.client.post(path, content=b"{}", headers=headers)
            assert (answer.status_code, answer.json()) == error(415, "Content-Type must be application/json")


@requirement("M-01")
async def test_the_media_type_may_have_parameters(server: Server) -> None:
    for content_type in ("application/json; charset=utf-8", "Application/JSON ;x=y"):
        status, _ = await server.post("/api/tools/list", {}, headers={"Content-Type": content_type})
        assert status == 200


@requirement("M-01")
async def test_unknown_paths_and_wrong_methods_are_named_without_the_path(server: Server) -> None:
    for path in (
        "/",
        "/nothing",
        "/api/tools/call/",
        "/api/tools",
        "/openapi.json/",
        "/metrics",
        "/api/actions/x",
    ):
        for answer in (await server.client.get(path), await server.client.post(path, json={})):
            assert (answer.status_code, answer.json()) == error(404, "Not found")
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        answer = await server.client.request(method, CALL)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    for path in ("/healthz", "/readyz", "/openapi.json", "/api/agents/ws"):
        answer = await server.client.post(path, json={})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@requirement("C-22", "M-01", "M-05", "M-07", "M-09", "M-13")
async def test_the_first_failing_check_answers(server: Server) -> None:
    await server.make_user("ada")
    weak, strong = await server.make_pat("ada"), await server.make_pat("ada", "runtime:read")
    broken: dict[str, Any] = {"tool": "read_session_summary", "params": 1, "recording_session_id": 2}
    missing = error(403, "missing required scope: runtime:read")
    recorder = error(403, "missing required scope: session:collaborate")
    plain = {"Content-Type": "text/plain"}
    assert await server.post(CALL, b"{", None, plain) == error(415, "Content-Type must be application/json")
    assert await server.post(CALL, b"{", None) == (401, {"error": "Unauthorized"})
    assert await server.post(CALL, b"{", weak) == error(400, "Invalid JSON: not JSON")
    assert await server.post(CALL, {**broken, "tool": "no_such"}, weak) == error(400, "Unknown tool")
    assert await server.post(CALL, broken, weak) == missing
    assert await server.post(CALL, broken, strong) == recorder
    del broken["recording_session_id"]
    assert await server.post(CALL, broken, strong) == error(400, "params and arguments must be objects")
    broken = {"tool": "read_session_summary", "params": {"session_id": "?", "x": 1}}
    assert await server.post(CALL, broken, weak) == missing
    assert await server.post(CALL, broken, strong) == error(400, "Unknown argument")
    del broken["params"]["x"]
    status, result = await server.post(CALL, broken, strong)
    assert (status, result["output"]["error_kind"]) == (400, "invalid_session_id")


@requirement("M-07", "C-10", "C-11")
async def test_each_scope_or_admin_opens_its_tools(server: Server) -> None:
    await server.make_user("ada")
    body = {"tool": "record_external_observation", "project": "agent:r1:demo", "session_id": "?"}
    for scopes in ((), ("runtime:read",), ("project:read", "account:manage")):
        token = await server.make_pat("ada", *scopes)
        assert await server.post(CALL, body, token) == error(
            403, "missing required scope: session:collaborate"
        )
    for scope in ("session:collaborate", "admin"):
        token = await server.make_pat("ada", scope)
        assert (await server.post(CALL, body, token))[1]["error"] == "Missing argument: adapter_id"


@requirement("M-17")
async def test_older_names_lead_to_the_new_ones(server: Server) -> None:
    session_id = await session(server)
    _, new = await server.call("read_session_handoff", {"session_id": session_id})
    _, old = await server.call("session_handoff_summary", {"session_id": session_id})
    assert (old["success"], old["output"].keys()) == (True, new["output"].keys())
    assert await server.call("session_summary", {}) == error(400, "Unknown tool. Use read_session_summary.")
    assert await server.call("memory_set", {}) == error(400, "Unknown tool. Use set_memory.")
    assert await server.call("no_such_tool", {}) == error(400, "Unknown tool")


@requirement("M-14", "M-40", "M-42", "M-43")
async def test_a_recorder_receives_one_pair_and_no_authority(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada", "runtime:read", "session:collaborate", "project:read")
    recorder, business = await session(server, token), await session(server, token)
    body = {"tool": "read_session_summary", "session_id": business, "recording_session_id": recorder}
    status, result = await server.post(CALL, body, token)
    assert (status, result["output"]["session_recorded"]) == (200, True)
    _, seen = await server.call("read_session_summary", {"session_id": recorder}, token)
    assert result["output"]["session_event_id"] in {event["event_id"] for event in seen["output"]["events"]}
    foreign = await session(server)
    status, result = await server.post(CALL, {**body, "recording_session_id": foreign}, token)
    assert (status, result["output"]["error_kind"]) == (400, "session_authority_denied")
    status, result = await server.post(
        CALL, {"tool": "list_projects", "recording_session_id": recorder}, token
    )
    assert (status, result["output"]["session_recorded"]) == (200, False)


@requirement("M-34")
async def test_the_gateway_is_a_tool_like_any_other(server: Server) -> None:
    via = {"tool": "call_runtime_tool", "params": {"tool": "list_projects", "arguments": {}}}
    assert await server.post(CALL, via) == await server.call("list_projects", {})
    for target, text in (
        ("call_runtime_tool", "call_runtime_tool cannot target itself"),
        ("start_session", "Unknown tool"),
        ("no_such_tool", "Unknown tool"),
    ):
        via = {"tool": "call_runtime_tool", "params": {"tool": target, "arguments": {}}}
        assert await server.post(CALL, via) == error(400, text)


@requirement("M-20", "O-01", "O-05")
async def test_a_hidden_tool_is_called_here(server: Server) -> None:
    user_id = (await server.make_user("ada"))["user"]["id"]
    project = await server.add_project(user_id, "r1", "demo")
    token = await server.make_pat("ada", "runtime:read", "session:collaborate")
    session_id = await session(server, token, project=project)
    report = {
        "project": project,
        "session_id": session_id,
        "adapter_id": DIGEST,
        "event_id": DIGEST,
        "observed_tool": "Bash",
    }
    status, first = await server.call("record_external_observation", report, token)
    _, again = await server.call("record_external_observation", report, token)
    assert (status, first["output"]["inserted"], again["output"]["inserted"]) == (200, True, False)
    assert first["output"]["observation"] == again["output"]["observation"]


@requirement("M-14")
async def test_a_lost_store_is_named_and_nothing_more(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada", "runtime:read")
    server.database.close()
    assert await server.post("/api/users/list", {}) == error(500, "Server state unavailable")
    assert await server.call("list_projects", {}, token) == error(500, "Server state unavailable")
    answer = await server.client.get("/healthz")
    assert answer.status_code == 200
