"""Walks every tool against every credential, scope and foreign object, and compares with the table of 20.3.

A tool without a row in the specification, or without sample arguments below, fails.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.core import access
from webcodex.core.access import Scope
from webcodex.storage import projects, runners
from webcodex.tools import registry
from webcodex.tools.contract import Audience, Recording, Tool

SPEC: Final = Path(__file__).parents[2] / "docs/spec/20-access.md"
ROW: Final = re.compile(
    r"\| (?P<names>`[a-z_`, ]+`) \| (?P<scopes>[^|]*) \| (?P<vis>[VH]) \| (?P<act>[^|]*) \|"
)
DEMO: Final = "agent:r1:demo"
FOREIGN: Final = "agent:r2:foreign"
CLOSED: Final = {
    "work_on_project": "invalid_resume_session_id",
    "record_external_observation": "session_closed",
    "post_session_message": "session_closed",
    "run_process": "session_closed",
    "resolve_session_message": "session_closed",
    "prepare_goal_workflow": "session_closed",
    "associate_goal_workflow_session": "session_closed",
}
RECORDED_REPORT: Final = {"adapter_id": "a" * 64, "event_id": "b" * 64, "observed_tool": "Bash"}
ABSENT_GOAL: Final = "wc_goal_" + "0" * 16
NEW_GOAL: Final = {"title": "x", "objective": "x", "idempotency_key": "k"}
KEYED: Final = {"goal_id": "G", "expected_revision": 1, "idempotency_key": "k"}
SAMPLES: Final[dict[str, dict[str, Any]]] = {
    "list_projects": {},
    "read_files": {"project": DEMO, "items": [{"path": "a"}]},
    "work_on_project": {"project": DEMO, "instruction": "x"},
    "start_session": {"project": DEMO},
    "list_sessions": {"project": DEMO},
    "read_session_summary": {"session_id": "S"},
    "close_session": {"session_id": "S"},
    "post_session_message": {"session_id": "S", "kind": "note", "message": "x"},
    "list_session_messages": {"session_id": "S"},
    "resolve_session_message": {"session_id": "S", "message_id": "wc_msg_x"},
    "read_session_handoff": {"session_id": "S"},
    "get_session_handoff_state": {"project": DEMO, "session_id": "S"},
    "record_external_observation": {"project": DEMO, "session_id": "S", **RECORDED_REPORT},
    "list_external_observations": {"project": DEMO, "session_id": "S"},
    "call_runtime_tool": {"tool": "list_projects", "arguments": {}},
    "list_project_files": {"project": DEMO},
    "search_project_texts": {"project": DEMO, "pattern": "x"},
    "get_git_status": {"project": DEMO},
    "read_workspace_changes": {"project": DEMO},
    "edit_project_files": {
        "project": DEMO,
        "edits": [{"path": "a", "op": "create", "expected_sha256": None, "content": ""}],
    },
    "create_goal": NEW_GOAL,
    "prepare_goal_workflow": {"session_id": "S", "completion_conditions": [], "steps": [], **NEW_GOAL},
    "get_goal": {"goal_id": "G"},
    "list_goals": {},
    "present_goal_plan": {"goal_id": "G"},
    "sync_goal_plan": {"goal_id": "G"},
    "checkpoint_goal": {"completed_step_ids": [], "summary": "x", **KEYED},
    "update_goal": {"title": "y", **KEYED},
    "associate_goal_agent_task": {"task_id": "wc_agent_task_" + "0" * 16, **KEYED},
    "associate_goal_workflow_session": {"session_id": "S", "goal_id": "G", "idempotency_key": "k"},
    "finish_coding_task": {"project": DEMO, "session_id": "S"},
    "run_process": {"project": DEMO, "argv": ["true"], "session_id": "S"},
    "observe_jobs": {"items": [{"job_id": "wc_job_absent"}]},
    "list_jobs": {"project": DEMO, "session_id": "S"},
    "stop_job": {"job_id": "wc_job_absent"},
    "list_runners": {},
    "get_runtime_status": {},
    "read_tool_manifest": {},
}
CHANGING: Final = {"work_on_project", "start_session", "edit_project_files", "run_process"}


def _specified() -> dict[str, re.Match[str]]:
    rows = [ROW.match(line) for line in SPEC.read_text(encoding="utf-8").splitlines()]
    return {name: row for row in rows if row for name in re.findall(r"`([a-z_]+)`", row["names"])}


def _needed(row: re.Match[str]) -> list[str]:
    always = re.sub(r"\(\+.*?\)", "", row["scopes"])
    return re.findall(r"[a-z_]+:[a-z_]+", always)


@requirement("C-10", "C-12", "C-24", "S-53")
@pytest.mark.parametrize("tool", registry.TOOLS, ids=lambda tool: tool.name)
def test_each_tool_is_declared_as_its_row_says(tool: Tool) -> None:
    row = _specified()[tool.name]
    if tool.name == "call_runtime_tool":
        assert (tool.scopes, row["vis"]) == ((), "V")
        return
    assert [scope.value for scope in tool.scopes] == _needed(row)
    assert [scope.value for scope in tool.optional_scopes] == re.findall(r"\(\+\? ([a-z_:]+)", row["scopes"])
    assert (tool.audience is Audience.MODEL) is (row["vis"] == "V")
    assert (tool.recording is Recording.BUSINESS) is (row["act"].strip() == "W")


@asynccontextmanager
async def furnished(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        for username in ("ada", "eve"):
            await running.make_user(username)
        for client_id, username, name in (("r1", "ada", "demo"), ("r2", "eve", "foreign")):
            await _register(running, client_id, username, name)
        yield running


async def _register(server: Server, client_id: str, username: str, name: str) -> None:
    _, made = await server.post("/api/agent-tokens/create", {"username": username, "client_id": client_id})
    runner = runners.Runner(
        client_id=client_id,
        user_id=made["user_id"],
        connection_id="c",
        instance_id="i",
        store_id="s",
        last_seen_at=1,
        said_goodbye=True,
        retired=(),
        registered_at=1,
        facts={},
    )
    project = projects.Project(
        client_id=client_id, project_id=name, path=f"/srv/{name}", name=None, allow_patch=True
    )
    await server.database.write(lambda tx: runners.save(tx, runner))
    await server.database.write(lambda tx: projects.replace_inventory(tx, client_id, [project]))


async def _session(server: Server, token: str) -> str:
    _, made = await server.call("work_on_project", {"project": DEMO, "instruction": "x"}, token)
    return str(made["output"]["session_id"])


async def _goal(server: Server, token: str) -> str:
    _, made = await server.call("create_goal", {**NEW_GOAL, "idempotency_key": "first"}, token)
    return str(made["output"]["goal"]["summary"]["goal_id"])


def _arguments(name: str, session: str, goal: str = ABSENT_GOAL, **changed: str) -> dict[str, Any]:
    placed = {"S": session, "G": goal}
    filled = {
        key: placed.get(value, value) if isinstance(value, str) else value
        for key, value in SAMPLES[name].items()
    }
    return {key: changed.get(key, value) for key, value in filled.items()}


def _word(answer: Mapping[str, Any]) -> object:
    return answer["output"].get("error_kind") if "output" in answer else answer["error"]


ALL_BUT_ADMIN: Final = [scope.value for scope in Scope if scope is not Scope.ADMIN]
TOKENS: Final = ("none", "reserved", "unknown", "revoked", "expired", "account", "runner")


async def _refused_tokens(server: Server) -> dict[str, tuple[str | None, int]]:
    _, revoked = await server.post("/api/tokens/create", {"username": "ada", "scopes": ALL_BUT_ADMIN})
    await server.post("/api/tokens/revoke", {"username": "ada", "token_id": revoked["token_id"]})
    expired = await server.make_pat("ada", *ALL_BUT_ADMIN, expires_at=server.now + 5)
    made = await server.make_user("zoe", issue_credential=True)
    _, runner = await server.post("/api/agent-tokens/create", {"username": "zoe", "client_id": "r9"})
    server.now += 10
    return {
        "none": (None, 401),
        "reserved": ("wc_oat_" + "a" * 64, 401),
        "unknown": ("wc_pat_" + "0" * 64, 401),
        "revoked": (str(revoked["token"]), 401),
        "expired": (expired, 401),
        "account": (str(made["account_credential"]), 403),
        "runner": (str(runner["token"]), 403),
    }


@requirement("C-01", "C-04", "C-05", "C-07", "C-08", "C-22", "C-24", "M-05", "M-06", "M-62")
async def test_no_tool_answers_a_credential_that_is_not_for_it(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        refused = await _refused_tokens(server)
        assert tuple(refused) == TOKENS
        answers = {
            (tool.name, kind): (await server.call(tool.name, {"planted": 1}, token))[0]
            for tool in registry.TOOLS
            for kind, (token, _) in refused.items()
        }
        assert answers == {(tool.name, kind): refused[kind][1] for tool in registry.TOOLS for kind in refused}


@requirement("C-11", "C-22", "C-24", "M-07", "M-42")
async def test_each_missing_scope_is_named_before_the_arguments_are_read(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        for tool in registry.TOOLS:
            needed = [scope.value for scope in tool.scopes]
            for missing in needed:
                token = await server.make_pat("ada", *(scope for scope in ALL_BUT_ADMIN if scope != missing))
                answer = await server.call(tool.name, {"planted": 1}, token)
                assert answer == (403, {"status": 403, "error": f"missing required scope: {missing}"}), (
                    tool.name
                )
            token = await server.make_pat("ada", *(needed or ["project:read"]))
            if "session:collaborate" in needed:
                continue
            body = {"tool": tool.name, "params": SAMPLES[tool.name], "recording_session_id": "~s1"}
            status, answer = await server.post("/api/tools/call", body, token)
            assert (status, answer["error"]) == (403, "missing required scope: session:collaborate"), (
                tool.name
            )
            admin = await server.make_pat("ada", "admin")
            status, answer = await server.call(tool.name, {"planted": 1}, admin)
            assert (status, answer["status"]) == (400, 400)


@requirement("C-11", "C-15", "C-17", "C-20", "C-21", "C-24", "M-62")
async def test_a_foreign_object_is_answered_like_an_absent_one(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        ada = await server.make_pat("ada", *ALL_BUT_ADMIN)
        admin_eve = await server.make_pat("eve", *ALL_BUT_ADMIN, "admin")
        session = await _session(server, ada)
        bootstraps = await _session(server, in_process.TOKEN)
        goal, eves_goal = await _goal(server, ada), await _goal(server, admin_eve)
        for name, sample in SAMPLES.items():
            if name not in {tool.name for tool in registry.TOOLS}:
                continue
            if "session_id" in sample:
                _, answer = await server.call(name, _arguments(name, session, eves_goal), admin_eve)
                assert _word(answer) == "unknown_project", name
                _, answer = await server.call(name, _arguments(name, bootstraps, goal), ada)
                assert _word(answer) == "session_authority_denied", name
                _, absent = await server.call(name, _arguments(name, "wc_sess_absent", goal), ada)
                assert _word(absent) == "unknown_session_id", name
            elif "goal_id" in sample:
                foreign = await server.call(name, _arguments(name, session, goal), admin_eve)
                assert foreign == await server.call(name, _arguments(name, session), admin_eve), name
                assert _word(foreign[1]) == "goal_not_found", name
            elif "project" in sample:
                foreign = await server.call(name, _arguments(name, session, project=FOREIGN), ada)
                absent = await server.call(name, _arguments(name, session, project="agent:r2:absent"), ada)
                assert foreign == absent, name
                assert _word(foreign[1]) == "unknown_project", name


@requirement("C-16", "C-24")
async def test_a_short_name_never_selects_what_is_changed(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        ada = await server.make_pat("ada", *ALL_BUT_ADMIN)
        for name in CHANGING:
            _, answer = await server.call(name, _arguments(name, "", project="demo"), ada)
            assert _word(answer) == "invalid_project", name
        changing = {
            tool.name
            for tool in registry.TOOLS
            if "project" in tool.params.model_fields and not tool.annotations.read_only
        }
        assert changing - {"record_external_observation", "finish_coding_task"} == CHANGING


@requirement("C-24", "S-07", "H-51")
async def test_a_closed_session_refuses_what_would_change_it_and_nothing_else(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        ada = await server.make_pat("ada", *ALL_BUT_ADMIN)
        session, goal = await _session(server, ada), await _goal(server, ada)
        await server.call("close_session", {"session_id": session}, ada)
        for tool in registry.TOOLS:
            sample = _arguments(tool.name, session, goal)
            if tool.name == "work_on_project":
                sample["session_id"] = session
            if "session_id" not in sample:
                continue
            status, answer = await server.call(tool.name, sample, ada)
            expected = CLOSED.get(tool.name)
            assert status == (200 if expected is None else 400), tool.name
            assert expected in (None, _word(answer)), tool.name


@requirement("C-15", "C-24")
async def test_a_project_outlives_its_runners_connection_and_a_restart(tmp_path: Path) -> None:
    async with in_process.server(tmp_path) as first:
        await first.make_user("ada")
        await _register(first, "r1", "ada", "demo")
        ada = await first.make_pat("ada", *ALL_BUT_ADMIN)
        session = await _session(first, ada)
    async with in_process.server(tmp_path) as second:
        _, listed = await second.call("list_projects", {}, ada)
        assert [(row["project"], row["connected"]) for row in listed["output"]["projects"]] == [(DEMO, False)]
        status, _ = await second.call("read_session_summary", {"session_id": session}, ada)
        assert status == 200


@requirement("C-19", "C-24", "S-70")
async def test_two_pats_of_one_user_reach_the_same_sessions(tmp_path: Path) -> None:
    async with furnished(tmp_path) as server:
        first = await server.make_pat("ada", *ALL_BUT_ADMIN)
        second = await server.make_pat("ada", "runtime:read")
        session = await _session(server, first)
        _, listed = await server.call("list_sessions", {"project": DEMO}, second)
        assert [row["session_id"] for row in listed["output"]["sessions"]] == [session]
        assert access.group_of_user("u") not in str(listed)
