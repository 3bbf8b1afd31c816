"""The recovery entry against the real Server, from discovery to a changed handoff (A-50 to A-63)."""

import json
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from tests.adapters import hook_fixture
from tests.adapters.recovery_fixture import Operator
from tests.requirements import requirement
from tests.server import station
from tests.server.server_process import TOKEN, ServerProcess

START, PROMPT = "SessionStart", "UserPromptSubmit"
WAIT_S = 30


def register(server: ServerProcess, **roots: Path) -> None:
    """A Runner has said which Projects it holds and where, and has gone."""
    url = server.url.replace("http://", "ws://") + "/api/agents/ws"
    projects = [station.project(name, path=str(root)) for name, root in roots.items()]
    with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=None) as runner:
        runner.send(json.dumps(station.hello(projects=projects)))
        assert json.loads(runner.recv(WAIT_S))["success"] is True
        runner.send(json.dumps({"type": "goodbye", "reason": "done"}))


def done(server: ServerProcess, tool: str, **params: object) -> Any:
    status, result = server.call(tool, params)
    assert status == 200, result
    return result["output"]


@requirement("A-50", "A-52", "A-53", "A-56", "A-57", "A-59", "A-62", "A-89")
def test_new_conversation_reads_the_session_that_was_associated_and_sees_it_change(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        operator = Operator(tmp_path, server.url, is_bound=False)
        hook_fixture.private(operator.authorization, f"Bearer {TOKEN}\n".encode())
        other = operator.root / "other"
        other.mkdir()
        register(server, demo=operator.root, other=other)
        project = "agent:r1:demo"
        sessions = [
            str(done(server, "work_on_project", project=project, instruction=text)["session_id"])
            for text in ("Clamp inclusively", "Something newer")
        ]
        listed = operator.discovered().said
        assert (listed["project"], {row["session_id"] for row in listed["sessions"]}) == (
            project,
            set(sessions),
        )
        assert operator.associated(session=sessions[0]).said["status"] == "associated"
        shown = operator.hook(START).shown(START)
        brief = shown["handoff_brief"]
        assert (shown["status"], shown["session_id"]) == ("read", sessions[0])
        assert brief["task"]["root_instruction"]["excerpt"] == "Clamp inclusively"
        assert brief["basis"] == {"complete": False, "reason_codes": ["workspace_not_requested"]}
        assert operator.hook(PROMPT).shown(PROMPT)["status"] == "unchanged"
        assert operator.discovered().said == listed
        message = {"session_id": sessions[0], "kind": "progress", "message": "lower bound done"}
        done(server, "post_session_message", **message)
        changed = operator.asked(PROMPT).shown(PROMPT)
        assert changed["status"] == "read"
        (progress,) = changed["handoff_brief"]["task"]["recent_progress"]["items"]
        assert progress["excerpt"] == "lower bound done"
        kept = operator.snapshots()
        register(server, demo=other)
        assert operator.asked(PROMPT).reason == "project_binding_changed"
        server.stop()
        assert operator.asked(START).reason == "handoff_read_unconfirmed"
        assert operator.snapshots() == kept
