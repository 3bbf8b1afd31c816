"""The recovery entry under the real Codex: what reaches the request to a model, in scripted runs.

What it proves about Codex it proves for the two pinned versions alone, and it replaces no rollout (A-107).
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hosts import app_server, hooked_codex, packages, recovering
from tests.hosts.model_service import ModelService, Step, says
from tests.requirements import requirement
from tests.server.server_process import ServerProcess

START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
TOLD_START: Final = "sessionStart"
TOLD_PROMPT: Final = "userPromptSubmit"
DEADLINE_S: Final = 10.0
FULL_WINDOW: Final = 257_000


@pytest.fixture(params=[packages.CODEX, packages.CODEX_NEWEST])
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


class Scene:
    """One home of Codex with the recovery entry, a folder to work in and a project beside it."""

    def __init__(self, place: Path, server: ServerProcess, package: str, *events: str) -> None:
        self.work = place.resolve() / "work"
        self.work.mkdir()
        (place / "operator").mkdir()
        self.recovering = recovering.Recovering(place / "operator", server, self.work)
        self.service = ModelService([])
        self.codex = hooked_codex.HookedCodex(place, package, self.service)
        self.codex.register(dict.fromkeys(events or (START, PROMPT), self.recovering.line()))

    @contextmanager
    def conversation(self, **chosen: Any) -> Iterator[app_server.Conversation]:
        """Yields a conversation in the folder to work in."""
        with self.service.running(), self.codex.running() as app:
            hooked_codex.trust(app, self.work)
            yield app.conversation(self.work, **chosen)
        assert self.service.refused == 0

    def says(self, *texts: str, tokens: int = 0) -> None:
        """Each of the next requests is answered by one of these texts."""
        self.service.write(*(Step(items=(says(text),), tokens=tokens) for text in texts))

    def offered(self) -> list[str]:
        """Returns the pieces of our context in the last request, in order, as the model was shown them."""
        return [
            part["text"]
            for item in self.service.requests[-1]["input"]
            if item.get("role") == "developer"
            for part in item["content"]
            if part["text"].startswith(recovering.PREAMBLE)
        ]

    def expected(self, event: str, conversation: str) -> str:
        """Returns what the script says when it is run by hand for the same event."""
        result = self.recovering.operator.hook(event, session_id=conversation, cwd=str(self.work))
        return result.context(event)


@requirement("A-55", "A-57", "A-59", "A-60", "A-62", "A-64", "A-87", "A-89")
def test_evidence_reaches_the_model_byte_for_byte_and_again_when_it_has_changed(
    server: ServerProcess, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, server, package)
    scene.says("begun", "unchanged", "changed")
    with scene.conversation() as conversation:
        began = conversation.turn("Begin.")
        first = scene.offered()
        assert first == [scene.expected(START, conversation.id), scene.expected(PROMPT, conversation.id)]
        unchanged = conversation.turn("Go on.")
        second = scene.offered()
        assert second == [*first, scene.expected(PROMPT, conversation.id)]
        scene.recovering.post("lower bound done")
        changed = conversation.turn("Go on.")
        third = scene.offered()
    assert third[:-1] == second
    assert recovering.statuses(third) == ["read", "unchanged", "unchanged", "read"]
    (progress,) = recovering.shown(third[-1])["handoff_brief"]["task"]["recent_progress"]["items"]
    assert progress["excerpt"] == "lower bound done"
    assert len(first[1].encode()) < len(first[0].encode()) / 2
    for turn in (began, unchanged, changed):
        assert (turn.status, turn.disturbed()) == ("completed", [])
    assert [len(turn.runs_of(TOLD_START)) for turn in (began, unchanged, changed)] == [1, 0, 0]


@requirement("A-59", "A-75", "A-76", "A-89")
def test_compaction_brings_the_whole_evidence_again(
    server: ServerProcess, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, server, package)
    scene.says("begun", "what was done so far", "after the first compaction")
    scene.says("nearly full", tokens=FULL_WINDOW)
    scene.says("what was done since", "after the second compaction")
    with scene.conversation() as conversation:
        conversation.turn("Begin.")
        assert conversation.compacted().status == "completed"
        asked_for = conversation.turn("Go on after I compacted it.")
        after = scene.offered()
        whole = [scene.expected(START, conversation.id), scene.expected(PROMPT, conversation.id)]
        conversation.turn("Fill the window.")
        by_itself = conversation.turn("Go on after it compacted itself.")
        last = scene.offered()
    assert (after, last[-2:]) == (whole, whole)
    assert recovering.statuses(whole) == ["read", "unchanged"]
    for turn in (asked_for, by_itself):
        assert (turn.status, turn.disturbed()) == ("completed", [])
        assert len(turn.runs_of(TOLD_START)) == 1


@requirement("A-20", "A-54", "A-61", "A-80", "A-82")
def test_server_that_never_answers_delays_a_turn_within_the_deadline_and_blocks_it_never(
    server: ServerProcess, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, server, package, PROMPT)
    scene.says("it went on", "and on")
    with socket.create_server(("127.0.0.1", 0)) as mute, scene.conversation() as conversation:
        origin = f"http://127.0.0.1:{mute.getsockname()[1]}"
        scene.recovering.lead_to(origin)
        waited = conversation.turn("The Server never answers.")
        mute.settimeout(DEADLINE_S)
        mute.accept()[0].close()
        mute.close()
        dead = conversation.turn("The Server is gone.")
    for turn in (waited, dead):
        assert turn.status == "completed"
        assert turn.disturbed() == [(TOLD_PROMPT, "failed", ["hook exited with code 1"])]
        (run,) = turn.runs_of(TOLD_PROMPT)
        # The bound itself is what is promised here; a second is for starting the interpreter.
        assert run["durationMs"] <= (DEADLINE_S + 1) * 1_000
    assert (scene.offered(), scene.recovering.operator.snapshots()) == ([], {})


@requirement("A-56", "A-61", "A-62", "A-97")
def test_project_that_was_moved_away_is_refused_visibly_and_shows_nothing_old(
    server: ServerProcess, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, server, package)
    scene.says("begun", "it went on")
    with scene.conversation() as conversation:
        conversation.turn("Begin.")
        before, kept = scene.offered(), scene.recovering.operator.snapshots()
        project = scene.recovering.project
        project.rename(project.with_name("moved"))
        moved = conversation.turn("Go on.")
        again = scene.recovering.operator.hook(PROMPT, session_id=conversation.id, cwd=str(scene.work))
    assert moved.status == "completed"
    assert moved.disturbed() == [(TOLD_PROMPT, "failed", ["hook exited with code 1"])]
    assert (scene.offered(), again.reason) == (before, "project_root_replaced")
    assert scene.recovering.operator.snapshots() == kept


@requirement("A-54", "A-103")
def test_conversation_that_codex_does_not_keep_is_ignored_unless_it_is_named(
    server: ServerProcess, tmp_path: Path, package: str
) -> None:
    scene = Scene(tmp_path, server, package)
    scene.says("a title", "another title")
    with scene.conversation(ephemeral=True) as conversation:
        title = conversation.turn("Generate a very short title.")
        assert (scene.offered(), scene.recovering.operator.snapshots()) == ([], {})
        scene.recovering.associate(scene.work, local=conversation.id)
        conversation.turn("Generate another one.")
    assert (title.status, title.disturbed()) == ("completed", [])
    assert [len(title.runs_of(event)) for event in (TOLD_START, TOLD_PROMPT)] == [1, 1]
    assert recovering.statuses(scene.offered()) == ["read"]
