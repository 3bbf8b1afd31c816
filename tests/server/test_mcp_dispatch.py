"""A dispatch that does not end is given up, and nobody claims that it changed nothing (M-28)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import EVERY_SCOPE, Desk
from tests.tools import house
from webcodex.core import limits
from webcodex.server.mcp_answers import Form

DISPATCH_S = 0.05
UNKNOWN = {
    "error_kind": "internal_error",
    "state_changed": None,
    "execution_state": "outcome_unknown",
    "recovery_kind": "reconcile",
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path, dispatch_s=DISPATCH_S) as made:
        yield made


@contextmanager
def writes_wait(desk: Desk) -> Iterator[None]:
    """Holds the write lock of the database, as another process could."""
    with closing(sqlite3.connect(desk.house.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@requirement("M-28")
def test_dispatch_outlasts_every_handler() -> None:
    assert (limits.DISPATCH_S, limits.HANDLER_S) == (150.0, 140.0)


@requirement("M-28")
async def test_call_that_may_have_changed_something_ends_unknown(desk: Desk) -> None:
    session_id = await desk.house.session()
    token = await desk.pat("ada", *EVERY_SCOPE)
    for form in Form:
        for tool, arguments in (
            ("close_session", {"session_id": session_id}),
            ("call_runtime_tool", {"tool": "close_session", "arguments": {"session_id": session_id}}),
        ):
            with writes_wait(desk):
                reply = await desk.call(tool, arguments, form=form, token=token)
            assert reply.status == 200
            done = reply.result
            assert done["structuredContent"]["success"] is False
            assert done["structuredContent"]["output"] == UNKNOWN
            assert done["isError"] is True
            is_stateless = form is Form.STATELESS
            assert ("resultType" in done, "_meta" in done) == (is_stateless, is_stateless)
    shown = await desk.house.output("read_session_summary", session_id=session_id)
    assert shown["lifecycle"] in {"active", "closed"}


@requirement("M-28")
async def test_read_that_does_not_end_is_a_fault_of_the_server(desk: Desk) -> None:
    recorder = await desk.house.session()
    token = await desk.pat("ada", *EVERY_SCOPE)
    arguments = {"project": house.DEMO, "_wc": {"record": recorder}}
    before = asyncio.all_tasks()
    for form in Form:
        with writes_wait(desk):
            reply = await desk.call("list_sessions", arguments, form=form, token=token)
        assert (reply.status, reply.code, reply.body["id"]) == (500, -32000, 7)
        assert set(reply.body["error"]) == {"code", "message"}
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=mcp_desk.DEADLINE_S)
    assert all(task.done() for task in left)
