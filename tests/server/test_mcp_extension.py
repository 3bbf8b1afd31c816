"""Handlers that are not the product's, and faults: what the SDK makes of a message is told in our words."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import mcp_types
import pytest
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import Desk
from webcodex.server import mcp_dispatch
from webcodex.server.mcp_answers import Form

PLANTED = "planted-51e0"


async def _asks(context: ServerRequestContext[Any, Any], _params: BaseModel) -> NoReturn:
    await context.session.send_request(mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)
    pytest.fail("nobody can be asked")


async def _refuses(_context: ServerRequestContext[Any, Any], _params: BaseModel) -> NoReturn:
    missing: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Sampling is needed", missing)


async def _breaks(_context: ServerRequestContext[Any, Any], _params: BaseModel) -> NoReturn:
    raise RuntimeError(PLANTED)


async def _answers_otherwise(_context: ServerRequestContext[Any, Any], _params: BaseModel) -> dict[str, Any]:
    return {"resources": PLANTED}


async def _tells(context: ServerRequestContext[Any, Any], _params: BaseModel) -> dict[str, Any]:
    for progress in (0, 50, 50, 20, 100):
        await context.session.report_progress(progress, 100)
    return {"content": [], "resultType": "complete"}


HANDLERS: dict[str, tuple[type[BaseModel], mcp_dispatch.Handler]] = {
    "prompts/list": (mcp_types.PaginatedRequestParams, _asks),
    "prompts/get": (mcp_types.GetPromptRequestParams, _refuses),
    "resources/templates/list": (mcp_types.PaginatedRequestParams, _breaks),
    "resources/list": (mcp_types.PaginatedRequestParams, _answers_otherwise),
    "completion/complete": (mcp_types.CompleteRequestParams, _breaks),
    "tools/call": (mcp_types.CallToolRequestParams, _tells),
}
EXTENSION = mcp_dispatch.Extension(
    methods={form: frozenset({*HANDLERS, "tasks/list"}) for form in Form}, handlers=HANDLERS
)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path, extension=EXTENSION) as made:
        yield made


@requirement("M-24a", "M-28")
async def test_extension_refuses_in_its_own_words(desk: Desk) -> None:
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        reply = await desk.ask(form, "prompts/get", {"name": "p"}, ("mcp-name", "p"))
        assert reply.status == status
        assert reply.body["error"] == {
            "code": -32021,
            "message": "Sampling is needed",
            "data": {"requiredCapabilities": {"sampling": {}}},
        }
        assert (await desk.ask(form, "prompts/list")).code == -32600


@requirement("M-24a", "M-28", "M-02")
async def test_what_the_sdk_finds_wrong_is_said_in_fixed_words(desk: Desk) -> None:
    wrong = {"ref": {"type": "ref/prompt", "name": PLANTED}, "argument": PLANTED}
    for form, status in ((Form.STATELESS, 400), (Form.INITIALIZE, 200)):
        reply = await desk.ask(form, "completion/complete", wrong)
        assert (reply.status, reply.code) == (status, -32602)
        assert set(reply.body["error"]) == {"code", "message"}
        assert PLANTED not in reply.text
    reply = await desk.ask(Form.STATELESS, "tasks/list")
    assert (reply.status, reply.code) == (404, -32601)
    assert set(reply.body["error"]) == {"code", "message"}


@requirement("M-28", "M-02")
async def test_fault_inside_is_one_fixed_sentence(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    for form in Form:
        for method in ("resources/templates/list", "resources/list"):
            reply = await desk.ask(form, method)
            assert (reply.status, reply.code, reply.body["id"]) == (500, -32000, 7)
            assert set(reply.body["error"]) == {"code", "message"}
            assert PLANTED not in reply.text
    said = [record.getMessage() for record in caplog.records if record.name.startswith("webcodex")]
    assert said[0] == "action=dispatch_failed method=resources/templates/list error=RuntimeError"
    assert not any(PLANTED in line for line in said)


@requirement("M-21")
async def test_progress_that_a_handler_counts_itself_only_rises(desk: Desk) -> None:
    accept = ("accept", "text/event-stream")
    params = {"name": "t", "_meta": {"progressToken": "p"}}
    for form in Form:
        *told, last = (await desk.ask(form, "tools/call", params, accept)).body
        assert [event["params"] for event in told] == [
            {"progressToken": "p", "progress": progress, "total": 100} for progress in (0, 50, 100)
        ]
        assert last["result"]["content"] == []
