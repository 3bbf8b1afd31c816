"""What `/api/tools/list` shows (M-18..M-20)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.tools import registry
from webcodex.tools.contract import Audience

SHOWN = sorted(tool.name for tool in registry.TOOLS if tool.audience is Audience.MODEL)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def listed(server: Server, **wanted: object) -> dict[str, Any]:
    status, body = await server.post("/api/tools/list", wanted)
    assert status == 200, body
    return dict(body)


@requirement("M-18", "M-20")
async def test_every_model_visible_tool_is_listed_and_no_hidden_one(server: Server) -> None:
    body = await listed(server)
    assert body["names"] == [tool["name"] for tool in body["tools"]] == SHOWN
    hidden = {
        name
        for tool in registry.TOOLS
        if tool.audience is Audience.ADAPTER
        for name in (tool.name, *tool.aliases)
    }
    assert hidden.isdisjoint(body["names"])
    del body["tools"], body["names"], body["categories"]
    assert body == {
        "success": True,
        "count": len(SHOWN),
        "returned_count": len(SHOWN),
        "total_count": len(SHOWN),
        "filtered_count": len(SHOWN),
        "truncated": False,
        "truncation_reason": None,
        "limit_applied": False,
        "requested_limit": None,
        "category": None,
        "features": None,
        "limit": 128,
    }


@requirement("M-19")
async def test_each_entry_is_a_whole_closed_spec(server: Server) -> None:
    for spec in (await listed(server))["tools"]:
        assert set(spec) == {"name", "description", "inputSchema", "outputSchema", "annotations"}
        assert spec["inputSchema"]["additionalProperties"] is False
        assert set(spec["outputSchema"]["properties"]) == {"success", "output", "error"}
        assert set(spec["annotations"]) == {
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        }


@requirement("M-18")
async def test_the_list_is_filtered_summarised_and_cut(server: Server) -> None:
    body = await listed(server, category="sessions", summary_only=True, limit=1)
    in_category = [tool.name for tool in registry.TOOLS if tool.name in SHOWN and tool.category == "sessions"]
    assert body["names"] == sorted(in_category)[:1]
    assert [set(tool) for tool in body["tools"]] == [{"name", "description"}]
    assert (body["count"], body["filtered_count"], body["total_count"]) == (1, len(in_category), len(SHOWN))
    assert (body["truncated"], body["truncation_reason"], body["limit_applied"]) == (True, "limit", True)
    assert body["categories"]["sessions"] == len(in_category)
    assert sum(body["categories"].values()) == len(SHOWN)


@requirement("M-18")
async def test_features_are_effects_and_scopes(server: Server) -> None:
    body = await listed(server, features=["read", "project:read"])
    assert body["features"] == ["read", "project:read"]
    assert "list_projects" in body["names"]
    assert "work_on_project" not in body["names"]
    assert (await listed(server, features=["no such feature"]))["names"] == []


@requirement("M-18")
async def test_the_limit_is_clamped(server: Server) -> None:
    for asked, used in [(0, 1), (-5, 1), (1, 1), (128, 128), (10**9, 128), (None, 128)]:
        body = await listed(server, limit=asked)
        assert (body["limit"], body["requested_limit"]) == (used, asked)


WRONG: list[tuple[dict[str, object], str]] = [
    ({"cursor": "x"}, "Unknown field"),
    ({"limit": "5"}, "Wrong type of field: limit"),
    ({"limit": True}, "Wrong type of field: limit"),
    ({"summary_only": 1}, "Wrong type of field: summary_only"),
    ({"category": ["x"]}, "Wrong type of field: category"),
    ({"features": "read"}, "Wrong type of field: features"),
    ({"features": [1]}, "Wrong type of field: features"),
    ({"category": "\ud800"}, "Bad value of field: category"),
    ({"category": "a\0"}, "Bad value of field: category"),
]


@requirement("M-18", "M-13")
async def test_a_wrong_field_is_refused_by_name(server: Server) -> None:
    for body, text in WRONG:
        assert await server.post("/api/tools/list", body) == (400, {"status": 400, "error": text}), body


@requirement("M-18", "M-07")
async def test_no_body_lists_everything_and_the_scope_is_needed(server: Server) -> None:
    status, body = await server.post("/api/tools/list", b"")
    assert (status, body["names"]) == (200, SHOWN)
    await server.make_user("ada")
    token = await server.make_pat("ada", "project:read")
    refusal = {"status": 403, "error": "missing required scope: runtime:read"}
    assert await server.post("/api/tools/list", {"no": "field"}, token) == (403, refusal)
    token = await server.make_pat("ada", "runtime:read")
    assert (await server.post("/api/tools/list", {}, token))[1]["names"] == SHOWN
