"""That `/openapi.json` describes the short set truly and nothing else (M-60, M-63)."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.tools import registry, schemas
from webcodex.tools.contract import Audience

GATEWAY: Final = "call_runtime_tool"
BY_NAME: Final = {tool.name: tool for tool in registry.TOOLS}
SHOWN: Final = [*(name for name in registry.SHORT_SET if name in BY_NAME), GATEWAY]
HIDDEN: Final = [
    name
    for tool in registry.TOOLS
    if tool.audience is Audience.ADAPTER
    for name in (tool.name, *tool.aliases)
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path, WEBCODEX_PUBLIC_URL="https://code.example:8443/") as running:
        yield running


async def _document(server: Server) -> dict[str, Any]:
    answer = await server.client.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return dict(answer.json())


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for part in node.values():
            yield from _parts(part)
    elif isinstance(node, list):
        for part in node:
            yield from _parts(part)


def _resolve(document: dict[str, Any], reference: str) -> Any:
    root, *steps = reference.split("/")
    assert root == "#"
    node: Any = document
    for step in steps:
        node = node[step]
    return node


def _validator(document: dict[str, Any], tool: str, status: str) -> Draft202012Validator:
    response = document["paths"][f"/api/actions/{tool}"]["post"]["responses"][status]
    schema = response["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": document["components"]})


@requirement("M-60", "M-31")
async def test_the_document_is_public_and_holds_the_short_set_and_the_gateway(server: Server) -> None:
    document = await _document(server)
    assert (document["openapi"], document["info"]["title"]) == ("3.1.0", "WebCodex GPT Actions")
    assert document["servers"] == [{"url": "https://code.example:8443"}]
    assert document["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"bearer": []}]
    assert list(document["paths"]) == [f"/api/actions/{name}" for name in SHOWN]
    assert len(document["paths"]) < 30
    for name, path in zip(SHOWN, document["paths"].values(), strict=True):
        assert list(path) == ["post"]
        assert (path["post"]["operationId"], path["post"]["summary"]) == (name, BY_NAME[name].summary)
        assert set(path["post"]["responses"]) == {"200", "400", "403"}


@requirement("M-60", "M-61", "M-19")
async def test_a_body_is_the_tools_own_schema_and_a_recorder(server: Server) -> None:
    document = await _document(server)
    for name in SHOWN:
        body = document["paths"][f"/api/actions/{name}"]["post"]["requestBody"]
        schema = body["content"]["application/json"]["schema"]
        expected = schemas.input_schema(BY_NAME[name].params, description_chars=None)
        recorder = schema["properties"].pop("recording_session_id")
        assert recorder["anyOf"] == [{"type": "string"}, {"type": "null"}]
        assert schema == {**expected, "properties": expected.get("properties", {})}
        assert schema["additionalProperties"] is False
        assert body["required"] is True


@requirement("M-60")
async def test_every_reference_leads_somewhere_and_every_schema_is_valid(server: Server) -> None:
    document = await _document(server)
    references = [part["$ref"] for part in _parts(document) if isinstance(part.get("$ref"), str)]
    assert references
    for reference in references:
        assert isinstance(_resolve(document, reference), dict)
    for operation in (path["post"] for path in document["paths"].values()):
        contents = [operation["requestBody"], *operation["responses"].values()]
        for content in contents:
            Draft202012Validator.check_schema(content["content"]["application/json"]["schema"])
    assert not [part for part in _parts(document) if "$defs" in part]


@requirement("M-60", "M-20", "M-63")
async def test_no_hidden_tool_is_named_anywhere(server: Server) -> None:
    text = (await server.client.get("/openapi.json")).text
    assert set(re.findall(r"[a-z_]+", text)).isdisjoint(HIDDEN)
    assert "/api/users" not in text
    assert "/api/tokens" not in text


@requirement("M-60", "M-61", "M-14")
async def test_answers_are_as_the_document_says(server: Server) -> None:
    document = await _document(server)
    project = await server.add_project(None, "r1", "demo")
    await server.make_user("ada")
    token = await server.make_pat("ada", "project:read")
    wanted: list[tuple[str, dict[str, Any], str, int]] = [
        ("list_projects", {}, in_process.TOKEN, 200),
        ("work_on_project", {"project": project, "instruction": "x"}, in_process.TOKEN, 200),
        ("read_session_handoff", {"session_id": "~s1"}, in_process.TOKEN, 200),
        ("read_tool_manifest", {}, in_process.TOKEN, 200),
        ("read_tool_manifest", {"tool_name": "list_projects"}, in_process.TOKEN, 200),
        (GATEWAY, {"tool": "list_sessions", "arguments": {"project": project}}, in_process.TOKEN, 200),
        ("list_projects", {"recording_session_id": "~s1"}, in_process.TOKEN, 200),
        ("read_session_handoff", {"session_id": "~s1", "recording_session_id": "~s1"}, in_process.TOKEN, 200),
        ("work_on_project", {"project": "agent:r1:no", "instruction": "x"}, in_process.TOKEN, 400),
        ("read_files", {"project": project, "items": [{"path": "a"}]}, in_process.TOKEN, 400),
        ("list_projects", {"planted": 1}, in_process.TOKEN, 400),
        (GATEWAY, {"tool": "no_such_tool", "arguments": {}}, in_process.TOKEN, 400),
        ("work_on_project", {"planted": 1}, token, 403),
    ]
    for tool, body, credential, status in wanted:
        found, answer = await server.post(f"/api/actions/{tool}", body, credential)
        assert found == status, answer
        _validator(document, tool, str(status)).validate(answer)
        # The schema would notice another answer.
        assert not _validator(document, tool, str(status)).is_valid({"other": answer})


@requirement("M-60", "M-01", "M-03", "M-04", "M-62")
async def test_the_document_stays_the_same_and_is_only_got(server: Server) -> None:
    first, second = [(await server.client.get("/openapi.json")).content for _ in range(2)]
    assert first == second
    bad = {"Authorization": "Bearer wc_pat_" + "0" * 64}
    assert (await server.client.get("/openapi.json", headers=bad)).content == first
    answer = await server.client.post("/openapi.json", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert (await server.client.get("/openapi.json", headers=headers)).status_code == 403
