"""The observation hook under the real Codex, trusted as a client does it, in scripted runs without a model.

What it proves about Codex it proves for the two pinned versions alone, and it replaces no rollout (A-107).
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hosts import app_server, hooked_codex, machine, observing, packages
from tests.hosts.codex_configuration import MCP_SERVER
from tests.hosts.model_service import Item, ModelService, Step, calls, patches, runs, says
from tests.requirements import requirement

POST: Final = "PostToolUse"
TOLD: Final = "postToolUse"
MCP_TOOL: Final = f"mcp__{MCP_SERVER}__read_files"
PARALLEL: Final = 8


@pytest.fixture(params=[packages.CODEX, packages.CODEX_NEWEST])
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Scene:
    """One home of Codex with the observation hook, over one Session of the real Server."""

    def __init__(self, place: Path, desk: machine.Machine, package: str, **chosen: Any) -> None:
        self.desk = desk
        self.observing = observing.Observing(place / "operator", desk, **chosen)
        self.service = ModelService([])
        self.codex = hooked_codex.HookedCodex(place, package, self.service)
        self.codex.connect(desk.server.url, self.observing.token, "read_files")
        self.codex.register({POST: self.observing.line()})

    @contextmanager
    def conversation(
        self, *steps: Sequence[Item], is_trusted: bool = True
    ) -> Iterator[app_server.Conversation]:
        """Yields a conversation that the configuration names, for which these steps are written down."""
        self.service.write(*(Step(items=tuple(step)) for step in steps))
        with self.service.running(), self.codex.running() as server:
            if is_trusted:
                hooked_codex.trust(server, self.desk.root)
            conversation = server.conversation(self.desk.root)
            self.observing.bind(conversation.id)
            yield conversation
        assert self.service.refused == 0


def reading(**arguments: Any) -> Item:
    read = {"project": machine.PROJECT, "items": [{"path": machine.SOURCE}]}
    return calls("read_files", read | arguments, server=MCP_SERVER)


def call_ids(*items: Item) -> list[str]:
    return [str(item["call_id"]) for item in items]


@requirement("A-23", "A-24", "A-25", "A-34", "A-64", "A-70", "O-06", "O-07", "O-08")
def test_each_kind_of_tool_use_is_reported_once_with_an_unknown_outcome(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    used = [runs("echo hi"), patches("*** Add File: new.txt", "+hello"), reading()]
    with scene.conversation(*([one] for one in used), [says("all three were used")]) as conversation:
        turn = conversation.turn("Use all three.")
    (desk.root / "new.txt").unlink()
    assert (turn.status, turn.disturbed()) == ("completed", [])
    assert len(turn.runs_of(TOLD)) == len(used)
    assert scene.observing.tools() == ["Bash", "apply_patch", MCP_TOOL]
    found = scene.observing.reports()
    assert {one["event_id"] for one in found} == scene.observing.events(call_ids(*used))
    assert {one["adapter_id"] for one in found} == {scene.observing.operator.event("")["adapter_id"]}
    status = scene.observing.operator.status()
    assert (status["status"], status["pending"], status["coverage"]) == ("ok", 0, {"complete": False})
    assert status["last_hook_at"] is not None


@requirement("A-24", "A-35", "A-70", "A-80", "O-07", "O-08")
def test_failed_tool_uses_are_not_reported_as_success(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    failing = runs("echo told; exit 3")
    unapplied = patches("*** Update File: nowhere.txt", "@@", "-a", "+b")
    refused = reading(project="agent:desk:absent")
    with scene.conversation([failing], [unapplied], [refused], [says("all failed")]) as conversation:
        turn = conversation.turn("Fail three times.")
    assert (turn.status, turn.disturbed()) == ("completed", [])
    outputs = scene.service.outputs()
    (ran,) = turn.completed("commandExecution")
    (called,) = turn.completed("mcpToolCall")
    assert (ran["status"], ran["exitCode"], called["status"]) == ("failed", 3, "failed")
    assert "exited with code 3" in outputs[failing["call_id"]]
    assert "unknown_project" in outputs[refused["call_id"]]
    assert scene.observing.tools() == ["Bash"]
    assert {one["event_id"] for one in scene.observing.reports()} == scene.observing.events(call_ids(failing))
    assert scene.observing.operator.status()["pending"] == 0


@requirement("A-30", "A-34", "A-35", "A-36", "A-93")
def test_parallel_tool_uses_are_stored_or_wait_visibly(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    used = [runs(f"echo {number}") for number in range(PARALLEL)]
    with scene.conversation(used, [says("all at once")]) as conversation:
        turn = conversation.turn("Use them at once.")
    assert turn.status == "completed"
    assert len(turn.runs_of(TOLD)) == PARALLEL
    failed = {run["id"].rpartition(":")[2] for run in turn.runs_of(TOLD) if run["status"] == "failed"}
    stored = {one["event_id"] for one in scene.observing.reports()}
    waiting = scene.observing.waiting()
    refused = scene.observing.events(failed) - stored - waiting
    expected = scene.observing.events(call_ids(*used))
    assert stored | waiting | refused == expected
    assert {" ".join(texts) for _, _, texts in turn.disturbed()} <= {"hook exited with code 1"}
    assert len(failed) >= len(waiting)
    flushed = scene.observing.operator.flush()
    assert (flushed.code, flushed.err) == (0, b"")
    assert {one["event_id"] for one in scene.observing.reports()} == expected - refused
    assert set(scene.observing.tools()) == {"Bash"}


@requirement("A-03", "A-35", "A-72", "A-80", "A-90")
def test_hook_that_cannot_report_is_shown_as_failed_and_disturbs_no_tool(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        dead = f"http://127.0.0.1:{listening.getsockname()[1]}"
    scene = Scene(tmp_path, desk, package, origin=dead)
    offline, elsewhere = runs("echo offline"), runs("echo elsewhere")
    steps = ([offline], [says("it ran")], [elsewhere], [says("it ran as well")])
    with scene.conversation(*steps) as conversation:
        first = conversation.turn("Run it while the Server is away.")
        expected = scene.observing.events(call_ids(offline))
        assert scene.observing.waiting() == expected
        scene.observing.bind("another-conversation")
        second = conversation.turn("Run it while another conversation is bound.")
    for turn in (first, second):
        assert turn.status == "completed"
        assert turn.disturbed() == [(TOLD, "failed", ["hook exited with code 1"])]
    outputs = scene.service.outputs()
    assert outputs[offline["call_id"]].endswith("Output:\noffline\n")
    assert outputs[elsewhere["call_id"]].endswith("Output:\nelsewhere\n")
    assert (scene.observing.reports(), scene.observing.waiting()) == ([], expected)


@requirement("A-65", "A-72")
def test_registration_of_a_script_that_is_gone_speaks_to_the_model(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    scene.codex.register({POST: scene.observing.line().replace("observation_hook", "moved_hook")})
    ran = runs("echo hi")
    with scene.conversation([ran], [says("it ran")]) as conversation:
        turn = conversation.turn("Run it.")
    assert (turn.status, turn.completed("commandExecution")[0]["status"]) == ("completed", "completed")
    assert [(event, status) for event, status, _ in turn.disturbed()] == [(TOLD, "blocked")]
    output = scene.service.outputs()[ran["call_id"]]
    assert "external_moved_hook.py" in output
    assert "Output:\nhi\n" not in output


@requirement("A-66", "A-75", "A-90")
def test_fork_of_a_conversation_has_another_id_and_is_not_reported(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    before, after = runs("echo before"), runs("echo after")
    with scene.conversation([before], [says("told")], [after], [says("told")]) as conversation:
        told = conversation.turn("Tell me.")
        fork = conversation.forked()
        untold = fork.turn("Tell me.")
    assert fork.id != conversation.id
    assert (told.status, told.disturbed()) == ("completed", [])
    assert untold.status == "completed"
    assert untold.disturbed() == [(TOLD, "failed", ["hook exited with code 1"])]
    assert {one["event_id"] for one in scene.observing.reports()} == scene.observing.events(call_ids(before))
    assert scene.observing.waiting() == set()


@requirement("A-64", "A-74", "A-86")
def test_registration_that_is_not_trusted_as_it_stands_reports_nothing(
    desk: machine.Machine, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, desk, package)
    with scene.conversation([runs("echo hi")], [says("it ran")], is_trusted=False) as conversation:
        assert hooked_codex.trusts(conversation.server, desk.root) == {TOLD: hooked_codex.UNTRUSTED}
        untrusted = conversation.turn("Run it.")
        hooked_codex.trust(conversation.server, desk.root)
    scene.codex.register({POST: scene.observing.line()})
    with scene.codex.running() as server:
        repeated = hooked_codex.trusts(server, desk.root)
    scene.codex.register({POST: scene.observing.line()}, timeout=7)
    with scene.codex.running() as server:
        changed = hooked_codex.trusts(server, desk.root)
    assert (repeated, changed) == ({TOLD: hooked_codex.TRUSTED}, {TOLD: hooked_codex.MODIFIED})
    assert (untrusted.status, untrusted.runs_of(TOLD)) == ("completed", [])
    assert scene.observing.reports() == []
    assert scene.observing.operator.status()["last_hook_at"] is None
