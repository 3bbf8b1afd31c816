"""The same two adapters under the real Claude Code, in scripted runs; its differences are in docs/hosts.md.

The specification is written for Codex. What is shown here is how far the adapters serve another host as they
are; it is acceptance by no model and no user (A-107).
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.hosts import claude_code, machine, observing, recovering
from tests.hosts.messages_service import MessagesService, says, uses
from tests.hosts.model_service import Item, Step
from tests.requirements import requirement
from tests.server.server_process import ServerProcess

POST: Final = "PostToolUse"
START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
MCP_TOOL: Final = f"mcp__{claude_code.MCP_SERVER}__read_files"
PARALLEL: Final = 6


class Observed:
    """One home of Claude Code with the observation hook, over one Session of the real Server."""

    def __init__(self, place: Path, desk: machine.Machine) -> None:
        self.desk = desk
        self.observing = observing.Observing(place / "operator", desk)
        self.service = MessagesService([])
        self.claude = claude_code.ClaudeCode(place, self.service)
        self.claude.connect(desk.server.url, self.observing.token)
        self.claude.register({POST: self.observing.line()})

    @contextmanager
    def conversation(self, *steps: Sequence[Item]) -> Iterator[claude_code.Conversation]:
        """Yields a conversation that the configuration names, for which these steps are written down."""
        self.service.write(*(Step(items=tuple(step)) for step in steps))
        with self.service.running(), self.claude.conversation(self.desk.root) as conversation:
            self.observing.bind(conversation.id)
            yield conversation
        assert self.service.refused == 0


def ids(*items: Item) -> list[str]:
    return [str(item["id"]) for item in items]


@requirement("A-23", "A-24", "A-25", "A-34", "A-64", "O-08")
def test_each_kind_of_tool_use_that_ends_well_is_reported_once_and_unknown(
    desk: machine.Machine, tmp_path: Path
) -> None:
    scene = Observed(tmp_path, desk)
    made = desk.root / "new.txt"
    read = {"project": machine.PROJECT, "items": [{"path": machine.SOURCE}]}
    used = [
        uses("Bash", command="echo hi", description="Says hi"),
        uses("Write", file_path=str(made), content="hello\n"),
        uses(MCP_TOOL, **read),
    ]
    failing = [
        uses("Bash", command="exit 3", description="Fails"),
        uses("Read", file_path=str(desk.root / "nowhere.txt")),
        uses(MCP_TOOL, **read | {"project": "agent:desk:absent"}),
    ]
    steps = ([one] for one in (*used, *failing))
    with scene.conversation(*steps, [says("all were used")]) as conversation:
        turn = conversation.turn("Use them.")
    made.unlink()
    assert (turn.is_whole, turn.disturbed()) == (True, [])
    outputs = scene.service.outputs()
    words = dict(zip(ids(*failing), ("Exit code 3", "not exist", "unknown_project"), strict=True))
    assert [one for one, word in words.items() if word not in outputs[one]] == []
    assert scene.observing.tools() == ["Bash", "Write", MCP_TOOL]
    assert {one["event_id"] for one in scene.observing.reports()} == scene.observing.events(ids(*used))
    status = scene.observing.operator.status()
    assert (status["status"], status["pending"]) == ("ok", 0)


@requirement("A-30", "A-35", "A-93")
def test_parallel_tool_uses_are_stored_or_wait_visibly_there_too(
    desk: machine.Machine, tmp_path: Path
) -> None:
    scene = Observed(tmp_path, desk)
    used = [uses("Read", file_path=str(desk.root / machine.SOURCE), limit=one + 1) for one in range(PARALLEL)]
    with scene.conversation(used, [says("all at once")]) as conversation:
        turn = conversation.turn("Use them at once.")
    assert turn.is_whole
    assert len(turn.runs_of(POST)) == PARALLEL
    assert set(turn.disturbed()) <= {(POST, "error", 1)}
    stored, waiting = {one["event_id"] for one in scene.observing.reports()}, scene.observing.waiting()
    lost = scene.observing.events(ids(*used)) - stored - waiting
    assert len(turn.disturbed()) >= len(lost) + len(waiting)
    assert scene.observing.operator.flush().code == 0
    assert {one["event_id"] for one in scene.observing.reports()} == stored | waiting


@requirement("A-23", "A-35")
def test_tool_use_below_the_project_root_is_refused_visibly_and_not_retargeted(
    desk: machine.Machine, tmp_path: Path
) -> None:
    scene = Observed(tmp_path, desk)
    (desk.root / "below").mkdir()
    used = [
        uses("Bash", command="cd below && pwd", description="Goes down"),
        uses("Bash", command="pwd", description="Looks around"),
    ]
    with scene.conversation(*([one] for one in used), [says("it is below")]) as conversation:
        turn = conversation.turn("Go down.")
    (desk.root / "below").rmdir()
    assert turn.is_whole
    assert str(desk.root / "below") in scene.service.outputs()[used[1]["id"]]
    assert turn.disturbed() == [(POST, "error", 1)] * 2
    assert (scene.observing.reports(), scene.observing.waiting()) == ([], set())


@requirement("A-66", "A-75", "A-90")
def test_cleared_conversation_has_another_id_and_is_reported_no_more(
    desk: machine.Machine, tmp_path: Path
) -> None:
    scene = Observed(tmp_path, desk)
    used = [uses("Bash", command=f"echo {when}", description=when) for when in ("before", "after")]
    with scene.conversation([used[0]], [says("told")], [used[1]], [says("told")]) as conversation:
        before, cleared, after = (conversation.turn(said) for said in ("Tell me.", "/clear", "Tell me."))
    assert (before.is_whole, before.disturbed(), cleared.is_whole) == (True, [], True)
    assert (after.is_whole, after.disturbed()) == (True, [(POST, "error", 1)])
    (run,) = after.runs_of(POST)
    assert json.loads(run["stderr"])["reason"] == "local_session_mismatch"
    assert {one["event_id"] for one in scene.observing.reports()} == scene.observing.events(ids(used[0]))
    assert scene.observing.waiting() == set()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as running:
        yield running


@requirement("A-54", "A-55", "A-57", "A-59", "A-60", "A-64", "A-76")
def test_evidence_reaches_the_request_whole_at_the_start_when_changed_and_after_compaction(
    server: ServerProcess, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "operator").mkdir()
    scene = recovering.Recovering(tmp_path / "operator", server, work)
    service = MessagesService([])
    claude = claude_code.ClaudeCode(tmp_path, service)
    claude.register(dict.fromkeys((START, PROMPT), scene.line()))
    service.write(*(Step(items=(says(text),)) for text in ("begun", "unchanged", "changed")))
    compacted = {"type": "text", "text": "<analysis>none</analysis>\n<summary>what was done</summary>"}
    service.write(Step(items=(compacted,)), Step(items=(says("after"),)), Step(items=(says("dead"),)))
    with service.running(), claude.conversation(work) as conversation:

        def by_hand(event: str) -> str:
            return scene.operator.hook(event, session_id=conversation.id, cwd=str(work)).context(event)

        turns = [conversation.turn("Begin.")]
        whole = [by_hand(START), by_hand(PROMPT)]
        assert found(service, *whole) == [1, 1]
        turns.append(conversation.turn("Go on."))
        assert found(service, *whole) == [1, 2]
        scene.post("lower bound done")
        turns.append(conversation.turn("Go on."))
        changed = by_hand(START)
        assert changed != whole[0]
        assert found(service, *whole, changed) == [1, 2, 1]
        turns += [conversation.turn("/compact"), conversation.turn("Go on after I compacted it.")]
        # The reference is the same as ever, and only that of this turn is left.
        assert found(service, *whole, changed) == [0, 1, 1]
        server.kill()
        dead = conversation.turn("The Server is gone.")
    assert [(turn.is_whole, turn.disturbed()) for turn in turns] == [(True, [])] * len(turns)
    assert [len(turn.runs_of(START)) for turn in turns] == [1, 0, 0, 1, 0]
    assert (dead.is_whole, dead.disturbed()) == (True, [(PROMPT, "error", 1)])
    assert service.refused == 0


@requirement("A-54")
def test_conversation_that_claude_code_does_not_keep_looks_like_any_other(
    server: ServerProcess, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "operator").mkdir()
    scene = recovering.Recovering(tmp_path / "operator", server, work)
    service = MessagesService([Step(items=(says("begun"),))])
    claude = claude_code.ClaudeCode(tmp_path, service)
    claude.register({PROMPT: scene.line()})
    with service.running(), claude.conversation(work, "--no-session-persistence") as conversation:
        turn = conversation.turn("Begin.")
    assert (turn.is_whole, turn.disturbed()) == (True, [])
    assert found(service, recovering.PREAMBLE) == [1]


def found(service: MessagesService, *contexts: str) -> list[int]:
    """How often each piece of context stands whole in the last request."""
    return ["\n".join(service.texts()).count(context) for context in contexts]
